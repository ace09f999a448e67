"""Columns as text, for the formats that are text.

Published columns repeat a few values many times (the edges of a grid), so each distinct value is rendered once and
looked up: this is where most of the time of writing a file goes otherwise.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHUNK_ROWS = 65536  # rendered and written together; the cost per call is then lost in the cost per row


class Chunks:
    """Cuts a sequence of tables into chunks of CHUNK_ROWS rows, whatever the sizes of the tables.

    So the bytes of a file depend on its rows only. The first table is a chunk of its own if nothing follows, even when
    it is empty: it carries the names of the columns.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take a table; yield the chunks that are full."""
        if table.num_rows or not self._waiting:
            self._waiting.append(table)
            self._rows += table.num_rows
        while self._rows >= CHUNK_ROWS:
            whole = pa.concat_tables(self._waiting)
            yield whole.slice(0, CHUNK_ROWS).combine_chunks()
            self._waiting = [whole.slice(CHUNK_ROWS)]
            self._rows -= CHUNK_ROWS

    def rest(self) -> Iterator[pa.Table]:
        """Yield what is left."""
        if self._waiting:
            yield pa.concat_tables(self._waiting).combine_chunks()
            self._waiting = []


def chunks_of(column: Any) -> list[Any]:
    """The arrays of a column (Array or ChunkedArray)."""
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def long(text: str) -> pa.Scalar:
    """A text to be joined with large strings."""
    return pa.scalar(text, pa.large_string())


def as_long_text(column: Any) -> Any:
    """A column as large strings, whatever it was: texts of two types cannot be joined."""
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
    """Each value as text; a time without the zeros of a fraction that it does not have."""
    text = pc.cast(values, pa.string())
    if pa.types.is_timestamp(values.type):
        return pc.replace_substring_regex(text, r"\.0+([^0-9].*)?$", r"\1")
    return text
