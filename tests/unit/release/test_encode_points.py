"""Points as published columns."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from castleguard.release.encode import PointEncoder
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

AGE = Numeric("age", lower=0, upper=100, step=1)
DAY = Numeric("day", lower=dt.date(2020, 1, 1), upper=dt.date(2021, 1, 1))
JOB = Categorical("job", hierarchy=Hierarchy.from_mapping({"any": {"low": ["a", "b"], "c": None}}))
ILL = Sensitive("ill", values=["flu", "cold"])
ROOM = Sensitive("room", values=[7, 8])


def encode(roles: list[QuasiIdentifier], points: list[list[float]]) -> pa.Table:
    """Encode points of quasi-identifiers only."""
    encoder = PointEncoder(Schema(person="p", quasi_identifiers=roles), sensitive=True)
    return encoder.encode(np.array(points, dtype=np.float64).reshape(-1, len(roles)), pa.table({}))


def test_a_number_keeps_its_name_and_may_be_a_fraction() -> None:
    out = encode([AGE], [[20.5], [33.0], [-1e300], [1e300]])
    assert out.schema.equals(pa.schema([("age", pa.float64())]))
    assert out["age"].to_pylist() == [20.5, 33.0, -1e300, 1e300]


def test_a_date_is_the_day_on_which_the_mean_falls() -> None:
    out = encode([DAY], [[18262.0], [18262.99], [18627.0], [-0.5]])
    assert out.schema.types == [pa.date32()]
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 1), dt.date(2020, 12, 31), dt.date(1969, 12, 31)]
    assert out["day"].to_pylist() == days


def test_a_timestamp_has_a_time_zone_if_its_bounds_have_one() -> None:
    noon = dt.datetime(2020, 1, 1, 12)
    for zone in (None, dt.UTC):
        lower = noon.replace(tzinfo=zone)
        out = encode([Numeric("at", lower=lower, upper=lower + dt.timedelta(days=1))], [[1577880000000000.7]])
        assert out["at"].to_pylist() == [lower]


@pytest.mark.parametrize(
    ("far", "date", "moment"), [(-1e300, dt.date.min, dt.datetime.min), (1e300, dt.date.max, dt.datetime.max)]
)
def test_times_beyond_the_calendar_are_clamped_to_its_ends(far: float, date: dt.date, moment: dt.datetime) -> None:
    """Paper-mode noise is unbounded; published times must still be readable."""
    at = Numeric("at", lower=dt.datetime(2020, 1, 1), upper=dt.datetime(2021, 1, 1))
    row = encode([DAY, at], [[far, far]]).to_pylist()[0]
    assert row["day"] == date
    # At this distance from 1970 a float64 is precise to 32 microseconds.
    assert abs(row["at"] - moment) < dt.timedelta(microseconds=32)


def test_a_category_is_the_leaf_with_that_number() -> None:
    assert encode([JOB], [[2.0], [0.0], [1.0], [0.0]]).to_pydict() == {"job": ["c", "a", "b", "a"]}


def test_columns_have_the_order_of_the_schema() -> None:
    out = encode([JOB, AGE], [[2.0, 20.0], [0.0, 21.0]])
    assert out.to_pylist() == [{"job": "c", "age": 20.0}, {"job": "a", "age": 21.0}]


def whole(*, sensitive: bool, public: list[str]) -> PointEncoder:
    schema = Schema(person="p", quasi_identifiers=[AGE], sensitive=[ILL, ROOM], public=public)
    return PointEncoder(schema, sensitive=sensitive)


def test_sensitive_points_are_labels_or_missing_in_place_of_the_payload() -> None:
    payload = pa.table({"ill": ["true", "values", "never"], "room": pa.nulls(3), "shop": ["x", "y", "z"]})
    points = np.array([[1.0, 0, 1], [2.0, 2, 2], [3.0, 1, 0]])
    out = whole(sensitive=True, public=["shop"]).encode(points, payload)
    assert out.to_pydict() == {
        "age": [1.0, 2.0, 3.0],
        "ill": ["flu", None, "cold"],
        "room": [8, None, 7],
        "shop": ["x", "y", "z"],
    }
    assert out.schema.types == [pa.float64(), pa.string(), pa.int64(), pa.string()]


def test_without_sensitive_points_the_payload_keeps_its_sensitive_columns() -> None:
    payload = pa.table({"ill": ["flu", None], "room": [8, 7], "shop": ["x", "y"]})
    out = whole(sensitive=False, public=["shop"]).encode(np.array([[1.0], [2.0]]), payload)
    assert out.to_pylist() == [
        {"age": 1.0, "ill": "flu", "room": 8, "shop": "x"},
        {"age": 2.0, "ill": None, "room": 7, "shop": "y"},
    ]


def test_an_empty_table_has_the_same_columns_and_types() -> None:
    encoder = PointEncoder(
        Schema(person=None, quasi_identifiers=[AGE, DAY, JOB], sensitive=[ILL, ROOM]), sensitive=True
    )
    payload = pa.table({"ill": pa.nulls(1), "room": pa.nulls(1)})
    one = encoder.encode(np.array([[1.0, 18262, 0, 0, 0]]), payload)
    none = encoder.encode(np.empty((0, 5)), payload.slice(0, 0))
    assert none.num_rows == 0
    assert none.schema.equals(one.schema)
