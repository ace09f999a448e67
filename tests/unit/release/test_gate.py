"""The gate alone, given decisions that no engine should make: each is refused."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from castleguard.privacy.criteria import Criteria
from castleguard.release.gate import Gate
from castleguard.schema.coded import NEW, NO_PERSON, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

# Leaves: Junior 0, Senior 1, Bachelor 2, Master 3, Doctor 4. Nodes: 0-4, 0-1, 2-4, 3-4 and the leaves.
TREE = Hierarchy.from_mapping(
    {"Any": {"School": ["Junior", "Senior"], "University": {"Bachelor": None, "Graduate": ["Master", "Doctor"]}}}
)
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10), Categorical("education", hierarchy=TREE)],
    sensitive=["job", "city"],
)
ROOT_BOX = ((0.0, 0.0), (100.0, 4.0))
BOX = ((20.0, 2.0), (40.0, 4.0))
FIVE = [(30.0, 3.0)] * 5  # points in BOX
OTHERS = (1, 2, 3, 4, 5)


def gate(
    *,
    k: int = 3,
    l: int = 1,
    l_per: str = "row",
    known: int = 10,
    on_grid: bool = True,
    reuse: bool = True,
    bounded_share: bool = False,
) -> Gate:
    criteria = Criteria(k=k, l=l, l_per=l_per)  # type: ignore[arg-type]
    return Gate(SCHEMA, criteria, known=known, on_grid=on_grid, reuse=reuse, bounded_share=bounded_share)


def rows(
    points: Sequence[tuple[float, float]] = FIVE,
    persons: Sequence[int] = OTHERS,
    jobs: Sequence[int] | None = None,
    cities: Sequence[int] | None = None,
    to_root: bool = False,
) -> CodedRows:
    count = len(persons)
    values = [list(jobs or OTHERS[:count]), list(cities or OTHERS[:count])]
    return CodedRows(
        quasi=np.array(points[:count], dtype=np.float64).reshape(count, 2),
        person=np.array(persons, dtype=np.uint64),
        sensitive=np.array(values, dtype=np.int64).T.copy(),
        to_root=np.full(count, to_root),
    )


def decide(
    groups: Sequence[Sequence[int]],
    *,
    kinds: Sequence[int] | None = None,
    boxes: Sequence[tuple[tuple[float, float], tuple[float, float]]] | None = None,
    kept: bool = True,
) -> Decisions:
    """Decisions that put rows, by their number, into groups."""
    chosen = boxes or [BOX] * len(groups)
    position = [row for members in groups for row in members]
    return Decisions(
        position=np.array(position, dtype=np.int64),
        group=np.array([number for number, members in enumerate(groups) for _ in members], dtype=np.int64),
        lower=np.array([box[0] for box in chosen], dtype=np.float64).reshape(len(groups), 2),
        upper=np.array([box[1] for box in chosen], dtype=np.float64).reshape(len(groups), 2),
        loss=np.zeros(len(groups)),
        kind=np.array(kinds or [NEW] * len(groups), dtype=np.int64),
        kept=np.full(len(groups), kept),
        event=np.zeros(len(groups), dtype=np.int64),
        seen=np.full(len(groups), len(OTHERS), dtype=np.int64),
        dropped=np.empty(0, dtype=np.int64),
    )


def passes(checked: Gate, decisions: Decisions, coded: CodedRows) -> list[bool]:
    at = decisions.position
    taken = CodedRows(coded.quasi[at], coded.person[at], coded.sensitive[at], coded.to_root[at])
    flags: NDArray[np.bool_] = checked.check(decisions, taken)
    return [bool(flag) for flag in flags]


def test_a_group_with_k_persons_passes() -> None:
    assert passes(gate(), decide([[0, 1, 2]]), rows()) == [True]


def test_with_reuse_off_every_release_must_pass_by_itself() -> None:
    """Single rows can join neither the root nor a box that passed before, not even after a restore."""
    checked = gate(reuse=False)
    assert passes(checked, decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [True]
    assert passes(checked, decide([[0, 1, 2]]), rows()) == [True]
    open_root = gate()
    passes(open_root, decide([[0, 1, 2], [0, 1, 2]], kinds=[ROOT, NEW], boxes=[ROOT_BOX, BOX]), rows())
    restored = gate(reuse=False)
    restored.restore(open_root.snapshot())
    for one in (checked, restored):
        assert passes(one, decide([[3]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [False]
        assert passes(one, decide([[3, 4]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [False]
        assert passes(one, decide([[2, 3, 4]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [True]
        assert passes(one, decide([[3]], kinds=[REUSED]), rows()) == [False]
        assert passes(one, decide([[2, 3, 4]], kinds=[REUSED]), rows()) == [False]
        assert passes(one, decide([[3, 4]]), rows()) == [False]


def test_a_group_below_k_is_refused() -> None:
    assert passes(gate(), decide([[0, 1]]), rows()) == [False]


def test_persons_are_counted_and_not_rows() -> None:
    assert passes(gate(), decide([[0, 1, 2, 3, 4]]), rows(persons=(1, 1, 2, 2, 2))) == [False]


def test_a_row_listed_three_times_is_one_person() -> None:
    assert passes(gate(), decide([[0, 0, 0]]), rows()) == [False]


NO_ONE = int(NO_PERSON)


@pytest.mark.parametrize(
    ("persons", "passed"),
    [
        ((1, 2, 3), True),
        ((1, 2, 3, 4, 5), True),
        ((1, 1, 2, 3, 4), False),  # five rows: a person may have one
        ((1, 1, 2, 2, 3, 3), True),  # six rows: a person may have two
        ((1, 1, 1, 2, 2, 3, 3, 4), False),
        ((1, 2, 3, NO_ONE), True),
        ((1, 2, 3, NO_ONE, NO_ONE), False),  # rows without a person are one person's
        ((1, 2, NO_ONE), False),  # and do not count towards k
    ],
)
@pytest.mark.parametrize("kind", [NEW, ROOT])
def test_with_bounded_share_a_person_above_one_kth_of_a_group_is_refused(
    persons: tuple[int, ...], passed: bool, kind: int
) -> None:
    checked = gate(k=3, reuse=False, bounded_share=True)
    box = ROOT_BOX if kind == ROOT else BOX
    decisions = decide([range(len(persons))], kinds=[kind], boxes=[box], kept=False)
    coded = rows([(30.0, 3.0)] * len(persons), persons, jobs=[1] * len(persons), cities=[1] * len(persons))
    assert passes(checked, decisions, coded) == [passed]


def test_shares_are_counted_within_each_group() -> None:
    checked = gate(k=2, reuse=False, bounded_share=True)
    coded = rows([(30.0, 3.0)] * 7, (1, 2, 1, 1, 2, 1, 2), jobs=[1] * 7, cities=[1] * 7)
    assert passes(checked, decide([[0, 1], [2, 3, 4], [5, 6]], kept=False), coded) == [True, False, True]


def test_every_group_of_a_release_is_judged_by_itself() -> None:
    assert passes(gate(k=2), decide([[0, 1], [2], [3, 4]]), rows()) == [True, False, True]


def test_rows_of_several_groups_may_be_interleaved() -> None:
    mixed = decide([[0, 1], [2, 3]])._replace(
        position=np.array([0, 2, 1, 3], dtype=np.int64), group=np.array([0, 1, 0, 1], dtype=np.int64)
    )
    assert passes(gate(k=2), mixed, rows()) == [True, True]
    assert passes(gate(k=2), mixed, rows(persons=(1, 1, 2, 3, 4))) == [False, True]


@pytest.mark.parametrize("column", ["jobs", "cities"])
def test_a_group_below_l_in_any_sensitive_column_is_refused(column: str) -> None:
    checked = gate(l=3)
    assert passes(checked, decide([[0, 1, 2]]), rows()) == [True]
    values = {column: (7, 7, 8, 9, 9)}
    assert passes(checked, decide([[0, 1, 2]]), rows(**values)) == [False]  # type: ignore[arg-type]


def test_per_person_one_person_counts_for_one_value_only() -> None:
    """Persons 2 and 3 have the same job; person 1 has the other two, and can be matched to one of them only."""
    coded = rows(persons=(1, 1, 2, 3, 3), jobs=(5, 6, 7, 7, 7), cities=(1, 2, 3, 4, 5))
    assert passes(gate(l=3), decide([[0, 1, 2, 3, 4]]), coded) == [True]
    assert passes(gate(l=3, l_per="person"), decide([[0, 1, 2, 3, 4]]), coded) == [False]
    assert passes(gate(l=2, l_per="person"), decide([[0, 1, 2, 3, 4]]), coded) == [True]


def test_a_reuse_of_an_unknown_box_is_refused() -> None:
    assert passes(gate(), decide([[0]], kinds=[REUSED]), rows()) == [False]


def test_reuse_of_an_unknown_box_is_refused_even_with_k_persons() -> None:
    assert passes(gate(), decide([[0, 1, 2, 3, 4]], kinds=[REUSED]), rows()) == [False]


def test_a_known_box_can_be_reused_by_a_single_row() -> None:
    checked = gate()
    assert passes(checked, decide([[0, 1, 2]]), rows()) == [True]
    assert passes(checked, decide([[3]], kinds=[REUSED]), rows()) == [True]


def test_a_box_is_known_to_later_groups_of_the_same_call_only() -> None:
    assert passes(gate(), decide([[0, 1, 2], [3]], kinds=[NEW, REUSED]), rows()) == [True, True]
    assert passes(gate(), decide([[3], [0, 1, 2]], kinds=[REUSED, NEW]), rows()) == [False, True]


def test_a_refused_box_is_not_known() -> None:
    assert passes(gate(), decide([[0, 1], [2]], kinds=[NEW, REUSED]), rows()) == [False, False]


def test_a_neighbouring_box_is_another_box() -> None:
    wider = ((20.0, 2.0), (50.0, 4.0))
    decisions = decide([[0, 1, 2], [3]], kinds=[NEW, REUSED], boxes=[BOX, wider])
    assert passes(gate(), decisions, rows()) == [True, False]


def test_the_box_used_least_recently_is_forgotten_first() -> None:
    checked = gate(k=2, known=2)
    first, second, third = (((low, 2.0), (40.0, 4.0)) for low in (0.0, 10.0, 20.0))
    assert passes(checked, decide([[0, 1], [2, 3]], boxes=[first, second]), rows()) == [True, True]
    assert passes(checked, decide([[4]], kinds=[REUSED], boxes=[first]), rows()) == [True]
    assert passes(checked, decide([[0, 1]], boxes=[third]), rows()) == [True]
    assert passes(checked, decide([[4]], kinds=[REUSED], boxes=[second]), rows()) == [False]
    assert passes(checked, decide([[4], [4]], kinds=[REUSED] * 2, boxes=[first, third]), rows()) == [True, True]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        pytest.param((40.0, 2.0), (60.0, 4.0), id="row below its range"),
        pytest.param((0.0, 2.0), (20.0, 4.0), id="row above its range"),
        pytest.param((20.0, 0.0), (40.0, 1.0), id="row outside its node"),
        pytest.param((25.0, 2.0), (40.0, 4.0), id="lower bound off the grid"),
        pytest.param((20.0, 2.0), (35.5, 4.0), id="upper bound off the grid"),
        pytest.param((-10.0, 2.0), (40.0, 4.0), id="below the domain"),
        pytest.param((20.0, 2.0), (110.0, 4.0), id="above the domain"),
        pytest.param((-np.inf, 2.0), (np.inf, 4.0), id="endless"),
        pytest.param((40.0, 2.0), (20.0, 4.0), id="upside down"),
        pytest.param((np.nan, 2.0), (40.0, 4.0), id="no number"),
        pytest.param((20.0, 1.0), (40.0, 3.0), id="leaves of no node"),
        pytest.param((20.0, 2.0), (40.0, 3.0), id="a part of a node's leaves"),
        pytest.param((20.0, 0.0), (40.0, 5.0), id="more leaves than there are"),
        pytest.param((20.0, -1.0), (40.0, 4.0), id="a leaf before the first"),
        pytest.param((20.0, 2.5), (40.0, 4.0), id="between two leaves"),
    ],
)
def test_a_box_that_is_not_public_is_refused(lower: tuple[float, float], upper: tuple[float, float]) -> None:
    for kind in (NEW, REUSED, ROOT):
        checked = gate()
        passes(checked, decide([[0, 1, 2]]), rows())
        passes(checked, decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows())
        forged = decide([[0, 1, 2]], kinds=[kind], boxes=[(lower, upper)])
        assert passes(checked, forged, rows()) == [False]


def test_a_row_outside_its_box_fails_its_own_group_only() -> None:
    points = [(30.0, 3.0)] * 4 + [(90.0, 3.0)]
    assert passes(gate(k=2), decide([[0, 1], [2, 3, 4]]), rows(points)) == [True, False]


def test_a_number_on_the_upper_bound_lies_in_the_next_cell() -> None:
    corners = [(20.0, 2.0), (39.9, 4.0), (20.0, 4.0)]
    assert passes(gate(), decide([[0, 1, 2]]), rows(corners, persons=(1, 2, 3))) == [True]
    beyond = [(20.0, 2.0), (40.0, 4.0), (20.0, 4.0)]
    assert passes(gate(), decide([[0, 1, 2]]), rows(beyond, persons=(1, 2, 3))) == [False]


def test_the_last_edge_lies_in_the_last_cell() -> None:
    last = decide([[0, 1, 2]], boxes=[((90.0, 2.0), (100.0, 4.0))])
    assert passes(gate(), last, rows([(90.0, 2.0), (100.0, 3.0), (100.0, 4.0)], persons=(1, 2, 3))) == [True]


def test_a_box_of_width_zero_is_refused_unless_the_domain_has_one_point() -> None:
    point = decide([[0, 1, 2]], boxes=[((30.0, 3.0), (30.0, 3.0))])
    assert passes(gate(), point, rows()) == [False]
    at_the_end = decide([[0, 1, 2]], boxes=[((100.0, 3.0), (100.0, 3.0))])
    assert passes(gate(), at_the_end, rows([(100.0, 3.0)] * 5)) == [False]
    schema = Schema(
        person="pid",
        quasi_identifiers=[Numeric("age", lower=30, upper=30), Categorical("education", hierarchy=TREE)],
        sensitive=["job", "city"],
    )
    alone = Gate(schema, Criteria(k=3), known=10, on_grid=True)
    assert passes(alone, point, rows()) == [True]


def test_a_joint_group_is_checked_with_half_open_cells() -> None:
    no_tokens = np.empty(0, dtype=np.uint64)
    box = (np.array([20.0, 2.0]), np.array([40.0, 4.0]))
    no_values = np.empty((0, 2), dtype=np.int64)
    assert gate().check_joint(box, rows(), no_tokens, no_values)
    assert not gate().check_joint(box, rows([(40.0, 3.0)] * 5), no_tokens, no_values)
    assert not gate().check_joint((np.array([30.0, 3.0]), np.array([30.0, 3.0])), rows(), no_tokens, no_values)


def test_paper_mode_needs_no_grid_but_keeps_the_domain() -> None:
    checked = gate(on_grid=False)
    assert passes(checked, decide([[0, 1, 2]], boxes=[((29.5, 3.0), (30.5, 4.0))]), rows()) == [True]
    assert passes(checked, decide([[0, 1, 2]], boxes=[((-1.0, 3.0), (30.5, 4.0))]), rows()) == [False]


def test_the_root_opens_with_k_persons_and_then_stays_open() -> None:
    checked = gate()
    alone = decide([[0]], kinds=[ROOT], boxes=[ROOT_BOX])
    assert passes(checked, alone, rows()) == [False]
    assert passes(checked, decide([[0, 1]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [False]
    assert passes(checked, decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [True]
    assert passes(checked, alone, rows()) == [True]


def test_the_root_opens_with_l_values_only() -> None:
    checked = gate(l=2)
    opening = decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX])
    assert passes(checked, opening, rows(cities=(4, 4, 4, 5, 5))) == [False]
    assert passes(checked, decide([[3]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [False]
    assert passes(checked, opening, rows()) == [True]


def test_a_root_group_must_have_the_whole_domain() -> None:
    assert passes(gate(), decide([[0, 1, 2]], kinds=[ROOT], boxes=[BOX]), rows()) == [False]


def test_an_open_root_does_not_make_other_boxes_known() -> None:
    checked = gate()
    passes(checked, decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows())
    assert passes(checked, decide([[0]], kinds=[REUSED], boxes=[ROOT_BOX]), rows()) == [False]


@pytest.mark.parametrize("kind", [NEW, REUSED])
@pytest.mark.parametrize("box", [BOX, ROOT_BOX])
def test_a_row_for_the_root_only_is_refused_in_any_other_group(
    kind: int, box: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    checked = gate()
    passes(checked, decide([[0, 1, 2]], boxes=[box]), rows())
    assert passes(checked, decide([[0, 1, 2]], kinds=[kind], boxes=[box]), rows(to_root=True)) == [False]
    assert passes(checked, decide([[0, 1, 2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows(to_root=True)) == [True]


def test_one_root_only_row_fails_a_group_that_is_not_the_root() -> None:
    coded = rows()
    coded.to_root[1] = True
    assert passes(gate(k=2), decide([[0, 1, 2], [3, 4]]), coded) == [False, True]


def test_an_unknown_kind_of_group_does_not_open_the_root() -> None:
    checked = gate()
    assert passes(checked, decide([[0]], kinds=[7], boxes=[BOX]), rows()) == [False]
    assert passes(checked, decide([[0]], kinds=[-1], boxes=[BOX]), rows()) == [False]


def test_a_restored_gate_knows_the_same_boxes() -> None:
    checked = gate(k=2, known=2)
    boxes = [((low, 2.0), (40.0, 4.0)) for low in (0.0, 10.0, 20.0)]
    passes(checked, decide([[0, 1]] * 3, boxes=boxes), rows())
    passes(checked, decide([[0, 1]], kinds=[ROOT], boxes=[ROOT_BOX]), rows())
    twin = gate(k=2, known=2)
    twin.restore(checked.snapshot())
    for one in (checked, twin):
        reuses = decide([[2]] * 3, kinds=[REUSED] * 3, boxes=boxes)
        assert passes(one, reuses, rows()) == [False, True, True]
        assert passes(one, decide([[2]], kinds=[ROOT], boxes=[ROOT_BOX]), rows()) == [True]


def test_empty_decisions_are_accepted() -> None:
    nothing = decide([])
    assert passes(gate(l=2), nothing, rows()) == []


def test_a_long_augmenting_path_does_not_break_the_count_per_person() -> None:
    """Person i has the values i - 1 and i, the first one a further value: the augmenting path visits all of them."""
    count = 3000
    persons = [0] + [number + side for number in range(count) for side in (0, 1)]
    values = [count] + [number for number in range(count) for _ in (0, 1)]
    order = [*range(1, len(persons)), 0]
    coded = rows([(30.0, 3.0)] * len(persons), persons=persons, jobs=values, cities=values)
    assert passes(gate(l=3, l_per="person"), decide([order]), coded) == [True]
