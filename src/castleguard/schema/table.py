"""Convert batches of pyarrow, pandas, polars or a list of dicts to an Arrow table.

An odd value must reject its row, not raise an exception, and the fate of a row must not depend on the other rows of its
batch. So values are never coerced to the type of their neighbours (True beside a float is not 1.0): a column of mixed
types becomes text, which the decoder reads value by value.
"""

import datetime as dt
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import SchemaError
from castleguard.intact import DAMAGE, validated
from castleguard.schema.column import EXACT_BY_WIDTH
from castleguard.schema.grid import EXACT
from castleguard.schema.hierarchy import label_text
from castleguard.schema.identities import as_person

# Types that Arrow stores directly. Others (UUIDs, enums, ...) become text; an object without its own text form is
# missing, because Python's default text contains its address in memory.
PLAIN = {bool, int, float, str, bytes, Decimal, dt.date, dt.datetime}
# Exceptions of Arrow for a value that does not fit. Their messages quote the value and must never be passed on.
MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError)


_MOST_PLACES = 400  # digits of a decimal that is written without an exponent


def to_table(data: object, columns: Sequence[str] | None = None, *, person: str | None = None) -> pa.Table:
    """Validated table with the rows of `data`; Arrow data is not copied.

    A list of dicts gives a table of the given `columns`, null where a dict lacks the key, even if all lack it; without
    `columns`, of all keys. Mixed values of the column `person` that would be indistinguishable in a column of their own
    type are missing.
    """
    return split_table(data, columns, person=person)[0]


def split_table(
    data: object, columns: Sequence[str] | None = None, *, person: str | None = None, apart: Collection[str] = ()
) -> tuple[pa.Table, dict[str, list[Any]]]:
    """The table, and the Python values of untyped columns named in `apart`, which are null in the table."""
    values: dict[str, list[Any]] = {}

    def read(name: str, given: list[Any]) -> pa.Array:
        if name not in apart:
            return _from_values(given, name == person)
        values[name] = _plain_values(given, persons=False)
        return pa.nulls(len(given))

    return _to_table(data, columns, read), values


_Read = Callable[[str, list[Any]], pa.Array]
"""Reads the values of an untyped column, given its name."""


def _to_table(data: object, columns: Sequence[str] | None, read: _Read) -> pa.Table:
    if isinstance(data, pa.Table):
        return _intact(data, columns)
    if isinstance(data, pa.RecordBatch):
        return _intact(pa.Table.from_batches([data]), columns)
    if _is_frame_of("pandas", data):
        return _intact(_from_pandas(data, read), columns)
    if isinstance(data, list | tuple):
        return _from_dicts(data, columns, read)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, type):  # polars, and others with Arrow's protocol
        _check_objects(data, columns)
        with suppress(*DAMAGE):  # a Series has the protocol but no columns
            return _intact(pa.table(data), columns)
    what = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
    raise SchemaError(
        f"cannot read rows from {what}: give a pyarrow Table or RecordBatch, "
        "a pandas or polars DataFrame, or a list of dicts"
    )


def has_types(data: object, column: str | None) -> bool:
    """Whether a column has a declared type, not just one inferred from the values of this batch."""
    if isinstance(data, list | tuple):
        return False
    if _is_frame_of("pandas", data) and column is not None:
        frame: Any = data
        return column in frame.columns and str(getattr(frame[column], "dtype", object)) != "object"
    return True


