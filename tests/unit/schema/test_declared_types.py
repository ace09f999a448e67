"""Declared types: text is parsed, no value is changed, and values of another type are flagged."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import SchemaError
from castleguard.schema.declared_types import ARROW_TYPES, read_declared
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Public, Sensitive, ValueType

DAY = dt.date(2020, 1, 2)
NOON = dt.datetime(2020, 1, 2, 12)


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("number", pa.array(["2.50", " 7 ", "1e3", "", None]), [2.5, 7.0, 1000.0, None, None]),
        ("number", pa.array([1, None, 2**53 - 1]), [1.0, None, float(2**53 - 1)]),
        ("number", pa.array([Decimal("0.10")]), [0.1]),
        ("number", pa.array([1e300, 0.5], pa.float64()), [1e300, 0.5]),
        ("integer", pa.array(["7", "007", "7.0", "9223372036854775807"]), [7, 7, 7, 2**63 - 1]),
        ("integer", pa.array([7.0, None]), [7, None]),
        ("integer", pa.array([2**40], pa.uint64()), [2**40]),
        ("boolean", pa.array(["true", "False", "", None]), [True, False, None, None]),
        ("date", pa.array(["2020-01-02", None]), [DAY, None]),
        ("date", pa.array([dt.datetime(2020, 1, 2)]), [DAY]),
        ("timestamp", pa.array(["2020-01-02T12:00:00Z", "2020-01-02 13:00+01:00"]), [NOON, NOON]),
        ("timestamp", pa.array([NOON], pa.timestamp("ns", "UTC")), [NOON]),
        ("timestamp", pa.array([DAY]), [dt.datetime(2020, 1, 2)]),
        ("text", pa.array([5, None]), ["5", None]),
        ("text", pa.array(["V45"], pa.large_string()), ["V45"]),
        ("number", pa.nulls(2), [None, None]),
    ],
    ids=str,
)
def test_text_is_parsed_as_the_declared_type(declared: ValueType, values: pa.Array, expected: list[object]) -> None:
    column, misfits = read_declared(pa.chunked_array([values]), declared)
    assert misfits is None
    assert column.type == ARROW_TYPES[declared]
    assert column.to_pylist() == expected


@pytest.mark.parametrize(
    ("declared", "values", "wrong"),
    [
        ("number", pa.array(["V45", "1", None]), [0]),
        ("number", pa.array([2**53 + 1, 1]), [0]),
        ("number", pa.array(["9007199254740993", "1"]), [0]),
        ("number", pa.array([True, False]), [0, 1]),
        ("integer", pa.array([2.5, 3.0]), [0]),
        ("integer", pa.array([2**63, 3], pa.uint64()), [0]),
        ("integer", pa.array(["2.5", "3"]), [0]),
        ("boolean", pa.array([1, None]), [0]),
        ("boolean", pa.array(["1", "true"]), [0]),
        ("date", pa.array([NOON, dt.datetime(2020, 1, 2)]), [0]),
        ("date", pa.array(["2020-01-02T12:00", "2020-01-02"]), [0]),
        ("timestamp", pa.array([5]), [0]),
        ("timestamp", pa.array([1_000, 1_001], pa.timestamp("ns")), [1]),
        ("number", pa.array([[1], None]), [0]),
        ("text", pa.array([[1], None]), [0]),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_flagged_and_null(declared: ValueType, values: pa.Array, wrong: list[int]) -> None:
    column, misfits = read_declared(pa.chunked_array([values]), declared)
    assert misfits is not None
    assert np.flatnonzero(misfits).tolist() == wrong
    assert all(column[row].as_py() is None for row in wrong)


def test_an_unknown_type_is_refused() -> None:
    for role in (Sensitive, Public):
        with pytest.raises(SchemaError, match="column 'x': type must be 'text' or 'integer'"):
            role("x", type="float")  # type: ignore[arg-type]


def test_a_declared_type_changes_the_fingerprint_and_none_does_not() -> None:
    def schema(*public: str | Public) -> Schema:
        return Schema(person=None, quasi_identifiers=[Numeric("a", lower=0, upper=1)], sensitive=["s"], public=public)

    assert schema("p").fingerprint() == schema(Public("p")).fingerprint()
    assert "type" not in schema("p").fingerprint()["sensitive"][0]  # type: ignore[index]
    assert schema("p").fingerprint() != schema(Public("p", type="text")).fingerprint()
    assert schema(Public("p", type="text")).types == {"p": "text"}
    assert schema(Public("p", type="text")).public == ("p",)
