"""A column in the type that it is published with.

A stream publishes a column with one type for ever. A later value that does not convert to it costs its own row only:
refusing the batch would let the cut into batches decide whether a stream lives. A value converts if it is the same
there and back again: 5 is not True, and a time of day is not dropped.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import SchemaError
from castleguard.schema.column import Flags, failing_rows

Misfits = Flags
"""Which rows have a value that does not convert."""


def cast_values(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, Misfits | None]:
    """The column as `kind`, and which rows have a value that does not convert: null there. None: all convert.

    Raises SchemaError if values of the column's type never convert.
    """
    _check_kinds(column.type, kind)
    misfits = failing_rows(column, lambda array: _converts(array, kind))
    if misfits is None:
        misfits = np.zeros(len(column), np.bool_)
    column = _without(column, misfits)
    converted = column.cast(kind)
    changed = _changed(column, converted)
    misfits |= changed
    if not misfits.any():
        return converted, None
    return _without(converted, changed), misfits


def _check_kinds(given: pa.DataType, kind: pa.DataType) -> None:
    """Refuse a type of which not even a missing value converts."""
    try:
        pa.nulls(1, given).cast(kind)
    except pa.ArrowException:
        # Arrow's message may quote a value: it is not handed on.
        raise SchemaError(f"the type was {kind} in the batches before, and {given} does not convert") from None


def _converts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        array.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _changed(column: pa.ChunkedArray, converted: pa.ChunkedArray) -> Misfits:
    """Which values are not the same after the way there and back."""
    if _is_text(converted.type):
        return np.zeros(len(column), np.bool_)  # text says what it was made from
    try:
        same = pc.equal(converted.cast(column.type), column)
    except pa.ArrowException:
        return np.asarray(column.is_valid())
    changed: Misfits = ~np.asarray(same.fill_null(True))
    if pa.types.is_floating(column.type):
        changed &= ~np.asarray(pc.is_nan(column).fill_null(False))
    return changed


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _without(column: pa.ChunkedArray, rows: Misfits) -> pa.ChunkedArray:
    """The column with nulls in these rows."""
    return column.take(pa.array(np.arange(rows.size), mask=rows)) if rows.any() else column
