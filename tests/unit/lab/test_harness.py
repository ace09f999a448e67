"""Measures of an outcome by hand, and detection of every fault."""

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import PolicyError, UsageError
from castleguard.lab.harness import LINK, Measured, Options, Outcome, Task, make_task, measure

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=10)],
    sensitive=["illness"],
)
X = [0, 1, 8, 10]


def _task(pid: list[int] | None = None, x: list[int | None] | None = None, delay: int = 3, l: int = 1) -> Task:
    values = x or X
    table = pa.table({"pid": pid or list(range(len(values))), "x": values, "illness": ["a", "b"] * (len(values) // 2)})
    return make_task(table, SCHEMA, k=2, l=l, delay=delay)


def _outcome(*boxes: tuple[int, int, int], released: list[int] | None = None, changed: bool = False) -> Outcome:
    """Rows as (number, smallest, largest)."""
    row, low, high = zip(*boxes, strict=True)
    illness = ["?" if changed else "ab"[number % 2] for number in row]
    table = pa.table({"x_min": low, "x_max": high, "illness": illness, LINK: row})
    left = None if released is None else np.array(released)
    return Outcome(published=table, closed=True, released=left, seconds=0.5)


WHOLE = _outcome((0, 0, 1), (1, 0, 1), (2, 8, 10), (3, 8, 10), released=[4, 4, 4, 4])


def test_figures_of_a_sound_outcome() -> None:
    # Two rows lose 1/10 and two 2/10; two groups of two are 2^2 + 2^2 pairs; four rows in half a second.
    found = measure(WHOLE, _task())
    assert found.loss == found.published_loss == found.ncp == pytest.approx(0.15)
    assert (found.rows, found.published, found.suppressed) == (4, 4, 0)
    assert (found.groups, found.discernibility) == (2, 8)
    assert found.rows_per_second == 8
    assert found.broken == {}


def test_a_suppressed_row_loses_everything() -> None:
    # 0.1, 0.1, 1 and 1; and both are like all four rows: 2^2 + 2 * 4.
    found = measure(_outcome((0, 0, 1), (1, 0, 1)), _task())
    assert found.suppressed == 2
    assert found.loss == pytest.approx(0.55)
    assert found.published_loss == pytest.approx(0.1)
    assert found.discernibility == 12


def test_a_group_of_too_few_persons_is_found() -> None:
    assert measure(WHOLE, _task(pid=[7, 7, 8, 9])).broken == {"groups below k persons": 1}


def test_a_group_of_too_few_values_is_found() -> None:
    task = _task(l=2)
    assert measure(WHOLE, task).broken == {}
    alike = _outcome((0, 0, 8), (2, 0, 8), (1, 1, 10), (3, 1, 10))
    assert measure(alike, task).broken == {"groups below l values": 2}


def test_group_that_reaches_k_later_is_found() -> None:
    outcome = _outcome((0, 0, 1), (1, 0, 1), (2, 8, 10), (3, 8, 10), released=[2, 3, 4, 4])
    assert measure(outcome, _task()).broken == {"groups below k persons at first": 1}


def test_a_row_outside_its_box_is_found() -> None:
    outcome = _outcome((0, 0, 1), (1, 0, 1), (2, 9, 10), (3, 9, 10))
    assert measure(outcome, _task()).broken == {"rows outside their own box": 1}


def test_a_late_row_is_found() -> None:
    # Row 0 has waited for 3 others when all 4 have arrived, and row 1 for 2.
    assert measure(WHOLE, _task(delay=2)).broken == {"rows too late": 1}
    assert measure(WHOLE, _task(delay=1)).broken == {"rows too late": 2}


def test_rejected_rows_count_neither_as_arrivals_nor_as_suppressed() -> None:
    # Two of the six rows are refused, and row 0 has waited for 3 others in the end.
    task = _task(x=[0, None, 1, 8, None, 10], delay=3)
    outcome = _outcome((0, 0, 1), (2, 0, 1), (3, 8, 10), (5, 8, 10), released=[6, 6, 6, 6])
    found = measure(outcome, task)
    assert found.broken == {}
    assert (found.rows, found.suppressed) == (4, 0)


def test_row_published_twice_is_found() -> None:
    twice = _outcome((0, 0, 1), (1, 0, 1), (1, 0, 1), (2, 8, 10), (3, 8, 10))
    assert measure(twice, _task()).broken == {"rows published more than once": 1}


def test_a_sensitive_value_that_changed_is_found() -> None:
    assert measure(_outcome((0, 0, 1), (1, 0, 1), changed=True), _task()).broken == {
        "changed sensitive or public values": 2
    }


def test_numbers_without_boxes_have_an_error_and_no_groups() -> None:
    found = measure(Outcome(published=None, seconds=0.0, error=0.25), _task())
    assert found.error == 0.25
    assert found.loss is None
    assert found.groups is None
    assert found.broken == {}
    assert found.rows_per_second == float("inf")


def test_a_task_numbers_its_rows_and_keeps_declared_columns_only() -> None:
    table = pa.table({"pid": [1, 2], "x": [3, 4], "illness": ["a", "b"], "name": ["Ann", "Bob"]})
    task = make_task(table, SCHEMA, k=2, delay=1)
    assert task.table.column_names == ["pid", "x", "illness", LINK]
    assert task.schema.public == (LINK,)


def test_a_domain_that_is_only_observed_is_refused() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x")])
    with pytest.raises(UsageError, match="column 'x' needs lower and upper"):
        make_task(pa.table({"x": [1]}), schema, k=2, delay=1)


@pytest.mark.parametrize(
    ("k", "options", "message"),
    [
        (1, Options(), "k must be"),
        (9, Options(), "delay must be at least k - 1"),
        (2, Options(sites=0), "sites must be"),
        (2, Options(epsilon=0), "epsilon must be"),
    ],
)
def test_impossible_guarantee_is_refused(k: int, options: Options, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        make_task(pa.table({"pid": [1], "x": [1], "illness": ["a"]}), SCHEMA, k=k, delay=3, options=options)


def test_unchecked_faults_are_not_reported() -> None:
    assert Measured(rows=1, published=1, suppressed=0, below_k=None, late=0).broken == {}
