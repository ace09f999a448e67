"""Input order: a decided row waits for all earlier ones, and no row is lost."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from castleguard.release.publisher import InputOrder, Outgoing, join, no_outgoing, select


def leaving(positions: list[int], groups: list[int]) -> Outgoing:
    """Rows in groups; the box of a group is its number, so it can be recognised anywhere."""
    count = max(groups, default=-1) + 1
    box = np.arange(count, dtype=np.float64).reshape(count, 1)
    position, group = np.array(positions, dtype=np.int64), np.array(groups, dtype=np.int64)
    return Outgoing(position, group, box, box + 0.5, box[:, 0], np.zeros(count, dtype=np.int64))


def boxes(rows: Outgoing) -> list[tuple[int, float]]:
    return [(int(p), float(rows.lower[g, 0])) for p, g in zip(rows.position, rows.group, strict=True)]


def test_rows_leave_once_all_earlier_rows_are_decided() -> None:
    order = InputOrder(1)
    assert boxes(order.release(leaving([3, 1], [0, 1]), oldest=0)) == []
    assert boxes(order.release(leaving([0], [0]), oldest=2)) == [(0, 0.0), (1, 1.0)]
    assert boxes(order.held) == [(3, 0.0)]
    assert boxes(order.release(no_outgoing(1), oldest=4)) == [(3, 0.0)]
    assert order.held.position.size == 0
    assert order.held.loss.size == 0


def test_a_dropped_row_is_not_waited_for() -> None:
    order = InputOrder(1)
    order.release(leaving([2], [0]), oldest=1)
    assert boxes(order.release(no_outgoing(1), oldest=3)) == [(2, 0.0)]


def test_select_keeps_only_the_boxes_it_needs() -> None:
    chosen = select(leaving([5, 6, 7], [0, 1, 2]), np.array([2, 0]))
    assert boxes(chosen) == [(7, 2.0), (5, 0.0)]
    assert chosen.loss.size == 2


def test_join_shifts_the_groups_of_the_second() -> None:
    assert boxes(join(leaving([1], [0]), leaving([2, 3], [1, 0]))) == [(1, 0.0), (2, 1.0), (3, 0.0)]


@given(st.permutations(range(12)), st.lists(st.integers(0, 12), max_size=6))
def test_every_row_leaves_once_in_order(decided: list[int], cuts: list[int]) -> None:
    order = InputOrder(1)
    out: list[tuple[int, float]] = []
    done: set[int] = set()
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        done |= set(decided[start:stop])
        oldest = min(set(range(13)) - done)
        out += boxes(order.release(leaving(decided[start:stop], list(range(stop - start))), oldest))
    assert [position for position, _ in out] == list(range(12))
