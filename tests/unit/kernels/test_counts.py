"""Counting tables agree with a plain Counter, in a table so small that entries collide."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.arrays import Ints2, Table
from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.counts import count_in, count_of, count_out, new_table

ENTRIES = 8
KEYS = (0, 1, 2, 16, 2**32, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15)

Change = tuple[int, int, bool]  # owner, key, whether it is counted in


@entry_kernel
def replay(
    table: Table,
    owners: NDArray[np.int64],
    keys: NDArray[np.uint64],
    entering: NDArray[np.bool_],
    counts: Ints2,
) -> None:
    """Apply the changes in order; return the count after each, from the change itself and from a lookup."""
    for at in range(owners.size):
        if entering[at]:
            counts[0, at] = count_in(table, owners[at], keys[at])
        else:
            counts[0, at] = count_out(table, owners[at], keys[at])
        counts[1, at] = count_of(table, owners[at], keys[at])


def run(table: Table, changes: list[Change]) -> tuple[list[int], list[int]]:
    owners = np.array([owner for owner, _, _ in changes], dtype=np.int64)
    keys = np.array([key for _, key, _ in changes], dtype=np.uint64)
    entering = np.array([enters for _, _, enters in changes], dtype=np.bool_)
    counts = np.zeros((2, len(changes)), dtype=np.int64)
    replay(table, owners, keys, entering, counts)
    return counts[0].tolist(), counts[1].tolist()


@st.composite
def change_lists(draw: st.DrawFn) -> list[Change]:
    """Changes that never exceed ENTRIES entries and never remove a missing entry."""
    counter: Counter[tuple[int, int]] = Counter()
    changes: list[Change] = []
    entries = st.tuples(st.integers(0, 3), st.sampled_from(KEYS))
    for owner, key in draw(st.lists(entries, max_size=80)):
        held = counter[owner, key]
        enters = held == 0 or draw(st.booleans())
        if held or len(+counter) < ENTRIES:
            counter[owner, key] += 1 if enters else -1
            changes.append((owner, key, enters))
    return changes


@given(change_lists())
def test_counts_match_a_plain_counter(changes: list[Change]) -> None:
    counter: Counter[tuple[int, int]] = Counter()
    expected = []
    for owner, key, enters in changes:
        counter[owner, key] += 1 if enters else -1
        expected.append(counter[owner, key])
    table = new_table(ENTRIES)
    assert run(table, changes) == (expected, expected)
    live = {(int(entry >> 32), int(key)): int(entry & 0xFFFFFFFF) for key, entry in table.tolist() if entry}
    assert live == +counter


@given(change_lists())
def test_an_emptied_table_equals_a_new_one(changes: list[Change]) -> None:
    counter: Counter[tuple[int, int]] = Counter()
    for owner, key, enters in changes:
        counter[owner, key] += 1 if enters else -1
    table = new_table(ENTRIES)
    run(table, changes + [(owner, key, False) for owner, key in counter.elements()])
    assert not table.any()


def test_a_table_is_at_most_half_full() -> None:
    assert [new_table(entries).shape[0] for entries in (0, 1, 8, 9, 16, 17)] == [16, 16, 16, 32, 32, 64]
