"""The order in which the rows of one micro-batch are taken in: always the same for the same rows.

A shuffle between machines does not keep order, and a batch may be run again. If its rows then came in another order,
they would get other positions, and so other groups and other draws. Two ways lead to a fixed order:

- by columns that say where a row came from, such as partition and offset;
- without them, by content: the rows are sorted, so that the order depends on nothing but which rows there are, and
  then shuffled by a key that nobody else knows. Sorted alone, they would arrive by their values, and what is published
  of the order would tell about them. Rows with the same content are interchangeable.

Both together where the columns do not tell all rows apart.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import SchemaError

Rows = NDArray[np.int64]  # numbers of rows

_WORD = np.dtype("<u8")


def put_in_order(table: pa.Table, position: Sequence[str], key: bytes) -> pa.Table:
    """The rows in an order that follows from the rows, the position columns and the key, and from nothing else."""
    return table.take(pa.array(fixed_order(table, position, key)))


def fixed_order(table: pa.Table, position: Sequence[str], key: bytes) -> Rows:
    """The numbers of the rows, in that order."""
    if position:
        placed = _by_position(table, position)
        if not _has_equal_neighbours(table.select(list(position)).take(pa.array(placed))):
            return placed
    shuffled = _canonical(table)[permutation(table.num_rows, key)]
    if not position:
        return shuffled
    within: Rows = _by_position(table.take(pa.array(shuffled)), position)
    return shuffled[within]


def permutation(rows: int, key: bytes) -> Rows:
    """A random order of so many things, the same for the same key: by random words of 64 bits, of which no two are
    equal but for one case in 2^64 / rows^2; those keep their order.
    """
    words = np.frombuffer(hashlib.shake_256(b"castleguard order " + key).digest(rows * _WORD.itemsize), dtype=_WORD)
    return np.argsort(words, kind="stable")


def _by_position(table: pa.Table, position: Sequence[str]) -> Rows:
    """By the position columns, the first one first. Rows that they do not tell apart keep their order."""
    if len(position) == 1 and pa.types.is_integer(table.schema.field(position[0]).type):
        only = table.column(position[0])
        if only.null_count == 0:
            return np.argsort(only.to_numpy(), kind="stable")
    return _sorted([(name, table.column(name)) for name in position])


def _canonical(table: pa.Table) -> Rows:
    """By everything that the rows hold: only rows that are equal to the last bit have no order."""
    return _sorted([(name, table.column(name)) for name in sorted(table.column_names)])


def _sorted(columns: list[tuple[str, pa.ChunkedArray]]) -> Rows:
    keys = {str(number): _comparable(name, column) for number, (name, column) in enumerate(columns)}
    # The number of the row last: Arrow does not say what becomes of equal rows.
    rows = len(next(iter(keys.values()))) if keys else 0
    keys["row"] = pa.chunked_array([pa.array(np.arange(rows))])
    found = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    order: Rows = found.to_numpy().astype(np.int64)
    return order


def _comparable(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as something that Arrow sorts, and in which only equal bits are equal."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int8))])
    if pa.types.is_floating(kind):
        # 0.0 and -0.0 compare as equal, and so do all that are no numbers: their bits do not.
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], type=bits)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        raise SchemaError(
            f"column {name!r} of type {kind} cannot be put in a fixed order: name position columns that tell all rows "
            f"apart, such as partition and offset"
        )
    return column


def _has_equal_neighbours(table: pa.Table) -> bool:
    """Whether two rows that follow one another are equal."""
    if table.num_rows < 2:
        return False
    equal = np.ones(table.num_rows - 1, dtype=np.bool_)
    for name in table.column_names:
        values = _comparable(name, table.column(name)).combine_chunks()
        same = pc.equal(values[1:], values[:-1])
        both_null = pc.and_(pc.is_null(values[1:]), pc.is_null(values[:-1]))
        equal &= pc.or_kleene(same, both_null).fill_null(False).to_numpy(zero_copy_only=False)
    return bool(equal.any())
