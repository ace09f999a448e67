"""Conversion of a column to the type that it is published with.

The published type of a column never changes. A later value that does not convert rejects its own row only: if it failed
the batch, the cut into batches would decide whether a stream survives. A value converts if the round trip returns the
same value: 5 is not True, and a time of day is not dropped.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import SchemaError
from castleguard.schema.column import Flags, failing_rows

Misfits = Flags
"""Flags of the rows with a value that does not convert."""


def cast_values(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, Misfits | None]:
    """Convert a column to `kind`, and flag the rows that do not convert, which become null. None: all convert.

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
    """Refuse a type that never converts."""
    try:
        pa.nulls(1, given).cast(kind)
    except pa.ArrowException:
        # Arrow's message may quote a value, so it is dropped.
        raise SchemaError(f"the type was {kind} in earlier batches, and {given} does not convert to it") from None


def _converts(array: pa.Array, kind: pa.DataType) -> bool:
    try:
        array.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _changed(column: pa.ChunkedArray, converted: pa.ChunkedArray) -> Misfits:
    """Flag the values that a round trip changes."""
    if _is_text(converted.type):
        return np.zeros(len(column), np.bool_)  # text loses nothing
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
    """Replace these rows of a column by null."""
    return column.take(pa.array(np.arange(rows.size), mask=rows)) if rows.any() else column
