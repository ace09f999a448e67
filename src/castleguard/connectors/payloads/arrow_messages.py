"""Messages that are Arrow IPC streams, each with its schema."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.connectors.arrow_layout import check_layout
from castleguard.connectors.columns import nested_column, without_dictionaries
from castleguard.connectors.json_values import as_exact_text
from castleguard.connectors.payloads.base import EMPTY, BadPayload, Payloads, one_batch
from castleguard.connectors.text import as_text, chunks_of
from castleguard.errors import InputError
from castleguard.intact import DAMAGE, validated

ARROW_ROWS = 4096  # in one message
ARROW_BYTES = 3 << 18  # brokers take a megabyte by default, headers included


def read_arrow(payloads: Sequence[bytes], columns: Sequence[str]) -> Payloads:
    """Typed columns. Where the messages differ in a column's type, that column is text in all of them."""
    bad: list[BadPayload] = []
    tables: list[pa.Table] = []
    numbers: list[int] = []
    for number, payload in enumerate(payloads):
        found = _arrow_rows(payload, columns)
        if isinstance(found, str):
            bad.append(BadPayload(number, found, payload))
        else:
            tables.append(found)
            numbers.append(number)
    if not tables:
        nothing = pa.RecordBatch.from_pylist([], pa.schema([(name, pa.null()) for name in columns]))
        return Payloads(nothing, np.zeros(0, np.int64), tuple(bad))
    merged = {name: _merge([table[name] for table in tables]) for name in columns}
    message = np.repeat(np.array(numbers, np.int64), [table.num_rows for table in tables])
    return Payloads(one_batch(pa.table(merged)), message, tuple(bad))


def write_arrow(table: pa.Table, rows: int) -> list[bytes]:
    """Messages of so many rows at most."""
    starts = range(0, table.num_rows, rows)
    return [message for start in starts for message in _arrow_messages(table.slice(start, rows))]


def _arrow_rows(payload: bytes, columns: Sequence[str]) -> pa.Table | str:
    """The declared columns of an IPC stream, or why it has none."""
    if not payload:
        return EMPTY
    try:
        with pa.ipc.open_stream(pa.BufferReader(payload)) as stream:
            check_layout(lambda at, length: payload[at : at + length], len(payload), stream.schema)
            table = stream.read_all()
        for name in columns:
            if table.column_names.count(name) != 1:
                return f"it does not have one column {name!r}"
        table = table.select(list(columns))
        validated(table, "the message")
        nested = nested_column(table.schema)
        if nested is not None:
            return f"its column {nested!r} is nested"
        table = without_dictionaries(table)
    except (*DAMAGE, struct.error, InputError):
        return "it is not an Arrow stream, or it is damaged"
    return table


def _merge(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if len(kinds) > 1:
        columns = [column if pa.types.is_null(column.type) else _as_any_text(column) for column in columns]
        kinds = {pa.string()}
    kind = next(iter(kinds), pa.null())
    return pa.chunked_array([chunk for column in columns for chunk in chunks_of(column.cast(kind))], kind)


def _as_any_text(column: pa.ChunkedArray) -> Any:
    exact = as_exact_text(column)
    return (as_text(column) if exact is None else exact).cast(pa.string())


def _arrow_messages(table: pa.Table) -> list[bytes]:
    """One message, or more where it would be too large."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    message = bytes(out.getvalue().to_pybytes())
    if len(message) <= ARROW_BYTES or table.num_rows < 2:
        return [message]
    half = table.num_rows // 2
    return _arrow_messages(table.slice(0, half)) + _arrow_messages(table.slice(half))
