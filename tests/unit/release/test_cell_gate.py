"""The gate of SDGS alone, given decisions that its engine should not make: each is refused."""

from collections.abc import Sequence

import numpy as np
import pytest

from castleguard.privacy.criteria import Criteria
from castleguard.release.cell_gate import CellGate
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

# Leaves: Junior 0, Senior 1, Bachelor 2, Master 3. Nodes: 0-3, 0-1, 2-3 and the leaves.
TREE = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor", "Master"]}})
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10), Categorical("education", hierarchy=TREE)],
    sensitive=[Sensitive("job", values=["cook", "clerk"]), Sensitive("fare", bins=[10])],
)
Box = tuple[tuple[float, float], tuple[float, float]]  # lower, upper
WHOLE: Box = ((0, 0), (100, 3))
YOUNG: Box = ((0, 0), (50, 1))
OLD: Box = ((50, 0), (100, 1))
POINT = (20.0, 1.0)


def check(
    *groups: tuple[Box, Sequence[tuple[float, float]]],
    jobs: Sequence[int] = (0,) * 99,
    fares: Sequence[int] = (0,) * 99,
    kinds: Sequence[int] | None = None,
    events: Sequence[int] | None = None,
    to_root: Sequence[bool] = (False,) * 99,
    gate: CellGate | None = None,
    l: int = 1,
) -> list[bool]:
    """Verdicts on groups, each a box and the values of its rows. All rows are of one person, which must not matter."""
    points = [point for _, members in groups for point in members]
    count = len(points)
    decisions = Decisions(
        position=np.arange(count),
        group=np.repeat(np.arange(len(groups)), [len(members) for _, members in groups]),
        lower=np.array([box[0] for box, _ in groups], dtype=np.float64).reshape(-1, 2),
        upper=np.array([box[1] for box, _ in groups], dtype=np.float64).reshape(-1, 2),
        loss=np.zeros(len(groups)),
        kind=np.array([ROOT if box == WHOLE else NEW for box, _ in groups] if kinds is None else kinds, dtype=np.int64),
        kept=np.zeros(len(groups), dtype=np.bool_),
        event=np.array(events or [0] * len(groups), dtype=np.int64),
        seen=np.full(len(groups), count, dtype=np.int64),
        dropped=np.empty(0, dtype=np.int64),
    )
    rows = CodedRows(
        quasi=np.array(points, dtype=np.float64).reshape(-1, 2),
        person=np.zeros(count, dtype=np.uint64),
        sensitive=np.array([jobs[:count], fares[:count]], dtype=np.int64).T,
        to_root=np.array(to_root[:count], dtype=np.bool_),
    )
    flags: list[bool] = (gate or CellGate(SCHEMA, Criteria(k=3, l=l))).check(decisions, rows).tolist()
    return flags


def test_a_cell_of_k_rows_passes_even_if_all_are_of_one_person() -> None:
    assert check((YOUNG, [POINT] * 3)) == [True]
    assert check((YOUNG, [POINT] * 2)) == [False]


def test_every_cell_of_a_group_needs_k_rows() -> None:
    assert check((YOUNG, [POINT] * 6), jobs=[0, 0, 0, 1, 1, 1]) == [True]
    assert check((YOUNG, [POINT] * 6), jobs=[0, 0, 0, 0, 1, 1]) == [False]
    assert check((YOUNG, [POINT] * 6), jobs=[0, 0, 0, 1, 1, 1], fares=[0, 0, 1, 0, 0, 1]) == [False]


def test_every_sensitive_column_needs_l_values() -> None:
    assert check((YOUNG, [POINT] * 6), jobs=[0, 0, 0, 1, 1, 1], fares=[0, 0, 0, 1, 1, 1], l=2) == [True]
    assert check((YOUNG, [POINT] * 6), jobs=[0, 0, 0, 1, 1, 1], l=2) == [False]


def test_a_group_without_rows_is_refused() -> None:
    assert check((YOUNG, [])) == [False]


def test_empty_decisions_are_accepted() -> None:
    assert check() == []


