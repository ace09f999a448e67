"""Rows that repeat: those of one published group agree in all columns but the payload.

Text is rendered once for the distinct rows and looked up for all others, which takes a quarter of the time of rendering
every column by itself.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Codes = NDArray[Any]  # (rows,) integers that are equal where the values are

_FEWEST_ROWS = 1024
_MOST_DISTINCT = 8  # rows for each distinct one, at least
_SAMPLE = 4096
_MOST_IN_SAMPLE = 0.8  # distinct values; a chunk that repeats eight times has about as many
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Repeated(NamedTuple):
    """The distinct rows of some columns."""

    columns: frozenset[int]
    first: pa.Array
    """The first row of each kind."""
    kind: pa.Array
    """The kind of each row."""

    def distinct(self, table: pa.Table) -> pa.Table:
        """A row of each kind."""
        return table.take(self.first)

    def spread(self, texts: Any) -> Any:
        """Expand one text per kind to one per row."""
        return texts.take(self.kind)


def find_repeated(table: pa.Table) -> Repeated | None:
    """Distinct rows of as many leading columns as repeat. Columns that cannot be compared quickly are left out."""
    if table.num_rows < _FEWEST_ROWS:
        return None
    columns = [(at, codes) for at in range(table.num_columns) if (codes := _codes(table.column(at))) is not None]
    least, most = 0, len(columns)
    found = None
    trying = most
    while least < most:
        kinds = _kinds([codes for _, codes in columns[:trying]])
        if kinds is None:
            most = trying - 1
        else:
            least, found = trying, kinds
        trying = (least + most + 1) // 2
    return None if found is None else Repeated(frozenset(at for at, _ in columns[:least]), *map(pa.array, found))


def _codes(column: pa.ChunkedArray) -> Codes | None:
    """Codes of a column; None for one with nulls, of another type, or with values that hardly repeat."""
    if column.num_chunks != 1 or column.null_count:
        return None
    array, types = column.chunk(0), pa.types
    if not _seems_to_repeat(array):
        return None
    if types.is_string(array.type) or types.is_large_string(array.type):
        array = array.dictionary_encode().indices
    elif not (types.is_integer(array.type) or types.is_floating(array.type) or types.is_temporal(array.type)):
        return None
    width = array.type.bit_width // 8
    if width not in (1, 2, 4, 8):
        return None
    codes: Codes = np.frombuffer(array.buffers()[1], f"u{width}")[array.offset : array.offset + len(array)]
    return codes


def _seems_to_repeat(array: pa.Array) -> bool:
    """Guess by a sample: finding out that values do not repeat takes longer than rendering them."""
    sample = array.slice(0, _SAMPLE)
    return len(sample.unique()) <= _MOST_IN_SAMPLE * len(sample)


def _kinds(columns: list[Codes]) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """The first row of each kind, and the kind of each row; None if the rows hardly repeat."""
    mixed = np.zeros(columns[0].size, np.uint64)
    for codes in columns:
        mixed *= _ODD
        mixed += codes
    numbers = pa.array(mixed)
    if not _seems_to_repeat(numbers):
        return None
    encoded = numbers.dictionary_encode()
    kind = encoded.indices.to_numpy()
    if _MOST_DISTINCT * len(encoded.dictionary) > kind.size:
        return None
    first = np.empty(len(encoded.dictionary), np.int64)
    first[kind[::-1]] = np.arange(kind.size - 1, -1, -1)
    # Different rows may be mixed into one number: a published value must never come from another row.
    if not all(np.array_equal(codes[first].take(kind), codes) for codes in columns):
        return None
    return first, kind
