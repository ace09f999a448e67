"""The gate of DOCA alone, given decisions that no engine should make: each is refused."""

from collections.abc import Sequence

import numpy as np
import pytest

from castleguard.release.point_gate import PointGate
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

Point = tuple[float, ...]  # age, job (of three), illness (of two, or missing)

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=10, upper=90, step=10),
        Categorical("job", hierarchy=Hierarchy.flat(["a", "b", "c"])),
    ],
    sensitive=[Sensitive("illness", values=["flu", "cold"])],
)
DELAY = 6
FINE: Point = (50.0, 1.0, 2.0)


def strict(*, k: int = 2, rows_per_person: int | None = None) -> PointGate:
    return PointGate(SCHEMA, delay=DELAY, k=k, rows_per_person=rows_per_person)


def paper(*, rows_per_person: int | None = None) -> PointGate:
    return PointGate(SCHEMA, delay=DELAY, k=None, rows_per_person=rows_per_person)


def decide(groups: Sequence[Sequence[int]], points: Sequence[Point] | None = None, *, kind: int = NEW) -> Decisions:
    """Decisions that put rows, by their positions, into groups."""
    position = [row for members in groups for row in members]
    values = [FINE] * len(position) if points is None else points
    return Decisions(
        position=np.array(position, dtype=np.int64),
        group=np.array([number for number, members in enumerate(groups) for _ in members], dtype=np.int64),
        lower=np.empty((len(groups), 0)),
        upper=np.empty((len(groups), 0)),
        loss=np.zeros(len(groups)),
        kind=np.full(len(groups), kind, dtype=np.int64),
        kept=np.zeros(len(groups), dtype=np.bool_),
        event=np.zeros(len(groups), dtype=np.int64),
        seen=np.zeros(len(groups), dtype=np.int64),
        dropped=np.empty(0, dtype=np.int64),
        points=np.array(values, dtype=np.float64).reshape(len(values), len(values[0]) if values else 0),
    )


def passes(gate: PointGate, decisions: Decisions, persons: Sequence[int] | None = None) -> list[bool]:
    """`persons`: person of each listed row; None: all different."""
    rows = decisions.position.size
    whose = range(rows) if persons is None else persons
    coded = CodedRows(
        quasi=np.zeros((rows, 2)),
        person=np.array(whose, dtype=np.uint64),
        sensitive=np.zeros((rows, 1), dtype=np.int64),
        to_root=np.zeros(rows, dtype=np.bool_),
    )
    return [bool(flag) for flag in gate.check(decisions, coded)]


def short(points: Sequence[Point]) -> list[Point]:
    """Points of paper mode, without sensitive values."""
    return [point[:2] for point in points]


def ages(*values: float) -> list[Point]:
    return [(age, 1.0, 2.0) for age in values]


def test_a_window_and_a_cluster_pass() -> None:
    assert passes(strict(), decide([[0, 1, 2, 3, 4, 5]])) == [True]
    assert passes(paper(), decide([[0, 3, 6], [2]], short([FINE] * 4))) == [True, True]


def test_empty_decisions_are_accepted() -> None:
    assert passes(strict(), decide([])) == []
    assert passes(paper(), decide([])) == []


def test_a_window_below_k_rows_is_refused() -> None:
    assert passes(strict(k=3), decide([[0, 1]])) == [False]
    assert passes(strict(k=2), decide([[0, 1]])) == [True]


def test_a_window_below_k_rows_is_refused_without_numeric_columns() -> None:
    """Then no runs of equal numbers are counted."""
    schema = Schema(person=None, quasi_identifiers=[SCHEMA.quasi_identifiers[1]])
    gate = PointGate(schema, delay=DELAY, k=3, rows_per_person=None)
    assert passes(gate, decide([[0, 1]], [(1.0,), (1.0,)])) == [False]
    assert passes(gate, decide([[2, 3, 4]], [(1.0,), (1.0,), (0.0,)])) == [True]


def test_a_group_without_rows_is_refused() -> None:
    empty = decide([[0, 1], []])
    assert passes(strict(), empty) == [True, False]
    assert passes(paper(), decide([[0], []], short([FINE]))) == [True, False]


@pytest.mark.parametrize("kind", [REUSED, ROOT])
def test_only_new_groups_pass(kind: int) -> None:
    assert passes(strict(), decide([[0, 1]], kind=kind)) == [False]
    assert passes(paper(), decide([[0, 1]], short([FINE] * 2), kind=kind)) == [False]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1])
def test_a_point_that_is_not_finite_fails_the_whole_release(bad: float, column: int) -> None:
    decisions = decide([[0, 1], [2, 3]], short([FINE] * 4))
    decisions.points[:2, column] = bad
    assert passes(paper(), decisions) == [False, False]


