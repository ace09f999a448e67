"""Raw columns as numbers and texts, parsed value by value in Python.

The stream's decoder does the same work on whole columns. Verification relies on the two agreeing, so this module shares
no code with it.
"""

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import InputError

Numbers = NDArray[np.float64]  # (rows,)
Codes = NDArray[np.int64]  # (rows,)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Stricter than Python, which also accepts digits of other scripts, 1_000 and ISO weeks.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)


def column_of(table: pa.Table, name: str, which: str = "published") -> pa.ChunkedArray:
    """Column of a table. Raises InputError if it is missing; `which` names the table in the message."""
    if name not in table.column_names:
        raise InputError(f"the {which} table has no column {name!r}")
    return table.column(name)


def numbers_of(column: pa.ChunkedArray, kind: str) -> tuple[Numbers, NDArray[np.bool_]]:
    """Values as numbers (dates as days, timestamps as microseconds since 1970, UTC), and which of them are missing.

    Missing and unreadable values are NaN.
    """
    if kind == "number" and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        plain: Numbers = pc.cast(column, pa.float64(), safe=False).to_numpy()
        return np.where(np.isfinite(plain), plain, np.nan), pc.is_null(column).to_numpy()
    values, codes = _distinct(column)
    readers: dict[str, Callable[[Any], float]] = {"number": _number, "date": _days, "timestamp": _microseconds}
    known = np.array([readers[kind](value) for value in values], dtype=np.float64)
    missing = np.array([value is None for value in values], dtype=np.bool_)
    return known[codes], missing[codes]


def texts_of(column: pa.ChunkedArray) -> tuple[list[str | None], Codes]:
    """Distinct values as text, None for missing, and the index of each row's value."""
    values, codes = _distinct(column)
    return [None if value is None else _text(value) for value in values], codes


def _distinct(column: pa.ChunkedArray) -> tuple[list[Any], Codes]:
    """Distinct values as Python objects, text without surrounding blanks, and the index of each row's value."""
    if pa.types.is_nested(column.type):
        raise InputError("cannot judge a column of nested values (lists, structs): declare columns of single values")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    numbers: dict[Any, int] = {}
    raw = [_strip(value) for value in encoded.dictionary.to_pylist()]
    merged = np.array([numbers.setdefault(value, len(numbers)) for value in raw], dtype=np.int64)
    codes: Codes = merged[encoded.indices.to_numpy(zero_copy_only=False)] if raw else np.zeros(0, np.int64)
    return list(numbers), codes


def _strip(value: Any) -> Any:
    """Text without surrounding blanks; None for blank text and for NaN, which does not equal itself."""
    if isinstance(value, str):
        return value.strip() or None
    return None if isinstance(value, float) and math.isnan(value) else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def comparable(text: str | None) -> object:
    """Number or timestamp that a text file may have turned into this text; otherwise the text itself."""
    if text is None:
        return None
    for read in (_number, _microseconds):
        value = read(text)
        if not math.isnan(value):
            return read.__name__, value
    return text


def common_codes(one: pa.ChunkedArray, other: pa.ChunkedArray) -> tuple[Codes, Codes]:
    """Common numbering of the values of two columns, although a text file may have changed the type of one."""
    numbers: dict[object, int] = {}
    found = []
    for column in (one, other):
        texts, codes = texts_of(column)
        known = np.array([numbers.setdefault(comparable(text), len(numbers)) for text in texts], dtype=np.int64)
        found.append(known[codes] if texts else np.zeros(0, np.int64))
    return found[0], found[1]


def _number(value: Any) -> float:
    if value is None or isinstance(value, bool | dt.date):
        return np.nan
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return np.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.nan
    return number if np.isfinite(number) else np.nan


def _microseconds(value: Any) -> float:
    if isinstance(value, str):
        if not _MOMENT.fullmatch(value):
            return np.nan
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return np.nan
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime):
        return np.nan
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return float((aware - EPOCH) // dt.timedelta(microseconds=1))


def _days(value: Any) -> float:
    return float(np.floor(_microseconds(value) / 86_400_000_000))


def refine(groups: Codes, codes: Codes | Numbers) -> Codes:
    """Split groups where the codes differ. Group numbers run from 0 without gaps.

    >>> refine(np.array([0, 0, 1, 1]), np.array([5, 7, 7, 7])).tolist()
    [0, 1, 2, 2]
    """
    _, small = np.unique(codes, return_inverse=True)
    found: Codes = np.unique(groups * (int(small.max(initial=0)) + 1) + small, return_inverse=True)[1]
    return found
