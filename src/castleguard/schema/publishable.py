"""Reduce a column to the values that may be published, and find values that a sink cannot take.

Arrow data carries more than its values. A dictionary holds the values of all rows, including those not published; a
field and an extension type have metadata; the null of a struct can hide earlier values. So payload columns are made
plain: at every depth without dictionaries, extensions, views and runs, with fields of a name and a type only, and with
nulls that hide nothing.

No sink can take text that is not UTF-8, a time outside the years 1 to 9999, a date with a time of day, a time of day
beyond midnight, or a decimal with more digits than its type has. Rows with such values are rejected here, before the
engine sees them: a released row counts in its group, so it can no longer be left out.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.intact import DAMAGE
from castleguard.schema.column import failing_rows
from castleguard.schema.times import TICKS_PER_SECOND

Unfit = Callable[[pa.ChunkedArray], NDArray[np.bool_] | None]
"""Flags the values of a column that the sink cannot take; None: it takes all."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Type of the values without encodings. Raises SchemaError if they have no single type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type), kind.list_size)
    if types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if _is_long_list(kind):
        return pa.large_list(plain_type(kind.value_type))
    if types.is_union(kind):
        raise SchemaError(f"cannot publish values of type {kind}: give the column one type")
    return kind


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values as a plain column. Raises SchemaError for a type that cannot be published."""
    if _is_plain(column.type):
        return column
    kind = plain_type(column.type)
    try:
        return pa.chunked_array([_plain(chunk) for chunk in column.chunks], kind)
    except DAMAGE:
        raise SchemaError(f"cannot publish values of type {column.type}: convert them first") from None


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    wrapped = isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind) or types.is_run_end_encoded(kind)
    return not (wrapped or types.is_nested(kind) or types.is_string_view(kind) or types.is_binary_view(kind))


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    types = pa.types
    if _is_plain(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if types.is_dictionary(kind):
        return _plain(array.dictionary).take(array.indices)
    if types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(plain_type(kind))
    if types.is_struct(kind):
        return _plain_struct(array)
    if types.is_fixed_size_list(kind):
        return _plain_fixed(array)
    return _plain_list(array)


def _plain_struct(array: Any) -> pa.Array:
    if not array.type.num_fields:
        return array
    # In flattened form a child is null wherever its parent is.
    children = [_plain(child) for child in array.flatten()]
    fields = [pa.field(field.name, child.type) for field, child in zip(array.type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(array))


def _plain_fixed(array: Any) -> pa.Array:
    size = array.type.list_size
    places = pa.array(np.arange(len(array) * size), mask=np.repeat(_nulls(array), size))
    values = _plain(array.values.slice(array.offset * size, len(array) * size)).take(places)
    return pa.FixedSizeListArray.from_arrays(values, type=plain_type(array.type), mask=_mask(array))


def entries(array: Any) -> Any:
    """A map as a list of keys and items; any other list unchanged."""
    return array.view(pa.list_(array.type.field(0))) if pa.types.is_map(array.type) else array


def _plain_list(given: Any) -> pa.Array:
    array = entries(given)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    values = array.flatten()  # without the values behind null lists
    mask = _mask(array)
    if pa.types.is_map(given.type):
        keys, items = (_plain(child) for child in values.flatten())
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=mask)
    if _is_long_list(array.type):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), _plain(values), mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _plain(values), mask=mask)


def _is_long_list(kind: pa.DataType) -> bool:
    """Whether the lists need 64-bit offsets; views do, because they may repeat one value many times."""
    types = pa.types
    return bool(types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind))


def _nulls(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    mask: np.ndarray[Any, np.dtype[np.bool_]] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _mask(array: pa.Array) -> pa.Array | None:
    return pa.array(_nulls(array)) if array.null_count else None


_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86400
# Seconds since 1970, a day within the calendar's ends, because a zone shifts a time by up to a day.
_FIRST = int((dt.datetime(1, 1, 2) - _EPOCH).total_seconds())
_LAST = int((dt.datetime(9999, 12, 31) - _EPOCH).total_seconds())


def unpublishable(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Flags of rows of a plain column with a value that no sink can take, at any depth; None if none has one."""
    return failing_rows(column, _fits) if _may_fail(column.type) else None


def publishable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace values that no sink can take by null."""
    found = unpublishable(column)
    return column if found is None else column.take(pa.array(np.arange(found.size), mask=found))


def too_long(columns: Sequence[Any], rows: NDArray[np.bool_], most: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Flags of the `rows` that take more than `most` bytes of JSON, by the index of their longest column.

    An upper bound clears nearly all rows; the others are serialised and measured.
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
    """Bytes of every value of variable length."""
    kind = column.type
    types = pa.types
    if types.is_nested(kind):
        # The whole column is an upper bound. That clears most rows, and the others are measured.
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
        ticks = TICKS_PER_SECOND["ms"] if pa.types.is_date64(kind) else TICKS_PER_SECOND[kind.unit]
        number, first, last = pa.int64(), _FIRST * ticks, _LAST * ticks
    extremes = pc.min_max(array.view(number))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return low is None or (low >= first and high < last)
