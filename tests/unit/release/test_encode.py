"""Boxes as published columns."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import SchemaError
from castleguard.release.encode import Encoder, Numbers
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema

NOTHING = pa.table({})
DAY = Numeric("day", lower=dt.date(2020, 1, 1), upper=dt.date(2021, 1, 1))


def encode(
    role: QuasiIdentifier,
    boxes: list[tuple[float, float]],
    groups: list[int],
    numbers: Numbers = "bounds",
    exact: bool = False,
) -> pa.Table:
    encoder = Encoder(Schema(person=None, quasi_identifiers=[role]), numbers=numbers, exact=exact)
    lower, upper = np.array(boxes, dtype=np.float64).reshape(-1, 2).T.reshape(2, -1, 1)
    out = encoder.encode(lower, upper, np.array(groups, dtype=np.int64), NOTHING)
    assert out.schema.equals(pa.schema(encoder.fields))
    return out


def test_whole_numbers_are_integers() -> None:
    out = encode(Numeric("age", lower=0, upper=100, step=5), [(20, 35), (0, 100)], [0, 1, 0])
    assert out.schema.types == [pa.int64(), pa.int64()]
    assert out.to_pydict() == {"age_min": [20, 0, 20], "age_max": [35, 100, 35]}


def test_fractions_are_published_as_on_the_grid() -> None:
    out = encode(Numeric("part", lower=0.0, upper=1.0, step=0.1), [(0.1, 0.3)], [0])
    assert out.to_pydict() == {"part_min": [0.1], "part_max": [0.3]}


def test_exact_bounds_are_never_integers() -> None:
    out = encode(Numeric("age", lower=0, upper=100), [(20.5, 35)], [0], exact=True)
    assert out.to_pydict() == {"age_min": [20.5], "age_max": [35.0]}


def test_dates_and_timestamps_keep_their_types() -> None:
    out = encode(DAY, [(18262, 18293)], [0])
    assert out.to_pydict() == {"day_min": [dt.date(2020, 1, 1)], "day_max": [dt.date(2020, 2, 1)]}
    at = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    aware = Numeric("at", lower=at, upper=at + dt.timedelta(days=1))
    out = encode(aware, [aware.domain or (0, 0)], [0])
    assert out["at_min"].to_pylist() == [at]
    naive = Numeric("at", lower=at.replace(tzinfo=None), upper=at.replace(tzinfo=None) + dt.timedelta(days=1))
    assert encode(naive, [naive.domain or (0, 0)], [0])["at_min"].to_pylist() == [at.replace(tzinfo=None)]


def test_intervals_are_texts_with_both_ends() -> None:
    out = encode(Numeric("age", lower=0, upper=100, step=5), [(20, 35)], [0, 0], numbers="interval")
    assert out.to_pydict() == {"age": ["[20, 35]", "[20, 35]"]}
    out = encode(DAY, [(18262, 18293)], [0], "interval")
    assert out.to_pydict() == {"day": ["[2020-01-01, 2020-02-01]"]}


def test_midpoints_lie_in_the_middle() -> None:
    assert encode(Numeric("age", lower=0, upper=100), [(20, 35)], [0], "midpoint").to_pydict() == {"age": [27.5]}
    out = encode(DAY, [(18262, 18293)], [0], "midpoint")
    assert out.to_pydict() == {"day": [dt.date(2020, 1, 16)]}


@pytest.mark.parametrize(("numbers", "root"), [("bounds", [None, None]), ("interval", ["*"]), ("midpoint", [None])])
def test_the_root_of_an_observed_domain_has_no_bounds(numbers: Numbers, root: list[object]) -> None:
    out = encode(Numeric("age"), [(-np.inf, np.inf), (1.5, 2)], [0, 1], numbers, exact=True)
    assert [column.to_pylist()[0] for column in out.columns] == root
    assert all(column.to_pylist()[1] is not None for column in out.columns)


def test_a_category_is_the_lowest_node_with_these_leaves() -> None:
    tree = Hierarchy.from_mapping({"Any": {"Chain": {"Low": ["a", "b"]}, "c": None}})
    out = encode(Categorical("kind", hierarchy=tree), [(0, 0), (0, 1), (2, 2), (0, 2)], [0, 1, 2, 3])
    assert out.to_pydict() == {"kind": ["a", "Low", "c", "Any"]}


def test_an_unknown_form_of_numbers_is_refused() -> None:
    with pytest.raises(SchemaError, match="'bounds', 'interval' or 'midpoint'"):
        Encoder(Schema(person=None, quasi_identifiers=[Numeric("age")]), numbers="range")  # type: ignore[arg-type]


def test_the_payload_follows_unchanged() -> None:
    encoder = Encoder(Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=9)], public=["note"]))
    box = np.array([[1.0]])
    out = encoder.encode(box, box + 4, np.array([0, 0]), pa.table({"note": ["x", None]}))
    assert out.to_pydict() == {"age_min": [1, 1], "age_max": [5, 5], "note": ["x", None]}
