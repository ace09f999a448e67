"""A column during decoding: a number and a problem per row, and its values as text.

Arrow delivers a column in chunks, possibly dictionary-encoded. Later code sees one plain array, and a dictionary is
read once per distinct value instead of once per row.

Categories and persons are compared as text. A reader that guesses types may deliver the same column as integers in one
batch, as floats in the next (because a value was missing) and as text in a third. So 3, 3.0 and "3" are the same text,
outer blanks do not count, and an empty text is a missing value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.coded import REASONS
from castleguard.schema.grid import EXACT

Problems = NDArray[np.int8]  # (rows,) FINE, or an index into REASONS

FINE = -1
NULL, INVALID, OUTSIDE, UNKNOWN = (REASONS.index(word) for word in ("null", "invalid", "outside", "unknown"))
UNPUBLISHABLE, TOO_LONG, OTHER_TYPE = (REASONS.index(word) for word in ("unpublishable", "too long", "other type"))

_Number = TypeVar("_Number", bound=np.generic)


class Column(NamedTuple):
    """A decoded column. A value is meaningless where `problem` is not FINE."""

    values: NDArray[np.float64]
    problem: Problems
    clamped: NDArray[np.bool_] | None = None
    """Flags of values that were moved to the nearest bound of the domain; None: none."""


class Distinct(NamedTuple):
    """Distinct values of a column, and the index of each row's value."""

    values: pa.Array
    rows: NDArray[np.int64] | None
    """None: there is one value per row."""

    def spread(self, found: NDArray[_Number]) -> NDArray[_Number]:
        """Expand results per value to results per row."""
        return found if self.rows is None else found[self.rows]


def distinct(column: pa.ChunkedArray) -> Distinct:
    """A column as one array; a dictionary-encoded one by its distinct values."""
    array = _one_array(column)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if not pa.types.is_dictionary(array.type):
        return Distinct(array, None)
    dictionary = array.dictionary
    if len(dictionary) >= len(array):
        return Distinct(array.dictionary_decode(), None)
    # Null rows point at an extra null after the dictionary.
    values = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    rows = array.indices.cast(pa.int64()).fill_null(len(dictionary)).to_numpy(zero_copy_only=False)
    return Distinct(values, rows)


def null_mask(array: pa.Array) -> NDArray[np.bool_]:
    """Flags of missing values."""
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            raise SchemaError("the batch is too large for one Arrow array: push smaller batches")
        array = array.chunk(0)
    return array


Flags = NDArray[np.bool_]  # (rows,)


def failing_rows(column: pa.ChunkedArray, passes: Callable[[Any], bool]) -> Flags | None:
    """Flags of rows that do not pass, found by bisecting each chunk; None if all pass."""
    if all(map(passes, column.chunks)):
        return None
    found = np.zeros(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        _mark(chunk, passes, found[start : start + len(chunk)])
        start += len(chunk)
    return found


def _mark(array: pa.Array, passes: Callable[[Any], bool], found: Flags) -> None:
    if not len(array) or passes(array):
        return
    if len(array) == 1:
        found[0] = True
        return
    half = len(array) // 2
    _mark(array.slice(0, half), passes, found[:half])
    _mark(array.slice(half), passes, found[half:])


BLANK = 0x20  # highest byte that counts as a blank


class Strings(NamedTuple):
    """Buffers of a text array: row i is data[offsets[i]:offsets[i + 1]]. `data` is read-only."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    valid: NDArray[np.bool_]


def as_text(array: pa.Array) -> pa.Array | None:
    """Values as stripped text (large_string), null if missing or empty; None if the type has no text form."""
    kind = array.type
    if is_text(kind):
        return strip(array)
    if pa.types.is_floating(kind):
        return _float_text(array)
    if pa.types.is_timestamp(kind):
        # One unit for all, or seconds and nanoseconds would differ in trailing zeros.
        plain = array.cast(pa.timestamp("us"), safe=False).cast(pa.large_string())
        return pc.replace_substring_regex(plain, r"\.?0*$", "")
    if pa.types.is_decimal(kind):
        return pc.replace_substring_regex(array.cast(pa.large_string()), r"(\.\d*[1-9])0+$|\.0+$", r"\1")
    if pa.types.is_nested(kind):
        return None
    try:
        return array.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, or bytes, which are read as UTF-8."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def strip(array: pa.Array) -> pa.Array:
    """Strip outer blanks from a text array, as large_string; an empty text becomes null."""
    text = _utf8(array)
    strings = view_strings(text)
    if strings.data.size and strings.data.min() <= BLANK:
        text = pc.ascii_trim_whitespace(text)
        strings = view_strings(text)
    empty = np.diff(strings.offsets) == 0
    if np.any(empty & strings.valid):
        text = pc.if_else(pa.array(empty), pa.scalar(None, text.type), text)
    return text


def view_strings(text: pa.Array) -> Strings:
    """Buffers of a large_string array, without copying its text."""
    _, offset_buffer, data_buffer = text.buffers()
    if len(text) == 0 or offset_buffer is None:
        return Strings(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    offsets = np.frombuffer(offset_buffer, np.int64)[text.offset : text.offset + len(text) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)[first:last]
    return Strings(data, offsets - first, ~null_mask(text))


# Floats of this many bits represent all whole numbers below the bound.
EXACT_BY_WIDTH = {16: 2**11, 32: 2**24, 64: EXACT}


def whole_numbers(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A float array as integers, and flags of the exact ones: whole numbers that no rounding can have produced."""
    values = array.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    exact = (np.trunc(values) == values) & (np.abs(values) < EXACT_BY_WIDTH[array.type.bit_width])
    return np.where(exact, values, 0.0).astype(np.int64), exact


def _float_text(array: pa.Array) -> pa.Array:
    values, exact = whole_numbers(array)
    digits = pa.array(values).cast(pa.large_string())
    # Fractions are printed from the original type: 0.1 as float32 must not become 0.10000000149011612.
    return pc.if_else(pa.array(exact), digits, array.cast(pa.large_string()))


def _utf8(array: pa.Array) -> pa.Array:
    """Text or bytes as large_string; bytes that are not UTF-8 are replaced."""
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid:
        readable = [None if raw is None else raw.decode("utf-8", "replace") for raw in array.to_pylist()]
    return pa.array(readable, pa.large_string())
