"""Pending rows are found by position, in any order of arrival and release."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.release.publisher import Pending
from castleguard.schema.coded import CodedRows

KINDS = pa.schema([("note", pa.string()), ("row", pa.int64())])


def chunk(first: int, count: int) -> tuple[CodedRows, pa.Table]:
    """Rows whose values are all their own position."""
    at = np.arange(first, first + count)
    coded = CodedRows(
        quasi=np.stack([at, -at], axis=1).astype(np.float64),
        person=at.astype(np.uint64),
        sensitive=at.reshape(count, 1).astype(np.int64),
        to_root=at % 3 == 0,
    )
    return coded, pa.table({"note": [f"n{number}" for number in at], "row": at}, schema=KINDS)


def check(pending: Pending, positions: list[int]) -> None:
    wanted = np.array(positions, dtype=np.int64)
    coded = pending.coded(wanted)
    assert coded.person.tolist() == positions
    assert coded.quasi[:, 1].tolist() == [-float(p) for p in positions]
    assert coded.sensitive[:, 0].tolist() == positions
    assert coded.to_root.tolist() == [p % 3 == 0 for p in positions]
    assert pending.payload(wanted, KINDS).to_pylist() == [{"note": f"n{p}", "row": p} for p in positions]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12), st.booleans()), max_size=60))
def test_rows_are_found_by_position(steps: list[tuple[int, int, bool]]) -> None:
    pending, oldest, following = Pending(2, 1), 0, 0
    for arriving, leaving, restart in steps:
        pending.append(*chunk(following, arriving))
        following += arriving
        assert pending.next == following
        check(pending, list(range(following - 1, oldest - 1, -1)))
        oldest = min(oldest + leaving, following)
        pending.forget(oldest)
        if restart:
            first, coded, gone, payload = pending.snapshot(KINDS)
            assert (first, coded.person.size, payload.num_rows) == (oldest, following - oldest, following - oldest)
            pending = Pending(2, 1)
            pending.restore(first, coded, gone, payload)
        check(pending, list(range(oldest, following)))


def test_forgetting_an_earlier_position_changes_nothing() -> None:
    pending = Pending(2, 1)
    pending.append(*chunk(0, 5))
    pending.forget(3)
    pending.forget(1)
    check(pending, [3, 4])


def test_memory_does_not_grow_with_the_stream() -> None:
    pending = Pending(2, 1)
    for first in range(0, 20_000, 10):
        pending.append(*chunk(first, 10))
        pending.forget(first)
    assert pending._rows.person.size <= 200
    assert len(pending._payload) <= 40


def test_a_payload_without_columns_stays_empty() -> None:
    pending = Pending(2, 1)
    pending.append(chunk(0, 3)[0], pa.table({}))
    assert pending.payload(np.array([0, 2]), pa.schema([])).num_columns == 0


@pytest.mark.parametrize("positions", [[1, 1], [0], [7], [-1]])
def test_a_row_that_left_or_never_arrived_cannot_leave(positions: list[int]) -> None:
    pending = Pending(2, 1)
    pending.append(*chunk(0, 5))
    pending.leave(np.array([0, 2]))
    with pytest.raises(AssertionError):
        pending.leave(np.array(positions))


def test_a_row_left_out_at_the_intake_cannot_leave() -> None:
    pending = Pending(2, 1)
    pending.append(*chunk(0, 3), np.array([True, False, True]))
    pending.leave(np.array([0]))
    with pytest.raises(AssertionError, match="decided twice, or never arrived"):
        pending.leave(np.array([1]))
