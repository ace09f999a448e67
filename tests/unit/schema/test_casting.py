"""Values that do not convert to the published type of their column are flagged one by one."""

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import SchemaError
from castleguard.schema.casting import cast_values


def test_values_that_convert_are_converted() -> None:
    column, misfits = cast_values(pa.chunked_array([[1.0, None], [3.0]]), pa.int64())
    assert column.to_pylist() == [1, None, 3]
    assert misfits is None


def test_only_values_that_do_not_convert_are_flagged() -> None:
    chunks = [pa.array(["1", "x", None]), pa.array([], pa.string()), pa.array(["2.5", "4"])]
    column, misfits = cast_values(pa.chunked_array(chunks), pa.int64())
    assert column.to_pylist() == [1, None, None, None, 4]
    assert misfits is not None
    assert np.flatnonzero(misfits).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("values", "kind", "changed"),
    [
        (pa.array([1, 5, 0]), pa.bool_(), [1]),
        (pa.array([0.5, 1.0]), pa.bool_(), [0]),
        (pa.array(["16", "0x10", "007"]), pa.int64(), [1, 2]),
        (pa.array([0, 3_600_000_000], pa.timestamp("us")), pa.date32(), [1]),
        (pa.array([float("nan"), 2.5]), pa.float32(), []),
        (pa.array([1, None, 3]), pa.string(), []),
    ],
    ids=str,
)
def test_a_value_that_would_change_does_not_convert(values: pa.Array, kind: pa.DataType, changed: list[int]) -> None:
    column, misfits = cast_values(pa.chunked_array([values]), kind)
    assert ([] if misfits is None else np.flatnonzero(misfits).tolist()) == changed
    assert all(column[at].as_py() is None for at in changed)


def test_an_integer_that_a_float_cannot_hold_does_not_convert() -> None:
    _, misfits = cast_values(pa.chunked_array([[2**53, 2**53 + 1]]), pa.float64())
    assert misfits is not None
    assert misfits.tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "kind"), [([[4711]], pa.int64()), (pa.array([b"4711"], pa.binary(4)), pa.binary(16))], ids=str
)
def test_a_type_that_never_converts_is_refused_without_a_value(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"the type was .* in earlier batches, and .* does not convert") as caught:
        cast_values(pa.chunked_array([values]), kind)
    assert "4711" not in str(caught.value)
