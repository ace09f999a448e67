"""Workload error: estimates computed by hand, a slow twin, and a test for every choice that the paper leaves open."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.measure.predicates import Ranges
from castleguard.judge.measure.queries import (
    Workload,
    WorkloadError,
    attributes_of,
    counts,
    distinct,
    workload_error,
    workload_error_in_order,
)
from castleguard.judge.reading.linked import link
from castleguard.schema.roles import Numeric, Schema
from tests.unit.judge.measure.made_up import ORIGINAL, PUBLISHED, SCHEMA, attributes


def ranges(low: list[float], high: list[float]) -> Ranges:
    return Ranges(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))


def exact(table: dict[str, list[Any]]) -> pa.Table:
    """Every row published unchanged."""
    return pa.table(table | {"age_min": table["age"], "age_max": table["age"]}).drop_columns(["age"])


def test_estimate_is_the_sum_of_the_products_of_the_overlaps() -> None:
    # Asked: age in [25, 45], job under Care, illness flu.
    # Rows 1 and 2 lie in [20, 30] by a half; rows 3 and 4 in [40, 60] by a quarter.
    # Care is all of Care and half of Any. Only one of the first two rows has the flu.
    asked = (ranges([25], [45]), ranges([0], [1]), ranges([0], [0]))
    units = (0, 1, 1)
    shown = distinct(tuple(each.published for each in attributes()))
    assert counts(shown, units, asked).tolist() == [0.5 * 1 * 0 + 0.5 * 1 * 1 + 2 * (0.25 * 0.5 * 1)]
    # The true count is 0: the carer aged 25 has a cold, and the cook is not a carer.
    true = distinct(tuple(each.original for each in attributes()))
    assert counts(true, units, asked).tolist() == [0]
    # With [20, 45] it is the nurse of 20.
    assert counts(true, units, (ranges([20], [45]), *asked[1:])).tolist() == [1]


def test_both_ends_of_a_range_belong_to_it() -> None:
    point = distinct((ranges([5], [5]),))
    assert counts(point, (0,), (ranges([5, 0, 5.1, 0], [9, 5, 9, 4.9]),)).tolist() == [1, 1, 0, 0]


def test_point_among_ranges_is_inside_or_not() -> None:
    rows = distinct((ranges([5, 0], [5, 10]),))
    assert counts(rows, (0,), (ranges([5, 6], [10, 10]),)).tolist() == [1 + 0.5, 0 + 0.4]


def test_leaves_are_counted_and_not_measured() -> None:
    # Leaves 1 to 3, asked for 3 to 4: one of three.
    assert counts(distinct((ranges([1], [3]),)), (1,), (ranges([3], [4]),)).tolist() == pytest.approx([1 / 3])
    assert counts(distinct((ranges([1], [2]),)), (1,), (ranges([3], [4]),)).tolist() == [0]


def test_missing_value_satisfies_no_predicate_and_spoils_no_sum() -> None:
    changed: dict[str, list[Any]] = ORIGINAL | {"age": [20, None, 40, 60], "illness": [None, "cold", "flu", "plague"]}
    whole = (ranges([0], [100]), ranges([0], [3]), ranges([0], [1]))
    true = distinct(tuple(each.original for each in attributes(original=changed)))
    assert counts(true, (0, 1, 1), whole).tolist() == [1]


def test_exact_publication_has_no_error() -> None:
    found = workload_error(link(exact(ORIGINAL), pa.table(ORIGINAL), SCHEMA, by="row"), Workload(queries=50))
    assert found.mean == 0
    assert found.windows[0].queries == 50


def test_workload_error_is_the_mean_of_the_medians_of_the_windows() -> None:
    # Selectivity 1: every query covers everything, so a window's error is the share of it that was not published.
    ages: dict[str, list[Any]] = {"row": list(range(8)), "age": [1] * 8, "job": ["Cook"] * 8, "illness": ["flu"] * 8}
    published = exact({name: values[1:4] for name, values in ages.items()})
    workload = Workload(selectivity=1, queries=5, window=3)
    found = workload_error(link(published, pa.table(ages), SCHEMA, by="row"), workload)
    assert [window.error for window in found.windows] == pytest.approx([1 / 3, 2 / 3])
    assert found.mean == pytest.approx(1 / 2)
    assert found.rows_left_out == 2


def test_window_that_is_longer_than_the_stream_is_the_stream() -> None:
    found = workload_error(link(exact(ORIGINAL), pa.table(ORIGINAL), SCHEMA, by="row"), Workload(queries=5, window=99))
    assert len(found.windows) == 1
    assert found.rows_left_out == 0


def test_windows_by_output_order_need_no_link() -> None:
    # The first window of the original has two nurses, that of the publication two cooks: nothing of it is found.
    ages: dict[str, list[Any]] = {"age": [1] * 4, "job": ["Nurse", "Nurse", "Cook", "Cook"], "illness": ["flu"] * 4}
    turned = exact({name: values[::-1] for name, values in ages.items()})
    schema = Schema(person=None, quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=SCHEMA.sensitive)
    halves = Workload(selectivity=0.1, queries=20, window=2)
    assert workload_error_in_order(turned, pa.table(ages), schema, halves).mean == 1
    assert workload_error_in_order(turned, pa.table(ages), schema, Workload(queries=20)).mean == 0
    straight = exact(ages)
    assert workload_error_in_order(straight, pa.table(ages), schema, halves).mean == 0


def test_publication_with_more_rows_than_the_original_is_counted_whole() -> None:
    twice = exact({name: values * 3 for name, values in ORIGINAL.items()})
    found = workload_error_in_order(twice, pa.table(ORIGINAL), SCHEMA, Workload(selectivity=1, queries=5))
    assert found.mean == 2


def test_queries_that_count_no_row_are_drawn_again() -> None:
    # One row of age 50: an interval of a tenth of the domain meets it about once in nine.
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["row"])
    original = pa.table({"row": [1], "age": [50]})
    published = pa.table({"row": [1], "age_min": [0], "age_max": [100]})
    found = workload_error(link(published, original, schema, by="row"), Workload(queries=200))
    assert found.windows[0].queries == 200
    assert 1000 < found.skipped < 2500
    # Where it is met it counts 1, and the estimate is the length of the interval: 0.1.
    assert found.mean == pytest.approx(0.9)


def test_window_without_any_countable_row_has_no_error() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["row"])
    original = pa.table({"row": [1, 2], "age": pa.array([None, 5], pa.int64())})
    published = pa.table({"row": [2], "age_min": [0], "age_max": [100]})
    workload = Workload(queries=3, window=1, selectivity=1)
    found = workload_error(link(published, original, schema, by="row"), workload)
    assert math.isnan(found.windows[0].error)
    assert found.mean == found.windows[1].error == 0
    nothing = workload_error_in_order(published.slice(0, 0), original.slice(0, 0), schema, workload)
    assert math.isnan(nothing.mean)


def test_nothing_published_is_an_error_of_1() -> None:
    empty = pa.table(PUBLISHED).slice(0, 0)
    assert workload_error(link(empty, pa.table(ORIGINAL), SCHEMA, by="row"), Workload(queries=9)).mean == 1


def test_window_error_is_the_median_and_not_the_mean() -> None:
    # One in seven intervals [x, x + 30], x up to 70, has the age 10, which is published exactly: error 0.
    # Three in seven have the age 50, which is not published: error 1. So 1 is the median, and 3/4 the mean.
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["row"])
    original = pa.table({"row": [1, 2], "age": [10, 50]})
    published = pa.table({"row": [1], "age_min": [10], "age_max": [10]})
    workload = Workload(selectivity=0.3, queries=400)
    assert workload_error(link(published, original, schema, by="row"), workload).mean == 1


def test_every_seed_and_every_window_has_queries_of_its_own() -> None:
    twice: dict[str, list[Any]] = {name: values * 2 for name, values in ORIGINAL.items()} | {"row": list(range(8))}
    shown: dict[str, list[Any]] = {name: values * 2 for name, values in PUBLISHED.items()}
    published = pa.table(shown | {"row": [1, 0, 3, 2, 5, 4, 7, 6]})
    linked = link(published, pa.table(twice), SCHEMA, by="row")
    first, second = workload_error(linked, Workload(queries=30, window=4)).windows
    assert first != second
    assert workload_error(linked, Workload(queries=30, window=4, seed=1)).windows[0] != first


def test_public_sample_rate_corrects_the_estimate() -> None:
    # Selectivity 1: all four rows are asked for, two were published.
    half = exact(ORIGINAL).slice(0, 2)
    linked = link(half, pa.table(ORIGINAL), SCHEMA, by="row")
    assert workload_error(linked, Workload(selectivity=1, queries=3)).mean == 0.5
    assert workload_error(linked, Workload(selectivity=1, queries=3, sample_rate=0.5)).mean == 0
    assert workload_error(linked, Workload(selectivity=1, queries=3, sample_rate=0.25)).mean == 1


def test_workload_asks_every_publication_the_same_queries() -> None:
    wide = pa.table(PUBLISHED | {"age_min": [0] * 4, "age_max": [100] * 4})
    first, second, again = (
        workload_error(link(table, pa.table(ORIGINAL), SCHEMA, by="row"), Workload(queries=40, seed=3))
        for table in (pa.table(PUBLISHED), wide, wide)
    )
    assert first.skipped == second.skipped
    assert second == again
    assert first != second


def test_sensitive_columns_can_be_chosen() -> None:
    linked = link(pa.table(PUBLISHED), pa.table(ORIGINAL), SCHEMA, by="row")
    assert len(attributes_of(linked.published, linked.original, SCHEMA, Workload(sensitive=()))) == 2
    assert len(attributes_of(linked.published, linked.original, SCHEMA, Workload(sensitive=("illness",)))) == 3
    with pytest.raises(UsageError, match="is not a sensitive column"):
        workload_error(linked, Workload(sensitive=("age",)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"selectivity": 0},
        {"sample_rate": 0},
        {"selectivity": 1.1},
        {"queries": 0},
        {"window": 0},
        {"seed": -1},
        {"sensitive": "illness"},
    ],
)
def test_invalid_workload_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        Workload(**wrong)


def _slow_count(rows: list[list[tuple[float, float]]], asked: list[tuple[float, float]], units: list[int]) -> float:
    """The estimate as the paper's formula reads, row by row."""
    total = 0.0
    for row in rows:
        chance = 1.0
        for (low, high), (start, end), unit in zip(row, asked, units, strict=True):
            if unit:
                mine = set(range(int(low), int(high) + 1))
                chance *= len(mine & set(range(int(start), int(end) + 1))) / len(mine)
            elif low == high:
                chance *= float(start <= low <= end)
            else:
                chance *= max(0.0, min(high, end) - max(low, start)) / (high - low)
        total += chance
    return total