@pytest.mark.parametrize(
    "box",
    [
        ((5, 0), (50, 1)),  # off the grid
        ((-10, 0), (50, 1)),  # outside the domain
        ((20, 0), (20, 1)),  # width 0
        ((50, 0), (0, 1)),  # bounds swapped
        ((0, 0), (50, 2)),  # not the leaves of a node
        ((0, 1), (50, 2)),
        ((0, 0), (50, 4)),
        ((0, 1), (50, 0)),
    ],
)
def test_a_box_that_is_not_public_is_refused(box: Box) -> None:
    assert check((box, [POINT] * 3)) == [False]


def test_a_row_outside_its_box_refuses_the_group() -> None:
    assert check((YOUNG, [POINT, POINT, (60.0, 1.0)])) == [False]
    assert check((YOUNG, [POINT, POINT, (20.0, 2.0)])) == [False]


def test_an_edge_belongs_to_the_upper_box_and_the_upper_bound_to_the_last() -> None:
    assert check((YOUNG, [(50.0, 0.0)] * 3)) == [False]
    assert check((OLD, [(50.0, 0.0), (100.0, 0.0), (100.0, 1.0)])) == [True]


def test_boxes_of_one_release_are_disjoint_or_equal() -> None:
    inner: Box = ((0, 0), (20, 0))
    three, other = [(10.0, 0.0)] * 3, [(60.0, 0.0)] * 3
    assert check((YOUNG, three), (OLD, other)) == [True, True]
    assert check((YOUNG, three), (YOUNG, three)) == [True, True]
    assert check((YOUNG, three), (inner, three), (OLD, other)) == [False, False, True]
    assert check((YOUNG, three), (inner, three), events=[0, 1]) == [True, True]


def test_the_root_may_overlap_other_boxes_only_if_all_its_rows_are_root_only() -> None:
    three = [(10.0, 0.0)] * 3
    root = [True] * 3 + [False] * 3
    assert check((WHOLE, three), (YOUNG, three), to_root=root) == [True, True]
    assert check((WHOLE, three), (YOUNG, three)) == [False, False]
    assert check((WHOLE, three * 2), to_root=root) == [True]
    assert check((YOUNG, three), to_root=root) == [False]


def test_a_wrong_kind_and_a_reused_box_are_refused() -> None:
    assert check((YOUNG, [POINT] * 3), kinds=[ROOT]) == [False]
    assert check((WHOLE, [POINT] * 3), kinds=[NEW]) == [False]
    assert check((YOUNG, [POINT] * 3), kinds=[REUSED]) == [False]


def test_rows_cannot_be_added_to_an_earlier_release_even_after_a_restore() -> None:
    gate = CellGate(SCHEMA, Criteria(k=3))
    assert check((YOUNG, [POINT] * 3), events=[4], gate=gate) == [True]
    again = CellGate(SCHEMA, Criteria(k=3))
    again.restore(gate.snapshot())
    for each in (gate, again):
        assert check((YOUNG, [POINT] * 3), events=[4], gate=each) == [False]
        assert check((YOUNG, [POINT] * 3), events=[5], gate=each) == [True]


def test_a_domain_of_one_point_is_accepted() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("x", lower=3, upper=3)])
    rows = CodedRows(
        np.full((2, 1), 3.0),
        np.arange(2, dtype=np.uint64),
        np.empty((2, 0), dtype=np.int64),
        np.zeros(2, dtype=np.bool_),
    )
    one = np.array([[3.0]])
    decisions = Decisions(
        position=np.arange(2),
        group=np.zeros(2, dtype=np.int64),
        lower=one,
        upper=one,
        loss=np.zeros(1),
        kind=np.array([ROOT]),
        kept=np.zeros(1, dtype=np.bool_),
        event=np.zeros(1, dtype=np.int64),
        seen=np.full(1, 2, dtype=np.int64),
        dropped=np.empty(0, dtype=np.int64),
    )
    assert CellGate(schema, Criteria(k=2)).check(decisions, rows).tolist() == [True]
