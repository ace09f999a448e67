"""Untyped columns: those of lists of dicts, and pandas columns of objects.

The published type of such a column is decided once for a stream, by its first value, and each value is then converted
independently. So the outcome depends on earlier values only, never on the rest of the batch.
"""

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.grid import EXACT
from castleguard.schema.table import MISFITS, texts_of_values

Convert = Callable[[pa.ChunkedArray], tuple[pa.ChunkedArray, Misfits | None]]

_INT64 = 2**63


def kind_of_value(value: object) -> pa.DataType:
    """Type of a column with this first value.

    A number is a float64 even if it is whole, because the next one may have a fraction. An integer that may not be
    exact as float64 is an int64, and one beyond int64 is text.
    """
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        if abs(value) < EXACT:
            return pa.float64()
        return pa.int64() if -_INT64 <= value < _INT64 else pa.string()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, Decimal):
        return pa.float64() if convert_values([value], pa.float64())[1] is None else pa.string()
    if isinstance(value, bytes):
        return pa.binary()
    if isinstance(value, dt.datetime):
        return pa.timestamp("us") if value.tzinfo is None else pa.timestamp("us", "UTC")
    return pa.date32() if isinstance(value, dt.date) else pa.string()


def convert_values(
    values: list[Any], kind: pa.DataType, convert: Convert | None = None
) -> tuple[pa.ChunkedArray, Misfits | None]:
    """Convert values to `kind`, and flag those that do not convert, which become null. None: all convert.

    Values of one Python type are converted together by `convert`; by default those convert that stay the same.
    """
    kinds = set(map(type, values)) - {type(None)}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array([_texts(values, kinds, kind)]), None
    if len(kinds) == 1:
        converted, failed = _convert_group(values, kinds.pop(), kind, convert)
        if failed.any():
            failed &= np.fromiter((value is not None for value in values), np.bool_, len(values))
        return converted, failed if failed.any() else None
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    pieces, places = [pa.nulls(int(missing.sum()), kind)], [np.flatnonzero(missing)]
    misfits = np.zeros(len(values), np.bool_)
    for python in kinds:
        rows = np.flatnonzero([type(value) is python for value in values])
        converted, misfits[rows] = _convert_group([values[at] for at in rows], python, kind, convert)
        pieces += converted.chunks
        places.append(rows)
    back = np.argsort(np.concatenate(places))
    return pa.chunked_array(pieces, kind).take(pa.array(back)), misfits if misfits.any() else None


def _texts(values: list[Any], kinds: set[type], kind: pa.DataType) -> pa.Array:
    """Values as text; in one step if all are UTF-8 text already."""
    if kinds <= {str}:
        with suppress(*MISFITS):
            return pa.array(values, kind)
    return pa.array(texts_of_values(values), kind)


def _convert_group(
    values: list[Any], python: type, kind: pa.DataType, convert: Convert | None
) -> tuple[pa.ChunkedArray, Misfits]:
    """Convert values of one Python type (or missing), and flag those that do not convert."""
    array = _array(values, python)
    lost = np.asarray(array.is_null())
    nothing = pa.chunked_array([pa.nulls(len(values), kind)]), np.ones(len(values), np.bool_)
    if python in (bool, int, float) and (python is bool) != pa.types.is_boolean(kind):
        return nothing  # True is not 1
    column = pa.chunked_array([array])
    try:
        converted, failed = cast_values(column, kind) if convert is None else convert(column)
    except SchemaError:  # values of this type never convert
        return nothing
    return converted, lost if failed is None else lost | failed


def _array(values: list[Any], python: type) -> pa.Array:
    """Array whose type depends on the Python type alone; null where a value does not fit."""
    if python is bool:
        return pa.array(values, pa.bool_())
    if python is int:
        fits = (value is not None and -_INT64 <= value < _INT64 for value in values)
        return pa.array([value if fit else None for value, fit in zip(values, fits, strict=True)], pa.int64())
    if python is float:
        return pa.array(values, pa.float64())
    if python is bytes:
        return pa.array(values, pa.binary())
    if python is dt.date:
        return pa.array(values, pa.date32())
    if python is dt.datetime:
        return pa.array(list(map(_in_utc, values)), pa.timestamp("us"))
    return pa.array(texts_of_values(values), pa.string())


def _in_utc(moment: dt.datetime | None) -> dt.datetime | None:
    try:
        return moment if moment is None or moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        return None
