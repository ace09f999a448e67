"""The gate with criteria on distributions: counts, reference, remembered pairs, and decisions it must not trust."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria
from castleguard.release.gate import Gate
from castleguard.release.shape_judge import ShapeJudge
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("illness", values=["a", "b", "c"])],
)
BOX, OTHER_BOX, ROOT_BOX = (20.0, 40.0), (20.0, 50.0), (0.0, 100.0)
ENTROPY = Criteria(k=2, l=2, diversity="entropy")
RECURSIVE = Criteria(k=2, l=2, diversity="recursive", c=1.5)


def close(t: float, k: int = 2, **given: Any) -> Criteria:
    """t-closeness with almost no smoothing and no burn-in."""
    return Criteria(k=k, closeness=Closeness(**{"t": t, "burn_in": 0, "alpha": 1e-9, **given}))


class Stream:
    """A gate, and the rows that it has observed."""

    def __init__(
        self, criteria: Criteria, *, known: int = 10, remembered: int = 1000, bounded_share: bool = False
    ) -> None:
        self.gate = Gate(
            SCHEMA,
            criteria,
            known=known,
            on_grid=True,
            remembered=remembered,
            reuse=not bounded_share,
            bounded_share=bounded_share,
        )
        self.rows: list[tuple[int, int]] = []

    def arrive(self, *rows: tuple[int, int], present: Sequence[bool] | None = None) -> None:
        """Observe rows given as (person, value)."""
        self.rows += rows
        flags = None if present is None else np.array(present)
        self.gate.observe(np.array([[value] for _, value in rows], dtype=np.int64).reshape(-1, 1), flags)

    def check(
        self,
        *groups: Sequence[int],
        kinds: Sequence[int] | None = None,
        boxes: Sequence[tuple[float, float]] | None = None,
        seen: Sequence[int] | None = None,
        kept: bool = True,
        dropped: Sequence[int] = (),
        dropped_seen: Sequence[int] = (),
    ) -> list[bool]:
        """Whether groups of rows, given by position, pass; decided now unless `seen` is given."""
        position = np.array([row for members in groups for row in members], dtype=np.int64)
        bounds = np.array(boxes or [BOX] * len(groups)).reshape(-1, 2)
        decisions = Decisions(
            position=position,
            group=np.array([number for number, members in enumerate(groups) for _ in members], dtype=np.int64),
            lower=bounds[:, :1].copy(),
            upper=bounds[:, 1:].copy(),
            loss=np.zeros(len(groups)),
            kind=np.array(kinds or [NEW] * len(groups), dtype=np.int64),
            kept=np.full(len(groups), kept),
            event=np.zeros(len(groups), dtype=np.int64),
            seen=np.array(seen or [len(self.rows)] * len(groups), dtype=np.int64),
            dropped=np.array(dropped, dtype=np.int64),
            dropped_seen=np.array(dropped_seen or [len(self.rows)] * len(dropped), dtype=np.int64),
        )
        chosen = [self.rows[row] for row in position]
        coded = CodedRows(
            quasi=np.full((len(chosen), 1), 30.0),
            person=np.array([person for person, _ in chosen], dtype=np.uint64),
            sensitive=np.array([[value] for _, value in chosen], dtype=np.int64).reshape(-1, 1),
            to_root=np.zeros(len(chosen), dtype=np.bool_),
        )
        return [bool(flag) for flag in self.gate.check(decisions, coded)]


def started(criteria: Criteria, *rows: tuple[int, int], **given: Any) -> Stream:
    stream = Stream(criteria, **given)
    stream.arrive(*rows)
    return stream


# -- counts ------------------------------------------------------------------------------------------------------------


def test_a_group_below_the_entropy_is_refused() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (3, 0), (4, 1), (5, 0))
    assert stream.check([0, 1], [2, 3]) == [True, True]
    assert stream.check([0, 1, 2], boxes=[OTHER_BOX]) == [False]  # two of three have the same value


def test_a_group_below_recursive_diversity_is_refused() -> None:
    stream = started(RECURSIVE, (1, 0), (2, 1), (3, 0), (4, 0))
    assert stream.check([0, 1], [0, 1, 2], boxes=[BOX, OTHER_BOX]) == [True, False]


def test_a_person_counts_once_for_a_value() -> None:
    rows = [(1, 0)] * 5 + [(2, 1)]
    assert started(ENTROPY, *rows).check(range(6)) == [True]
    assert started(RECURSIVE, *rows).check(range(6)) == [True]
    assert started(close(0.5), *rows).check(range(6)) == [True]  # half each, of five sixths and one sixth
    assert started(close(0.3), *rows).check(range(6)) == [False]


def test_a_code_outside_the_values_counts_as_missing() -> None:
    stream = started(ENTROPY, (1, 3), (2, 77), (3, -1), (4, 0))
    assert stream.check([0, 1, 2], [0, 3], boxes=[BOX, OTHER_BOX]) == [False, True]


@pytest.mark.parametrize(("second", "passes"), [([1, 1], True), ([0, 1], False), ([1, 0], False)])
def test_every_sensitive_column_is_judged(second: list[int], passes: bool) -> None:
    schema = Schema(
        person="pid",
        quasi_identifiers=SCHEMA.quasi_identifiers,
        sensitive=[Sensitive("illness", values=["a", "b"]), Sensitive("fare", bins=[10, 20])],
    )
    judge = ShapeJudge(schema, ENTROPY, remembered=100)
    rows = CodedRows(
        quasi=np.full((2, 1), 30.0),
        person=np.array([1, 2], dtype=np.uint64),
        sensitive=np.array([[0, 0], second]),
        to_root=np.zeros(2, dtype=np.bool_),
    )
    assert judge.keeps(judge.pairs_of(rows, np.arange(2)).counts) is passes


# -- reference ---------------------------------------------------------------------------------------------------------


def test_a_group_too_far_from_all_rows_is_refused() -> None:
    rows = [(person, person % 2) for person in range(10)]
    assert started(close(0.4), *rows).check([0, 2]) == [False]  # half of all rows have this value
    assert started(close(0.4), *rows).check([0, 1]) == [True]
    assert started(close(0.5), *rows).check([0, 2]) == [True]


def test_before_the_burn_in_nothing_passes() -> None:
    stream = started(close(1.0, burn_in=4), (1, 0), (2, 1), (3, 0))
    assert stream.check([0, 1]) == [False]
    stream.arrive((4, 0))
    assert stream.check([0, 1]) == [True]


def test_the_reference_is_that_at_the_moment_of_the_decision() -> None:
    """Half of the first two rows have each value; nine tenths of all ten have the first."""
    rows = [(1, 0), (2, 1), *((person, 0) for person in range(3, 11))]
    assert started(close(0.3), *rows).check([0, 1], seen=[2]) == [True]
    assert started(close(0.3), *rows).check([0, 1], seen=[10]) == [False]
    mixed = started(close(0.3), *rows)
    assert mixed.check([0, 1], [2, 3], seen=[2, 10], boxes=[BOX, OTHER_BOX]) == [True, True]


def test_a_moment_in_the_past_or_future_is_refused() -> None:
    rows = [(person, person % 2) for person in range(6)]
    assert started(close(1.0), *rows).check([0, 1], seen=[7]) == [False]
    assert started(close(1.0), *rows).check([0, 1], [2, 3], seen=[6, 5], boxes=[BOX, OTHER_BOX]) == [True, False]
    later = started(close(1.0), *rows)
    assert later.check([0, 1]) == [True]
    later.arrive((7, 0), (8, 1))
    assert later.check([2, 3], seen=[5]) == [False]
    assert later.check([2, 3], seen=[8]) == [True]


def test_a_moment_before_a_member_arrived_is_refused() -> None:
    rows = [(person, person % 2) for person in range(6)]
    assert started(close(1.0), *rows).check([0, 3], seen=[3]) == [False]
    assert started(close(1.0), *rows).check([0, 3], seen=[4]) == [True]
    assert started(ENTROPY, *rows).check([0, 3], seen=[3]) == [False]


def test_a_refused_moment_does_not_move_the_reference() -> None:
    stream = started(close(1.0), *((person, person % 2) for person in range(6)))
    assert stream.check([0, 1], [2, 3], seen=[99, 4], boxes=[BOX, OTHER_BOX]) == [False, True]


def test_rows_that_are_not_present_do_not_count() -> None:
    stream = Stream(close(0.3))
    stream.arrive(*((person, 0) for person in range(8)), (8, 0), (9, 1), present=[False] * 8 + [True] * 2)
    assert stream.check([8, 9]) == [True]
    stream = started(close(0.3), *((person, 0) for person in range(9)), (9, 1))
    assert stream.check([8, 9]) == [False]


def test_a_public_reference_does_not_move() -> None:
    public = {"illness": {"a": 0.5, "b": 0.5}}
    stream = started(close(0.1, reference="public", public=public), *((person, 0) for person in range(8)), (9, 1))
    assert stream.check([0, 1], [7, 8], boxes=[BOX, OTHER_BOX]) == [False, True]


# -- remembered pairs --------------------------------------------------------------------------------------------------


def test_a_reuse_that_breaks_the_distribution_is_refused() -> None:
    rows = [(person, person % 2) for person in range(10)]
    stream = started(close(0.2), *rows)
    assert stream.check([0, 1]) == [True]
    assert stream.check([2], kinds=[REUSED]) == [True]  # two of three: a sixth too much
    assert stream.check([4], kinds=[REUSED]) == [False]  # three of four: a quarter too much
    assert stream.check([3], kinds=[REUSED]) == [True]
    assert stream.check([4], kinds=[REUSED]) == [True]


def test_a_reuse_is_judged_by_the_reference_of_its_own_moment() -> None:
    stream = started(close(0.2), (1, 0), (2, 1))
    assert stream.check([0, 1]) == [True]
    stream.arrive(*((person, 0) for person in range(3, 13)))
    assert stream.check([2], kinds=[REUSED]) == [False]  # the box has two thirds, but all rows have eleven twelfths


def test_a_person_who_comes_back_with_the_same_value_changes_nothing() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (1, 0), (1, 1))
    assert stream.check([0, 1], [2], [3], kinds=[NEW, REUSED, REUSED]) == [True, True, True]
    assert stream.check([4], kinds=[REUSED]) == [False]  # a further value of the person counts


def test_two_groups_that_pass_alone_can_fail_together() -> None:
    """Person 1 counts once for its value in the union, so the other value outweighs it."""
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert stream.check([0, 1], [2, 3], boxes=[BOX, OTHER_BOX]) == [True, True]
    again = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert again.check([0, 1], [2, 3]) == [True, False]


def test_a_group_that_is_not_kept_is_judged_with_a_known_box_and_remembered_in_it() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1), (4, 0), (5, 1), (6, 0))
    assert stream.check([0, 1]) == [True]
    assert stream.check([2, 3], kept=False) == [False]
    assert stream.check([4, 5], kept=False) == [True]
    assert stream.check([6], kinds=[REUSED]) == [False]  # three of five


def test_a_box_that_is_not_kept_is_not_remembered() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert stream.check([0, 1], [2, 3], kept=False) == [True, True]


def test_a_row_that_breaks_the_distribution_of_the_root_is_refused() -> None:
    stream = started(RECURSIVE, (1, 0), (2, 1), (3, 0), (4, 1), (5, 0))
    assert stream.check([0, 1], kinds=[ROOT], boxes=[ROOT_BOX]) == [True]
    assert stream.check([2], kinds=[ROOT], boxes=[ROOT_BOX]) == [False]
    assert stream.check([3], [2], kinds=[ROOT, ROOT], boxes=[ROOT_BOX] * 2) == [False, False]


def test_a_new_group_in_the_box_of_the_root_is_judged_together_with_the_root() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert stream.check([0, 1], kinds=[ROOT], boxes=[ROOT_BOX]) == [True]
    assert stream.check([2, 3], boxes=[ROOT_BOX]) == [False]
    other_way = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert other_way.check([0, 1], boxes=[ROOT_BOX], kept=False) == [True]
    assert other_way.check([2, 3], kinds=[ROOT], boxes=[ROOT_BOX]) == [False]


def test_an_evicted_box_is_unknown() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (3, 0), (4, 1), (5, 0), known=1)
    assert stream.check([0, 1], [2, 3], [4], kinds=[NEW, NEW, REUSED], boxes=[BOX, OTHER_BOX, BOX]) == [
        True,
        True,
        False,
    ]


def test_above_the_limit_of_pairs_all_boxes_and_the_root_are_forgotten() -> None:
    stream = started(ENTROPY, *((person, person % 2) for person in range(12)), remembered=6)
    assert stream.check([0, 1], kinds=[ROOT], boxes=[ROOT_BOX]) == [True]
    assert stream.check([2, 3]) == [True]
    assert stream.check([4, 5, 6, 7], boxes=[OTHER_BOX]) == [True]  # eight pairs: too many
    assert stream.check([8, 9], kinds=[REUSED]) == [False]
    assert stream.check([8], kinds=[ROOT], boxes=[ROOT_BOX]) == [False]
    assert stream.check([8, 9], kinds=[REUSED], boxes=[OTHER_BOX]) == [True]
    assert stream.check([10, 11], kinds=[ROOT], boxes=[ROOT_BOX]) == [True]  # it can be opened again


@pytest.mark.parametrize("reference", ["cumulative", "window", "decay"])
def test_a_restored_gate_remembers_pairs_and_reference(reference: str) -> None:
    options: dict[str, dict[str, Any]] = {"cumulative": {}, "window": {"window": 4}, "decay": {"decay": 0.9}}
    criteria = close(0.2, reference=reference, **options[reference])
    stream = started(criteria, *((person, person % 2) for person in range(10)))
    assert stream.check([0, 1], [2, 3], kinds=[NEW, ROOT], boxes=[BOX, ROOT_BOX]) == [True, True]
    copy = Stream(criteria)
    copy.rows = list(stream.rows)
    copy.gate.restore(stream.gate.snapshot())
    for one in (stream, copy):
        one.arrive((20, 0), (21, 0), (22, 1))
        kinds, boxes = [REUSED, REUSED, ROOT, NEW], [BOX, BOX, ROOT_BOX, OTHER_BOX]
        assert one.check([4], [6], [8], [10, 12], kinds=kinds, boxes=boxes) == [True, False, True, True]
    for name, array in stream.gate.snapshot().items():
        assert np.array_equal(array, copy.gate.snapshot()[name])


def test_a_column_without_public_values_cannot_be_judged() -> None:
    hashed = Schema(person="pid", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=["illness"])
    with pytest.raises(PolicyError, match="entropy diversity needs the values of column 'illness'"):
        Gate(hashed, ENTROPY, known=1, on_grid=True)


def test_far_branches_of_a_tree_are_farther_than_near_ones() -> None:
    tree = Hierarchy.from_mapping({"*": {"lung": ["flu", "cough"], "skin": ["rash", "burn"]}})
    schema = Schema(
        person="pid", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=[Sensitive("illness", hierarchy=tree)]
    )
    stream = started(ENTROPY, *((person, person % 4) for person in range(8)))
    for members, passes in (([0, 1], False), ([0, 2], True)):  # flu and cough; flu and rash
        stream.gate = Gate(schema, close(0.3, distance="hierarchical"), known=1, on_grid=True)
        stream.gate.observe(np.array([[value] for _, value in stream.rows]))
        assert stream.check(members) == [passes]


def test_minus_zero_and_zero_are_the_same_bound() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1))
    assert stream.check([0, 1], [2, 3], boxes=[(0.0, 40.0), (-0.0, 40.0)]) == [True, False]


# -- rows in one release -----------------------------------------------------------------------------------------------


def test_with_bounded_share_every_row_of_a_person_counts() -> None:
    rows = [(1, 0), (1, 0), (2, 1), (3, 0), (4, 1)]
    assert started(ENTROPY, *rows).check(range(5)) == [True]
    assert started(ENTROPY, *rows, bounded_share=True).check(range(5)) == [False]
    assert started(RECURSIVE, *rows[:4], bounded_share=True).check(range(4)) == [False]
    assert started(ENTROPY, *rows, bounded_share=True).check([0, 1, 2, 4]) == [True]


def test_with_bounded_share_no_pairs_of_a_box_are_remembered() -> None:
    stream = started(ENTROPY, (1, 0), (2, 1), (1, 0), (3, 1), bounded_share=True)
    assert stream.check([0, 1]) == [True]
    assert stream.check([2, 3]) == [True]


def test_with_bounded_share_the_reference_holds_the_rows_of_earlier_releases() -> None:
    """Before the first release it is smoothing only; afterwards it holds published and dropped rows."""
    stream = started(close(0.1), (1, 0), (2, 0), (3, 1), (4, 1), bounded_share=True)
    assert stream.check([0, 1], dropped=[2]) == [False]  # the four shares are equal
    stream.arrive((5, 0), (6, 0), (7, 1))
    assert stream.check([4, 5, 6]) == [True]  # two to one, as rows 0, 1 and 2


def test_with_bounded_share_releases_of_one_call_are_judged_in_order() -> None:
    stream = started(close(0.1), *[(person, 0) for person in range(6)], bounded_share=True)
    assert stream.check([4, 5], seen=[6], dropped=[0, 1], dropped_seen=[2, 2]) == [True]
    assert stream.check([2, 3], seen=[5]) == [False]  # that moment has passed


def test_with_bounded_share_the_burn_in_counts_rows_that_have_left() -> None:
    stream = started(close(1.0, burn_in=2), (1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (6, 1), bounded_share=True)
    assert stream.check([0, 1]) == [False]
    assert stream.check([2, 3]) == [True]


def test_with_bounded_share_a_restored_gate_has_the_same_reference() -> None:
    stream = started(close(0.1), (1, 0), (2, 0), (3, 1), (4, 0), (5, 0), (6, 1), bounded_share=True)
    assert stream.check([0, 1], dropped=[2]) == [False]
    other = Stream(close(0.1), bounded_share=True)
    other.gate.restore(stream.gate.snapshot())
    other.rows = stream.rows
    assert other.check([3, 4, 5]) == [True]
