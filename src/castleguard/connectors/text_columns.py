"""Columns as text, for the formats that are text.

Published columns repeat a few values many times (the edges of a grid), so each distinct value is rendered once and
looked up: otherwise rendering would take most of the time of writing a file.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_ROWS = 65536  # rendered and written together, so that the cost per call is negligible


def count_byte(block: bytes, byte: bytes, end: int | None = None) -> int:
    """Number of times a byte occurs before `end`; ten times as fast as `bytes.count` for a frequent byte."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8)[:end] == ord(byte)))


def is_utf8(block: bytes) -> bool:
    """Whether all of a block is UTF-8; the parsers do not check."""
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def chunks_of(column: Any) -> list[Any]:
    """The arrays of a column (Array or ChunkedArray)."""
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def long(text: str) -> pa.Scalar:
    """A scalar to be joined with large strings."""
    return pa.scalar(text, pa.large_string())


def text_bytes(texts: Any) -> pa.Buffer:
    """All texts of a column of large strings, one after the other."""
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    _, offsets, data = array.buffers()
    if data is None:
        return pa.py_buffer(b"")
    bounds = np.frombuffer(offsets, np.int64)
    first, last = int(bounds[array.offset]), int(bounds[array.offset + len(array)])
    return data.slice(first, last - first)


def as_long_text(column: Any) -> Any:
    """A column as large strings: strings of two types cannot be joined."""
    return as_text(column).cast(pa.large_string())


def as_text(column: Any) -> Any:
    """A column (Array or ChunkedArray) as strings; null stays null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_signed_integer(kind):
        return _integers_as_text(column)
    if pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return _repeated_as_text(column)
    return pc.cast(column, pa.string())


def _integers_as_text(column: Any) -> Any:
    extremes = pc.min_max(column)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None or high - low > len(column):
        return pc.cast(column, pa.string())
    labels = pc.cast(pa.array(np.arange(low, high + 1)), pa.string())
    # As int64, because the distance between two int8 need not be an int8.
    return labels.take(column if low == 0 else pc.subtract(pc.cast(column, pa.int64()), low))


def _repeated_as_text(column: Any) -> Any:
    encoded = column.dictionary_encode()
    if 2 * len(encoded.dictionary) > len(column):
        return _labels(column)
    return _labels(encoded.dictionary).take(encoded.indices)


def _labels(values: Any) -> Any:
    """Each value as text; a time without a fraction of zeros."""
    text = pc.cast(values, pa.string())
    if pa.types.is_timestamp(values.type):
        return pc.replace_substring_regex(text, r"\.0+([^0-9].*)?$", r"\1")
    return text
