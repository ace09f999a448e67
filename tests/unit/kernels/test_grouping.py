"""Building blocks of splits agree with sets, dicts and sorting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.arrays import Ints2, Table
from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.counts import new_table
from castleguard.kernels.grouping import fewest_per_part, number_keys, offer, sort_by_part
from castleguard.kernels.views import Nearest

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@entry_kernel
def group(table: Table, keys: Keys, part: Ints, parts: int, out: Ints2) -> None:
    """Rows of `out`: key numbers, starts of parts, rows by part, a tally; last elements: keys, fewest keys per part."""
    count = keys.size
    out[4, 0] = number_keys(table, keys, count, out[0])
    sort_by_part(part, count, parts, out[1], out[2])
    out[4, 1] = fewest_per_part(table, part, out[0], count, parts, out[3])


@entry_kernel
def take_nearest(nearest: Nearest, limit: int, filled: Ints) -> None:
    """Offer every candidate in order."""
    for candidate in range(nearest.far.size):
        filled[0] = offer(nearest, filled[0], limit, candidate)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=60))
def test_rows_are_numbered_and_sorted_in_order_of_first_appearance(rows: list[tuple[int, int]]) -> None:
    keys, chosen = [key for key, _ in rows], [part for _, part in rows]
    parts = sorted(set(chosen))
    part = [parts.index(number) for number in chosen]
    out = np.zeros((5, len(rows) + 2), dtype=np.int64)
    arrays = np.array(keys, dtype=np.uint64), np.array(part, dtype=np.int64)
    group(new_table(len(rows)), *arrays, len(parts), out)
    first = list(dict.fromkeys(keys))
    assert out[0, : len(rows)].tolist() == [first.index(key) for key in keys]
    assert out[4, 0] == len(first)
    members = [[row for row in range(len(rows)) if part[row] == number] for number in range(len(parts))]
    assert out[2, : len(rows)].tolist() == [row for of_part in members for row in of_part]
    assert np.diff(out[1, : len(parts) + 1]).tolist() == [len(of_part) for of_part in members]
    assert out[4, 1] == min(len({keys[row] for row in of_part}) for of_part in members)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), max_size=30), st.integers(0, 12))
def test_the_nearest_candidates_are_kept_and_the_earliest_wins_ties(far: list[float], limit: int) -> None:
    filled = np.zeros(1, dtype=np.int64)
    heap = np.full(len(far) + 1, -1, dtype=np.int64)
    take_nearest(Nearest(np.array(far), np.zeros(len(far), dtype=np.int64), heap), limit, filled)
    expected = sorted(range(len(far)), key=lambda candidate: (far[candidate], candidate))[:limit]
    assert sorted(heap[: filled[0]].tolist()) == sorted(expected)
