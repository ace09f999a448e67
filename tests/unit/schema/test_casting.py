"""Values of another type than their column is published with are named one by one."""

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import SchemaError
from castleguard.schema.casting import cast_values


def test_values_that_convert_are_converted() -> None:
    column, misfits = cast_values(pa.chunked_array([[1.0, None], [3.0]]), pa.int64())
    assert column.to_pylist() == [1, None, 3]
    assert misfits is None


def test_only_the_values_that_do_not_convert_are_named() -> None:
    chunks = [pa.array(["1", "x", None]), pa.array([], pa.string()), pa.array(["2.5", "4"])]
    column, misfits = cast_values(pa.chunked_array(chunks), pa.int64())
    assert column.to_pylist() == [1, None, None, None, 4]
    assert misfits is not None
    assert np.flatnonzero(misfits).tolist() == [1, 3]


def test_an_integer_that_a_float_cannot_hold_does_not_convert() -> None:
    _, misfits = cast_values(pa.chunked_array([[2**53, 2**53 + 1]]), pa.float64())
    assert misfits is not None
    assert misfits.tolist() == [False, True]


def test_a_type_that_never_converts_is_refused_without_a_value() -> None:
    with pytest.raises(SchemaError, match="the type was int64 in the batches before, and list<") as told:
        cast_values(pa.chunked_array([[[4711]]]), pa.int64())
    assert "4711" not in str(told.value)
