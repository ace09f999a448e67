"""Untyped values: the first one decides the type, and each is converted independently."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from castleguard.schema.untyped import convert_values, kind_of_value

DAY = dt.date(2020, 1, 2)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (True, pa.bool_()),
        (1, pa.float64()),
        (2.5, pa.float64()),
        (2**53 - 1, pa.float64()),
        (2**53 + 1, pa.int64()),
        (-(2**63), pa.int64()),
        (2**63, pa.string()),
        ("V45", pa.string()),
        (b"raw", pa.binary()),
        (Decimal("2.50"), pa.float64()),
        (Decimal("0.12345678901234567890"), pa.string()),
        (DAY, pa.date32()),
        (dt.datetime(2020, 1, 2), pa.timestamp("us")),
        (dt.datetime(2020, 1, 2, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        (uuid.UUID(int=1), pa.string()),
        ([1, 2], pa.string()),
    ],
    ids=str,
)
def test_the_first_value_decides_the_type(first: object, kind: pa.DataType) -> None:
    assert kind_of_value(first) == kind


@pytest.mark.parametrize(
    ("values", "kind", "expected", "wrong"),
    [
        ([1, 2.5, None, 3, Decimal("0.1")], pa.float64(), [1.0, 2.5, None, 3.0, 0.1], []),
        ([1, "V45", "5", True, 2**53 + 1], pa.float64(), [1.0, None, 5.0, None, None], [1, 3, 4]),
        ([2**60, 5, 2.0, 2.5, 2**70], pa.int64(), [2**60, 5, 2, None, None], [3, 4]),
        (["a", 1, 2.5, True, None, DAY], pa.string(), ["a", "1", "2.5", "true", None, "2020-01-02"], []),
        ([True, 1, "true", 0.0], pa.bool_(), [True, None, True, None], [1, 3]),
        ([DAY, "2020-01-02", dt.datetime(2020, 1, 2, 3), 5], pa.date32(), [DAY, DAY, None, None], [2, 3]),
        ([None, None], pa.float64(), [None, None], []),
        ([], pa.float64(), [], []),
        ([[1], b"x"], pa.float64(), [None, None], [0, 1]),
    ],
    ids=str,
)
def test_each_value_is_converted_independently(
    values: list[object], kind: pa.DataType, expected: list[object], wrong: list[int]
) -> None:
    column, misfits = convert_values(values, kind)
    assert column.type == kind
    assert column.to_pylist() == expected
    assert ([] if misfits is None else np.flatnonzero(misfits).tolist()) == wrong
    for at, value in enumerate(values):
        alone, failed = convert_values([value], kind)
        assert alone.to_pylist() == [expected[at]]
        assert (failed is not None) == (at in wrong)
