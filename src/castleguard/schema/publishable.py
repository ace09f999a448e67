"""Which values no sink can take: text that is not UTF-8, a time outside of the years 1 to 9999, a date with a time of
day, a time of day beyond midnight, a decimal with more digits than its type has.

They are found here, before the engine sees their row. A row that is released has been counted in its group: it can be
neither taken out of it nor left in it.
"""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.schema.failing import failing_rows
from castleguard.schema.plain import entries

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86400
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# In seconds since 1970, and a day within: a zone moves a time by up to a day.
_FIRST = int((dt.datetime(1, 1, 2) - _EPOCH).total_seconds())
_LAST = int((dt.datetime(9999, 12, 31) - _EPOCH).total_seconds())


def unpublishable(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Which rows of a plain column hold such a value, at any depth; None if none does."""
    return failing_rows(column, _fits) if _may_fail(column.type) else None


def publishable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with nulls in place of such values."""
    found = unpublishable(column)
    return column if found is None else column.take(pa.array(np.arange(found.size), mask=found))


def too_long(columns: Sequence[Any], rows: NDArray[np.bool_], most: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Which of the `rows` take more than so many bytes of JSON, by the number of their longest column.

    An upper bound tells of nearly all rows that they do not; the others are written and measured.
    """
    lengths = np.array([_bytes_of(column) for column in columns])
    doubtful = np.flatnonzero(rows & (np.sum(_ESCAPED * lengths + _FIXED, axis=0) > most))
    found: dict[int, list[int]] = {}
    for row in doubtful:
        values = [column[int(row)].as_py() for column in columns]
        if len(json.dumps(values, ensure_ascii=False, default=str).encode()) > most:
            found.setdefault(int(np.argmax(lengths[:, row])), []).append(int(row))
    for at, numbers in found.items():
        mask = np.zeros(rows.size, np.bool_)
        mask[numbers] = True
        yield at, mask


_ESCAPED = 6  # bytes of JSON for one byte of text, at most
_FIXED = 64  # bytes of JSON for a value that is not text, at most


def _bytes_of(column: Any) -> NDArray[np.int64]:
    """The bytes of every value whose length differs from row to row."""
    kind = column.type
    types = pa.types
    if types.is_nested(kind):
        # Never more than the whole column has; that suffices for most, and the others are measured.
        return np.full(len(column), column.nbytes, np.int64)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        lengths: NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        return lengths
    return np.full(len(column), kind.byte_width if types.is_fixed_size_binary(kind) else 0, np.int64)


def _may_fail(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_nested(kind):
        return any(_may_fail(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_string(kind) or types.is_large_string(kind):
        return True
    return bool(types.is_temporal(kind) or types.is_decimal(kind))


def _fits(array: Any) -> bool:
    """Whether all values can be published."""
    kind = array.type
    types = pa.types
    if not _may_fail(kind):
        return True
    if types.is_struct(kind):
        return all(map(_fits, array.flatten()))
    if types.is_nested(kind):
        return _fits(entries(array).flatten())
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False
    return _fits_calendar(array) if types.is_date(kind) or types.is_timestamp(kind) else True


def _fits_calendar(array: Any) -> bool:
    kind = array.type
    if pa.types.is_date32(kind):
        number, first, last = pa.int32(), _FIRST // _DAY, _LAST // _DAY
    else:
        ticks = _TICKS["ms"] if pa.types.is_date64(kind) else _TICKS[kind.unit]
        number, first, last = pa.int64(), _FIRST * ticks, _LAST * ticks
    extremes = pc.min_max(array.view(number))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is None or (low >= first and high < last)
