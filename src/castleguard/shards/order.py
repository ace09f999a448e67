"""Deterministic order of the rows of one micro-batch: the same rows always have the same order.

A shuffle between machines does not preserve order, and a batch may be replayed. In another order the rows would get
other positions, and so other groups and other draws. The order is fixed in one of two ways:

- by position columns, such as partition and offset;
- without them, by content: the rows are sorted, which removes their order of arrival, and then shuffled with a secret
  key. In sorted order alone, the order of the output would reveal values. Rows with equal content are interchangeable.

Where position columns are not unique, both are combined.
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
    """Return the rows in an order that depends only on the rows, the position columns and the key."""
    return table.take(pa.array(fixed_order(table, position, key)))


def fixed_order(table: pa.Table, position: Sequence[str], key: bytes) -> Rows:
    """Return the row numbers in that order."""
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
    """Return a random permutation that depends only on the key.

    It sorts random 64-bit words. Two of them are equal with probability below rows^2 / 2^64; those keep their order.
    """
    words = np.frombuffer(hashlib.shake_256(b"castleguard order " + key).digest(rows * _WORD.itemsize), dtype=_WORD)
    return np.argsort(words, kind="stable")


def _by_position(table: pa.Table, position: Sequence[str]) -> Rows:
    """Sort by the position columns, the first one first. Stable."""
    if len(position) == 1 and pa.types.is_integer(table.schema.field(position[0]).type):
        only = table.column(position[0])
        if only.null_count == 0:
            return np.argsort(only.to_numpy(), kind="stable")
    return _sorted([(name, table.column(name)) for name in position])


def _canonical(table: pa.Table) -> Rows:
    """Sort by all columns: only bitwise equal rows compare equal."""
    return _sorted([(name, table.column(name)) for name in sorted(table.column_names)])


def _sorted(columns: list[tuple[str, pa.ChunkedArray]]) -> Rows:
    keys = {str(number): _comparable(name, column) for number, (name, column) in enumerate(columns)}
    # The row number last: Arrow does not document its sort as stable.
    rows = len(next(iter(keys.values()))) if keys else 0
    keys["row"] = pa.chunked_array([pa.array(np.arange(rows))])
    found = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    order: Rows = found.to_numpy().astype(np.int64)
    return order


def _comparable(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to a type that Arrow can sort and in which only equal bits compare equal."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int8))])
    if pa.types.is_floating(kind):
        # As floats, 0.0 equals -0.0 and all NaNs are equal in a sort; their bits differ.
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], type=bits)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        raise SchemaError(
            f"column {name!r} of type {kind} cannot be sorted: name position columns that identify each row, such as "
            f"partition and offset"
        )
    return column


def _has_equal_neighbours(table: pa.Table) -> bool:
    """Whether two consecutive rows are equal."""
    if table.num_rows < 2:
        return False
    equal = np.ones(table.num_rows - 1, dtype=np.bool_)
    for name in table.column_names:
        values = _comparable(name, table.column(name)).combine_chunks()
        same = pc.equal(values[1:], values[:-1])
        both_null = pc.and_(pc.is_null(values[1:]), pc.is_null(values[:-1]))
        equal &= pc.or_kleene(same, both_null).fill_null(False).to_numpy(zero_copy_only=False)
    return bool(equal.any())
