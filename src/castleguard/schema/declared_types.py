"""Declared types of sensitive and public columns: a column is published with its declared type from the first row on.

Most input is text (CSV, JSON), so text is parsed: "2.50" is the number 2.5. A row with a value of another type is
rejected, and no value is changed: 2.5 is not an integer, and a time of day is not dropped.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.column import FINE, NULL, is_text, strip
from castleguard.schema.grid import EXACT
from castleguard.schema.numbers import read_numbers
from castleguard.schema.publishable import plain
from castleguard.schema.sensitive import ValueType
from castleguard.schema.times import DAY

ARROW_TYPES: dict[ValueType, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


def read_declared(column: pa.ChunkedArray, declared: ValueType) -> tuple[pa.ChunkedArray, Misfits | None]:
    """Convert a plain column to its declared type, and flag the misfits, which become null. None: all fit."""
    kind = ARROW_TYPES[declared]
    if column.type == kind:
        return column, None
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), kind)]), None
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    found = _READERS[declared](array)
    missing = np.asarray(array.is_null()) if found.missing is None else found.missing
    misfits = np.asarray(found.values.is_null()) & ~missing
    return pa.chunked_array([found.values]), misfits if misfits.any() else None


def read_types(table: pa.Table, types: Mapping[str, ValueType]) -> tuple[pa.Table, dict[str, Misfits]]:
    """Convert columns of a table to their declared types, and flag the misfits by column."""
    misfits: dict[str, Misfits] = {}
    for name, declared in types.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            column, found = read_declared(plain(table.column(at)), declared)
            table = table.set_column(at, name, column)
            if found is not None:
                misfits[name] = found
    return table, misfits


class _Found:
    """Values of the declared type, null for misfits; and flags of missing input, if these are more than its nulls."""

    def __init__(self, values: Any, missing: Any = None) -> None:
        self.values, self.missing = values, missing


def _text(array: pa.Array) -> _Found:
    return _Found(_cast(array, pa.string()))


def _boolean(array: pa.Array) -> _Found:
    if not is_text(array.type):
        return _Found(pa.nulls(len(array), pa.bool_()))
    words = pc.utf8_lower(strip(array))
    values = pc.if_else(pc.is_in(words, pa.array(["true", "false"], words.type)), pc.equal(words, "true"), None)
    return _Found(values, np.asarray(words.is_null()))


def _number(array: pa.Array) -> _Found:
    if pa.types.is_floating(array.type):
        return _Found(array.cast(pa.float64()))
    read = read_numbers(array, "number")
    fine = (read.problem == FINE) & (np.abs(read.values) < EXACT)  # above it, float64 rounds whole numbers
    return _Found(pa.array(read.values, mask=~fine), read.problem == NULL)


def _integer(array: pa.Array) -> _Found:
    if pa.types.is_integer(array.type):
        return _Found(_cast(array, pa.int64()))
    read = read_numbers(array, "number")
    fine = (read.problem == FINE) & (np.abs(read.values) < EXACT) & (read.values == np.rint(read.values))
    whole = pa.array(np.where(fine, read.values, 0.0).astype(np.int64), mask=~fine)
    if is_text(array.type):  # digits are exact above 2^53 too
        whole = pc.coalesce(_cast(strip(array), pa.int64()), whole)
    return _Found(whole, read.problem == NULL)


def _date(array: pa.Array) -> _Found:
    days, moments = read_numbers(array, "date"), read_numbers(array, "timestamp")
    fine = (days.problem == FINE) & (days.values * DAY == moments.values) & (np.abs(days.values) < 2**31)
    whole = np.where(fine, days.values, 0.0).astype(np.int32)
    return _Found(pa.array(whole, mask=~fine).cast(pa.date32()), days.problem == NULL)


def _timestamp(array: pa.Array) -> _Found:
    if pa.types.is_timestamp(array.type):
        return _Found(_cast(array, pa.timestamp("us")))  # a zoned time becomes UTC
    read = read_numbers(array, "timestamp")
    fine = (read.problem == FINE) & (np.abs(read.values) < 2.0**62)
    ticks = pa.array(np.where(fine, read.values, 0.0).astype(np.int64), mask=~fine)
    return _Found(ticks.cast(pa.timestamp("us")), read.problem == NULL)


_READERS: dict[ValueType, Callable[[pa.Array], _Found]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}


def _cast(array: pa.Array, kind: pa.DataType) -> Any:
    """Values that convert without change; null for the others."""
    try:
        values, _ = cast_values(pa.chunked_array([array]), kind)
    except SchemaError:
        return pa.nulls(len(array), kind)
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