def _intact(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """Validate the columns that will be read, and convert views, runs and dictionaries of views to plain columns.

    Arrow cannot select rows of those.
    """
    read = [number for number, name in enumerate(table.column_names) if columns is None or name in columns]
    validated(table.select(read), "the batch")
    for number in read:
        field = table.schema.field(number)
        chunks = [_without_view(chunk) for chunk in table.column(number).chunks]
        if any(chunk.type != field.type for chunk in chunks):
            table = table.set_column(number, field.name, pa.chunked_array(chunks))
    return table


def _without_view(array: pa.Array) -> pa.Array:
    if array.type == pa.string_view():
        return array.cast(pa.large_string())
    if array.type == pa.binary_view():
        return array.cast(pa.large_binary())
    if pa.types.is_run_end_encoded(array.type):
        return _without_view(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _without_view(array.dictionary))
    return array


def _is_frame_of(library: str, data: object) -> bool:
    """Whether `data` is a DataFrame of a library, without importing it."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, module.DataFrame)


def _check_objects(data: object, columns: Sequence[str] | None) -> None:
    """Refuse Python objects in a polars DataFrame: Arrow would receive their addresses in memory."""
    if not _is_frame_of("polars", data):
        return
    frame: Any = data
    for name, kind in frame.schema.items():
        if kind == sys.modules["polars"].Object and (columns is None or name in columns):
            raise SchemaError(f"column {name!r} holds Python objects: convert it to text or numbers")


def _from_pandas(frame: Any, read: _Read) -> pa.Table:
    """Convert column by column, so that a mixed one does not affect the others. Drops the index; NaN becomes null."""
    arrays = [_from_series(frame.iloc[:, at], str(name), read) for at, name in enumerate(frame.columns)]
    return pa.Table.from_arrays(arrays, names=[str(name) for name in frame.columns])


def _from_series(series: Any, name: str, read: _Read) -> pa.Array:
    if series.dtype != object:
        with suppress(*MISFITS):
            return pa.array(series, from_pandas=True)
    return read(name, [None if gone else value for value, gone in zip(series, series.isna(), strict=True)])


def _from_dicts(rows: Sequence[object], columns: Sequence[str] | None, read: _Read) -> pa.Table:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(
                f"row {number} of the list is a {type(row).__name__}, not a dict of column names and values"
            )
    mappings: Sequence[Mapping[str, object]] = rows  # type: ignore[assignment]
    names = columns if columns is not None else list(dict.fromkeys(key for row in mappings for key in row))
    return pa.table({name: read(name, [row.get(name) for row in mappings]) for name in names})


def _plain_values(values: list[Any], *, persons: bool) -> list[Any]:
    """Values with those of other libraries converted to Python's."""
    if {type(value) for value in values} <= PLAIN | {type(None)}:
        return values
    return [value if type(value) in PLAIN else _plain(value, persons) for value in values]


def _from_values(values: list[Any], persons: bool = False) -> pa.Array:
    """Array of Python values: of their common type if they have one, else of text."""
    values = _plain_values(values, persons=persons)
    kinds = {type(value) for value in values} - {type(None)}
    if (len(kinds) <= 1 and kinds <= PLAIN) or (kinds == {int, float} and _fit_floats(values)):
        with suppress(*MISFITS):
            return pa.array(values)
    return pa.array(texts_of_values(map(as_person, values) if persons else values), pa.large_string())


def _plain(value: object, persons: bool) -> object:
    """A value of another library as a Python value; None if it is missing or has no text form of its own."""
    if value is None or _is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        moment = value.item() if np.datetime_data(value)[0] in _DATES else value.astype("datetime64[us]").item()
        return moment if isinstance(moment, dt.date) else None  # numpy's calendar is longer than Python's
    if isinstance(value, np.floating):
        indistinct = persons and abs(value) >= EXACT_BY_WIDTH.get(8 * value.itemsize, EXACT)
        return None if indistinct else float(value)
    if isinstance(value, np.generic):
        plain: object = value.item()
        return str(plain) if isinstance(plain, np.generic) else plain
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    kind = type(value)
    return None if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__ else value


_DATES = ("Y", "M", "W", "D")  # units of numpy that are dates


def _is_missing(value: object) -> bool:
    """Whether a value is numpy's or pandas's mark of a missing value."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def _fit_floats(numbers: list[Any]) -> bool:
    """Whether all integers among these numbers are exact as floats."""
    return not any(type(number) is int and abs(number) >= EXACT for number in numbers)


def texts_of_values(values: Iterable[object]) -> list[str | None]:
    """Text of each value, the same that the decoder would make of it in a column of its own type.

    A value without a text (a number of thousands of digits, a time beyond the calendar) is missing, so that it does not
    stop the others.
    """
    texts: list[str | None] = []
    for value in values:
        try:
            texts.append(None if value is None else _text(value))
        except (ValueError, OverflowError):
            texts.append(None)
    return texts


def _text(value: object) -> str:
    if isinstance(value, float) and not value.is_integer() and math.isfinite(value):
        # As Arrow prints it in a column of floats: 0.00001, not 1e-05.
        return str(pa.scalar(value).cast(pa.large_string()))
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        plain = str(aware.astimezone(dt.UTC).replace(tzinfo=None))
        return plain.rstrip("0") if "." in plain else plain
    if isinstance(value, Decimal):
        if value.is_finite() and abs(value.adjusted()) > _MOST_PLACES:
            return str(value)  # a billion digits for 1E+999999999 otherwise
        plain = format(value, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | int) or (isinstance(value, float) and abs(value) < EXACT):
        return label_text(value)
    return str(value).encode("utf-8", "replace").decode()
