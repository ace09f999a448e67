"""Rows as JSON objects: numbers as numbers, dates and times as ISO strings, NaN as null.

Published rows share their boxes with others of their group, so the first columns of a table hold few different rows.
The text of these is made once for each of them.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.connectors.text_columns import as_text

_FEWEST = 4096  # rows from which on searching for rows that are alike pays
_SAMPLE = 1024  # rows that show up to which column they are
_MOST_DISTINCT = 4  # a fourth of all rows, at most
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Words = NDArray[np.uint64]  # (rows,)
Indices = NDArray[np.int64]


class _Heads(NamedTuple):
    """The first columns of the rows."""

    columns: int
    """How many."""
    first: Indices
    """A row with each of the different heads."""
    head: Indices  # (rows,) which of them is that of a row


def render_objects(table: pa.Table, end: str = "") -> Any:
    """Every row as a JSON object followed by `end`, as a column of text.

    The columns must not be nested, and the table must not be empty.
    """
    heads = _heads_of(table)
    if heads is None:
        return _join(table, "{", "}" + end)
    texts = _texts_of(heads, table, end).take(pa.array(heads.head))
    rest = table.select(range(heads.columns, table.num_columns))
    return _join(rest, texts, "}" + end) if rest.num_columns else texts


def render_messages(table: pa.Table) -> list[bytes]:
    """Every row as a JSON object; see `render_objects`."""
    heads = _heads_of(table)
    if heads is not None and heads.columns == table.num_columns:
        texts = np.array(_as_bytes(_texts_of(heads, table, "")), object)
        messages: list[bytes] = texts[heads.head].tolist()
        return messages
    return _as_bytes(render_objects(table))


def _as_bytes(column: Any) -> list[bytes]:
    """The texts of a column without nulls as bytes."""
    found: list[bytes] = column.cast(pa.large_binary()).to_pylist()
    return found


def _join(table: pa.Table, start: Any, close: str) -> Any:
    """The columns of a table behind `start`: an opening brace, or the heads of the rows."""
    pieces: list[Any] = []
    for number, name in enumerate(table.column_names):
        comma = "," if number or not isinstance(start, str) else ""
        pieces += [comma + json.dumps(name) + ":", _as_json(table[name])]
    return pc.binary_join_element_wise(start, *pieces, close, "")


def _texts_of(heads: _Heads, table: pa.Table, end: str) -> pa.Array:
    """The text of each head, with a closing brace if it is a whole row."""
    rows = table.select(range(heads.columns)).take(pa.array(heads.first))
    texts = _join(rows, "{", "}" + end if heads.columns == table.num_columns else "")
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def _heads_of(table: pa.Table) -> _Heads | None:
    """As many of the first columns as few different rows have; None if there are none, or not enough rows."""
    if table.num_rows < _FEWEST:
        return None
    words: list[Words] = []
    mixed = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        word = _words(column)
        more = (mixed ^ word) * _FACTOR
        more ^= more >> np.uint64(29)
        if len(np.unique(more[:_SAMPLE])) > _SAMPLE // 2:
            break
        words.append(word)
        mixed = more
    encoded = pa.array(mixed).dictionary_encode()
    if not words or len(encoded.dictionary) * _MOST_DISTINCT > table.num_rows:
        return None
    head = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[head[::-1]] = np.arange(table.num_rows - 1, -1, -1)
    places = first[head]
    # Different rows may have been mixed to one number.
    if any((word != word[places]).any() for word in words):
        return None
    return _Heads(len(words), first, head)


def _words(column: pa.ChunkedArray) -> Words:
    """A number for each value, the same for the same values only."""
    values = column.combine_chunks()
    fixed = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if fixed and not column.null_count and column.type.bit_width == 64:
        found: Words = values.to_numpy().view(np.uint64)
    else:
        found = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy().astype(np.int64).view(np.uint64)
    return found


def _as_json(column: pa.ChunkedArray) -> Any:
    """A column as JSON texts, without nulls."""
    kind = column.type
    if pa.types.is_floating(kind):
        text = as_text(pc.if_else(pc.is_finite(column), column, None))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        text = as_text(column)
    else:
        texts = as_text(column)
        encoded = (texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts).dictionary_encode()
        labels = [json.dumps(label, ensure_ascii=False) for label in encoded.dictionary.to_pylist()]
        text = pa.array(labels, pa.string()).take(encoded.indices)
    return pc.fill_null(text, "null")
