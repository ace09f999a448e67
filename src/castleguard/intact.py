"""Validation of Arrow data, applied wherever binary rows enter.

Readers of Arrow and Parquet trust their input: a damaged offset may point anywhere, and following it reads the values
of another column or crashes. Every batch is therefore validated as a whole before its values are used. This costs about
25 ns for a row of six columns.

Text that is not UTF-8 and a time of day beyond midnight do not count as damage: many tools write such values, and they
concern single rows. They pass, and the decoder rejects the rows that would be published with them.
"""

from typing import TypeVar

import pyarrow as pa

from castleguard.errors import InputError

DAMAGE = (OSError, pa.ArrowException, ValueError, LookupError, ArithmeticError, MemoryError, RecursionError, TypeError)
"""Errors that libraries raise on damaged bytes. Their messages may quote a value: never pass them on."""

_LIGHT_ROWS = 1 << 20
_ROWS_PER_BYTE = 64

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def validated(rows: _Rows, where: str) -> _Rows:
    """Return the rows if they are intact. Raises InputError."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not all(map(is_intact, chunks)):
            raise InputError(f"{where} is damaged: column {_printable(name)} is not valid Arrow data")
    # Rows that occupy no space: a damaged row count would keep a job busy for years.
    if rows.num_rows > _LIGHT_ROWS and rows.num_rows > _ROWS_PER_BYTE * rows.get_total_buffer_size():
        raise InputError(f"{where} is damaged: its row count exceeds its size")
    return rows


def is_intact(array: pa.Array) -> bool:
    """Whether all offsets of the array are valid; text, times and decimals may hold any bits."""
    try:
        array.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError):
        try:
            array.view(_raw_type(array.type)).validate(full=True)
        except DAMAGE:
            return False
    return True


def _raw_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with bytes or integers, at every depth, in place of types with invalid bit patterns."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _raw_type(kind.storage_type)
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _raw_type(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_raw_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_raw_type(kind.key_type), _raw_type(kind.item_type), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(_raw_field(kind), kind.list_size)
    for is_kind, make in _LISTS:
        if is_kind(kind):
            return make(_raw_field(kind))
    if types.is_decimal(kind):
        return pa.binary(kind.byte_width)
    return _RAW.get(kind, kind)


def _raw_field(kind: pa.DataType) -> pa.Field:
    return kind.value_field.with_type(_raw_type(kind.value_type))


def _printable(name: str) -> str:
    """Return a column's name in printable form: it may be damaged too."""
    return repr(name.encode(errors="backslashreplace").decode())


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
_RAW = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
    pa.date64(): pa.int64(),
    pa.time32("s"): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
    pa.time64("ns"): pa.int64(),
}