@pytest.mark.parametrize("points", [np.zeros((2, 2)), np.zeros((2, 4)), np.zeros((1, 3)), np.zeros((0, 0))])
def test_points_of_another_shape_are_refused(points: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    points += 50
    assert passes(strict(), decide([[0, 1]])._replace(points=points)) == [False]


def test_in_paper_mode_points_have_no_sensitive_values() -> None:
    assert passes(paper(), decide([[0, 1]])) == [False]
    assert passes(strict(), decide([[0, 1]], short([FINE] * 2))) == [False]


def test_rows_of_a_window_arrive_within_it() -> None:
    assert passes(strict(), decide([[0, DELAY - 1]])) == [True]
    assert passes(strict(), decide([[0, DELAY]])) == [False]
    # Close together, but in two windows: the bound on a person's rows holds within each.
    assert passes(strict(), decide([[DELAY - 1, DELAY]])) == [False]


def test_rows_of_a_cluster_arrive_within_the_delay_of_its_first() -> None:
    assert passes(paper(), decide([[0, DELAY]], short([FINE] * 2))) == [True]
    assert passes(paper(), decide([[0, DELAY + 1]], short([FINE] * 2))) == [False]


def test_clusters_may_overlap_in_time_but_windows_may_not() -> None:
    overlapping = [[0, 2], [1, 3]]
    assert passes(paper(), decide(overlapping, short([FINE] * 4))) == [True, True]
    assert passes(strict(), decide(overlapping)) == [True, False]
    assert passes(strict(), decide([[0, 1], [2, 3]])) == [True, True]


def test_a_window_follows_all_windows_before_it() -> None:
    gate = strict()
    assert passes(gate, decide([[2, 3]])) == [True]
    assert passes(gate, decide([[0, 1]])) == [False]
    assert passes(gate, decide([[3, 4]])) == [False]
    # A refused window counts too: its rows are gone.
    assert passes(gate, decide([[4, 5]])) == [False]
    assert passes(gate, decide([[6, 7]])) == [True]


def test_the_latest_window_is_part_of_the_snapshot() -> None:
    gate, continued = strict(), strict()
    assert passes(gate, decide([[2, 3]])) == [True]
    continued.restore(gate.snapshot())
    assert passes(continued, decide([[3, 4]])) == [False]
    assert passes(strict(), decide([[3, 4]])) == [True]


def test_a_row_counts_once() -> None:
    assert passes(strict(), decide([[0, 0]])) == [False]
    assert passes(paper(), decide([[0, 0]], short([FINE] * 2))) == [False]
    assert passes(paper(), decide([[0, 1], [1, 2]], short([FINE] * 4))) == [False, False]


def test_a_person_with_more_rows_in_a_group_than_the_noise_covers_is_refused() -> None:
    for gate, points in ((strict(rows_per_person=2), [FINE] * 3), (paper(rows_per_person=2), short([FINE] * 3))):
        assert passes(gate, decide([[0, 1, 2]], points), [7, 8, 7]) == [True]
    for gate, points in ((strict(rows_per_person=2), [FINE] * 3), (paper(rows_per_person=2), short([FINE] * 3))):
        assert passes(gate, decide([[0, 1, 2]], points), [7, 7, 7]) == [False]
    assert passes(strict(), decide([[0, 1, 2]]), [7, 7, 7]) == [True]


def test_rows_of_a_person_are_counted_within_each_group() -> None:
    gate = strict(rows_per_person=1)
    assert passes(gate, decide([[0, 1], [6, 7], [12, 13]]), [1, 2, 1, 1, 2, 1]) == [True, False, True]


def test_every_number_is_shared_by_k_rows_of_a_window() -> None:
    assert passes(strict(k=2), decide([[0, 1, 2, 3]], ages(20, 30, 30, 20))) == [True]
    assert passes(strict(k=2), decide([[0, 1, 2, 3]], ages(20, 30, 20, 20))) == [False]
    assert passes(strict(k=2), decide([[0, 1, 2, 3]], ages(20, 20, 30, np.nextafter(30, 31)))) == [False]


def test_a_number_of_another_group_does_not_help() -> None:
    mixed = decide([[0, 1, 2], [6, 7, 8]], ages(20, 20, 30, 30, 40, 40))
    assert passes(strict(k=2), mixed) == [False, False]


def test_in_a_cluster_all_rows_have_the_same_number() -> None:
    assert passes(paper(), decide([[0, 1], [2, 3]], short(ages(20, 20, 20, 30)))) == [True, False]
    assert passes(paper(), decide([[0, 1, 2, 3]], short(ages(20, 20, 30, 30)))) == [False]


@pytest.mark.parametrize("outside", [9.999, 90.001, -1e300, 1e300])
def test_a_number_of_a_window_lies_in_its_domain(outside: float) -> None:
    assert passes(strict(), decide([[0, 1], [6, 7]], ages(10, 10, 90, 90))) == [True, True]
    assert passes(strict(), decide([[0, 1], [6, 7]], ages(outside, outside, 50, 50))) == [False, True]
    # Paper-mode noise is unbounded.
    assert passes(paper(), decide([[0, 1]], short(ages(outside, outside)))) == [True]


@pytest.mark.parametrize(("job", "illness"), [(-1, 0), (3, 0), (0.5, 0), (0, -1), (0, 3), (0, 1.5)])
def test_a_label_that_is_not_declared_is_refused(job: float, illness: float) -> None:
    points = [(50.0, job, illness), FINE, FINE, FINE]
    assert passes(strict(), decide([[0, 1], [6, 7]], points)) == [False, True]
    if job:
        assert passes(paper(), decide([[0, 1], [6, 7]], short(points))) == [False, True]


def test_every_declared_label_passes_and_so_does_a_missing_sensitive_value() -> None:
    points = [(50.0, float(job), float(illness)) for job in range(3) for illness in range(3)]
    gate = PointGate(SCHEMA, delay=9, k=2, rows_per_person=None)
    assert passes(gate, decide([range(9)], points)) == [True]


def test_labels_need_not_be_shared() -> None:
    """They are drawn from noisy counts: the noise hides a row, not the number of equal ones."""
    assert passes(strict(), decide([[0, 1]], [(50.0, 0.0, 0.0), (50.0, 1.0, 1.0)])) == [True]


def test_arrivals_do_not_change_the_gate() -> None:
    gate = strict()
    before = gate.snapshot()
    gate.observe(np.zeros((5, 1), dtype=np.int64), np.ones(5, dtype=np.bool_))
    assert (
        {name: array.tolist() for name, array in gate.snapshot().items()}
        == {"last": [-1], "persons": []}
        == {name: array.tolist() for name, array in before.items()}
    )
