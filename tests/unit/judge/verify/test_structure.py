"""Verification finds every kind of violation, and none in a table that keeps the promise."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from castleguard.errors import InputError, UsageError
from castleguard.judge.verify.structure import information_loss, verify
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, null="root"),
        Numeric("day", lower=dt.date(2026, 1, 1), upper=dt.date(2026, 1, 11)),
        Categorical("job", hierarchy=Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer"], "Other": ["Cook"]}})),
    ],
    sensitive=["illness", Sensitive("cost", bins=[10, 20])],
    public=["row"],
)

ORIGINAL: dict[str, list[Any]] = {
    "row": [1, 2, 3, 4, 5, 6],
    "pid": ["a", "b", "c", "c", "d", ""],
    "age": [20, 29, 120, 100, 0, None],
    "day": [dt.date(2026, 1, day) for day in (1, 2, 5, 6, 6, 6)],
    "job": ["Nurse", "Carer", "Cook", "Cook", "Nurse", "Nurse"],
    "illness": ["flu", "flu", "cold", "cold", "flu", "none"],
    "cost": [5.0, 15.0, 9.0, 25.0, 1.0, 2.0],
}
PUBLISHED: dict[str, list[Any]] = {
    "row": [2, 1, 4, 3, 5, 6],
    "age_min": [20, 20, 0, 0, 0, 0],
    "age_max": [30, 30, 100, 100, 100, 100],
    "day_min": [dt.date(2026, 1, 1)] * 6,
    "day_max": [dt.date(2026, 1, 3)] * 2 + [dt.date(2026, 1, 11)] * 4,
    "job": ["Care"] * 2 + ["Any"] * 4,
    "illness": ["flu", "flu", "cold", "cold", "flu", "none"],
    "cost": [15.0, 5.0, 25.0, 9.0, 1.0, 2.0],
}


def changed(**columns: list[Any]) -> pa.Table:
    return pa.table(PUBLISHED | columns)


def check(published: pa.Table, k: int = 2, l: int = 1, original: pa.Table | None = None) -> dict[str, int]:
    found = verify(published, pa.table(ORIGINAL) if original is None else original, SCHEMA, k=k, l=l, link="row")
    assert found.ok == (not found.violations)
    return found.violations


def test_table_that_keeps_the_promise_is_verified() -> None:
    found = verify(pa.table(PUBLISHED), pa.table(ORIGINAL), SCHEMA, k=2, l=1, link="row")
    assert found.ok
    assert (found.rows, found.groups, found.fewest_persons, found.fewest_values) == (6, 2, 2, 1)
    assert str(found).startswith("verified: 6 rows in 2 groups, each with at least 2 persons and 1 values")


def test_missing_persons_add_no_person() -> None:
    # The second group has the persons c and d: row 6 has none.
    assert check(pa.table(PUBLISHED), k=3) == {"groups with fewer than 3 persons": 2}
    assert verify(pa.table(PUBLISHED), pa.table(ORIGINAL), SCHEMA, k=2, link="row").persons_per_group == (2, 2)
    fewer = pa.table(ORIGINAL | {"pid": ["a", "b", "c", "c", None, ""]})
    assert verify(pa.table(PUBLISHED), fewer, SCHEMA, k=2, link="row").persons_per_group == (1, 2)


def test_values_in_the_same_bin_are_one_value() -> None:
    # The first group has one illness, the second one the costs 25, 9, 1 and 2: two bins.
    assert check(pa.table(PUBLISHED), l=2) == {"groups with fewer than 2 values of a sensitive column": 1}
    assert check(pa.table(PUBLISHED), l=3) == {"groups with fewer than 3 values of a sensitive column": 2}


def test_groups_with_different_labels_over_the_same_leaves_are_distinct() -> None:
    broken = changed(job=["Care"] * 2 + ["Any"] * 4)
    assert check(broken) == {}
    single = Hierarchy.from_mapping({"Any": {"All": ["Nurse", "Carer", "Cook"]}})
    schema = Schema(person="pid", quasi_identifiers=[Categorical("job", hierarchy=single)], public=["row"])
    original = pa.table({"row": [1, 2], "pid": ["a", "b"], "job": ["Nurse", "Cook"]})
    published = pa.table({"row": [1, 2], "job": ["Any", "All"]})
    found = verify(published, original, schema, k=2, link="row")
    assert found.violations == {"groups with fewer than 2 persons": 2}


@pytest.mark.parametrize(
    ("tampered", "violation"),
    [
        (lambda: changed(row=[2, 1, 4, 3, 5, 5]), "rows published more than once"),
        (lambda: changed(row=[2, 1, 4, 3, 5, 7]), "rows that are not in the original"),
        (lambda: changed(age_min=[25, 25, 0, 0, 0, 0]), "values outside their published range"),
        (lambda: changed(age_max=[29, 29, 100, 100, 100, 100]), "values outside their published range"),
        (lambda: changed(age_max=[20, 20, 100, 100, 100, 100]), "ranges of width 0"),
        (lambda: changed(job=["Other"] * 2 + ["Any"] * 4), "values outside their published range"),
        (lambda: changed(age_max=[30, 30, 120, 120, 120, 120]), "bounds outside the domain"),
        (lambda: changed(age_min=[20, 20, -1, -1, -1, -1]), "bounds outside the domain"),
        (
            lambda: changed(illness=["flu", "flu", "cold", "cold", "none", "flu"]),
            "changed sensitive or public values",
        ),
        (lambda: changed(pid=["a", "b", "c", "c", "d", "e"]), "undeclared columns"),
        (lambda: changed(name=["a", "b", "c", "c", "d", "e"]), "undeclared columns"),
    ],
)
def test_every_kind_of_violation_is_found(tampered: Callable[[], pa.Table], violation: str) -> None:
    assert violation in check(tampered())


def test_row_for_the_root_only_must_be_at_the_root() -> None:
    # Row 6 has no age, so it belongs to the root.
    narrow = changed(day_max=[dt.date(2026, 1, 3)] * 2 + [dt.date(2026, 1, 7)] * 4)
    assert check(narrow) == {"values outside their published range": 1}


def test_rejected_row_must_not_be_published() -> None:
    original = pa.table(ORIGINAL | {"job": ["Nurse", "Carer", "Cook", "Baker", "Nurse", None]})
    violations = check(pa.table(PUBLISHED), original=original)
    assert violations["published rows that should have been rejected"] == 2


def test_sentence_names_what_is_violated_and_no_value() -> None:
    found = verify(changed(row=[2, 1, 4, 3, 5, 5]), pa.table(ORIGINAL), SCHEMA, k=3, link="row")
    assert str(found).startswith("VIOLATED: 1 rows published more than once; ")
    assert "flu" not in str(found)


def test_groups_must_be_complete_in_their_first_table() -> None:
    table = pa.table(PUBLISHED)
    original = pa.table(ORIGINAL)
    whole = verify([table.slice(0, 2), table.slice(2)], original, SCHEMA, k=2, link="row", every_moment=True)
    assert whole.ok
    early = verify([table.slice(0, 3), table.slice(3)], original, SCHEMA, k=2, link="row", every_moment=True)
    assert early.violations == {"groups too small in their first table": 1}


def test_intervals_and_texts_are_read_as_well_as_bounds_and_types() -> None:
    intervals = {
        "row": [str(row) for row in PUBLISHED["row"]],
        "age": [f"[{low}, {high}]" for low, high in zip(PUBLISHED["age_min"], PUBLISHED["age_max"], strict=True)],
        "day": [f"[{low}, {high}]" for low, high in zip(PUBLISHED["day_min"], PUBLISHED["day_max"], strict=True)],
        "job": PUBLISHED["job"],
        "illness": PUBLISHED["illness"],
        "cost": [f"{cost:.2f}" for cost in PUBLISHED["cost"]],
    }
    original = pa.table({name: [None if v is None else str(v) for v in values] for name, values in ORIGINAL.items()})
    expected = verify(pa.table(PUBLISHED), pa.table(ORIGINAL), SCHEMA, k=2, link="row")
    assert verify(pa.table(intervals), pa.table(ORIGINAL), SCHEMA, k=2, link="row") == expected
    assert verify(pa.table(intervals), original, SCHEMA, k=2, link="row") == expected


def test_value_on_the_upper_bound_is_inside_only_in_paper_mode() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)], public=["row"])
    original = pa.table({"row": [1, 2], "age": [40, 50]})
    published = pa.table({"row": [1, 2], "age_min": [40, 40], "age_max": [50, 50]})
    found = verify(published, original, schema, k=2, link="row")
    assert found.violations == {"values outside their published range": 1}
    assert verify(published, original, schema, k=2, link="row", closed=True).ok
    point = pa.table({"row": [1, 2], "age_min": [40, 40], "age_max": [40, 40]})
    alike = pa.table({"row": [1, 2], "age": [40, 40]})
    assert "ranges of width 0" in verify(point, alike, schema, k=2, link="row").violations
    assert verify(point, alike, schema, k=2, link="row", closed=True).ok


def test_timestamps_are_compared_in_utc() -> None:
    schema = Schema(
        person=None,
        quasi_identifiers=[Numeric("at", lower=dt.datetime(2026, 1, 1), upper=dt.datetime(2026, 1, 2))],
        public=["row"],
    )
    original = pa.table({"row": [1, 2], "at": pa.array([0, 0], pa.timestamp("s")).cast(pa.timestamp("us"))})
    original = original.set_column(1, "at", pa.array(["2026-01-01T01:30:00+01:00", "2026-01-01 00:44:59"]))
    published = pa.table({"row": [1, 2], "at": ["[2026-01-01 00:30:00, 2026-01-01 00:45:00]"] * 2})
    assert verify(published, original, schema, k=2, link="row").ok


def test_information_loss_is_the_mean_share_of_the_domains() -> None:
    # First group: age 10/100, days 2/10, job 1/2 (two of three leaves); second group: everything.
    assert information_loss(pa.table(PUBLISHED), SCHEMA) == pytest.approx((2 * (0.1 + 0.2 + 0.5) / 3 + 4) / 6)
    assert str(information_loss(pa.table(PUBLISHED).slice(0, 0), SCHEMA)) == "nan"


def test_observed_domain_is_the_published_range() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("x")], public=["row"])
    published = pa.table({"row": [1, 2, 3], "x_min": [0.0, 0.0, 5.0], "x_max": [5.0, 5.0, 10.0]})
    assert information_loss(published, schema) == pytest.approx(0.5)


def test_empty_table_is_verified() -> None:
    found = verify(pa.table(PUBLISHED).slice(0, 0), pa.table(ORIGINAL), SCHEMA, k=2, link="row", every_moment=True)
    assert str(found) == "verified: nothing was published"


def test_midpoints_cannot_be_judged() -> None:
    columns = {name: values for name, values in PUBLISHED.items() if name not in ("age_min", "age_max")}
    with pytest.raises(UsageError, match="does not hold ranges"):
        information_loss(pa.table(columns | {"age": [25, 25, 50, 50, 50, 50]}), SCHEMA)


@pytest.mark.parametrize(
    ("published", "original", "message"),
    [
        (PUBLISHED, {**ORIGINAL, "row": [1, 2, 3, 4, 5, 5]}, "does not number the original rows"),
        ({**PUBLISHED, "job": ["Care"] * 5 + ["Pilot"]}, ORIGINAL, "'job' has a value that is not a node"),
        ({**PUBLISHED, "age_min": [20, 20, 0, 0, 0, None]}, ORIGINAL, "'age' has bounds that are missing"),
        ({n: v for n, v in PUBLISHED.items() if n != "job"}, ORIGINAL, "published table has no column 'job'"),
        ({n: v for n, v in PUBLISHED.items() if n != "row"}, ORIGINAL, "no column 'row', which links"),
        (PUBLISHED, {n: v for n, v in ORIGINAL.items() if n != "pid"}, "original table has no column 'pid'"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(
    published: dict[str, list[Any]], original: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        verify(pa.table(published), pa.table(original), SCHEMA, k=2, link="row")