PAIR = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: (float(min(pair)), float(max(pair))))


@settings(max_examples=60)
@given(st.lists(st.lists(PAIR, min_size=3, max_size=3), min_size=1, max_size=9), st.lists(PAIR, min_size=3, max_size=3))
def test_counts_agree_with_the_formula_row_by_row(
    rows: list[list[tuple[float, float]]], asked: list[tuple[float, float]]
) -> None:
    units = (0, 1, 0)
    columns = tuple(ranges([row[c][0] for row in rows], [row[c][1] for row in rows]) for c in range(3))
    fast = counts(distinct(columns), units, tuple(ranges([low], [high]) for low, high in asked))
    assert fast.tolist() == pytest.approx([_slow_count(rows, asked, list(units))])


def test_many_queries_in_parts_are_answered_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    low = random.random(30)
    rows, asked = distinct((Ranges(low, low + 0.1),)), (Ranges(random.random(20), np.ones(20)),)
    together = counts(rows, (0,), asked)
    for cells in (1, 90, 100):  # parts of 1, 3 and 3 queries
        monkeypatch.setattr("castleguard.judge.measure.queries._CELLS", cells)
        assert counts(rows, (0,), asked).tolist() == pytest.approx(together.tolist())


def test_wider_boxes_raise_the_error() -> None:
    random = np.random.default_rng(2)
    ages = np.sort(np.clip(random.normal(40, 15, 400), 0, 100)).round(2)
    original = pa.table({"row": range(400), "age": ages})
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["row"])

    def error(width: int) -> float:
        lower = np.floor(ages / width) * width
        published = pa.table({"row": range(400), "age_min": lower, "age_max": np.minimum(lower + width, 100)})
        found: WorkloadError = workload_error(link(published, original, schema, by="row"), Workload(queries=500))
        return found.mean

    errors = [error(width) for width in (1, 10, 50, 100)]
    assert all(less < more for less, more in pairwise(errors))
