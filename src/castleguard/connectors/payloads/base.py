"""What was found in some messages; of messages of lines, as many as possible are parsed at once.

A format brings a `Block`, which knows its lines; here is what to do with a bad one among many.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.connectors.text import BYTE_ORDER_MARK

Format = Literal["json", "csv", "arrow"]

EMPTY = "it is empty"


class BadPayload(NamedTuple):
    """A message, or a line of one, that is no row."""

    message: int
    """The number of the message among those that were read together."""
    reason: str
    """Why it is no row. Never a value."""
    raw: bytes

    def __repr__(self) -> str:
        """Never what is in it."""
        return f"BadPayload(message {self.message}: {self.reason})"


class Payloads(NamedTuple):
    """What was in some messages."""

    rows: pa.RecordBatch
    """The declared columns, in the declared order: text in JSON and CSV, typed in Arrow."""
    message: NDArray[np.int64]  # (rows,) the number of the message that each row came in, ascending
    bad: tuple[BadPayload, ...]
    """In the order of the messages."""

    def __repr__(self) -> str:
        """How many rows, never what is in them."""
        return f"Payloads({self.rows.num_rows} rows, {len(self.bad)} bad)"


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table together."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


_BLOCK_LINES = 256  # parsed again together after a larger block failed: one bad line costs this many, not all


class Block(Protocol):
    """How a format reads lines."""

    schema: pa.Schema
    """The declared columns, all of them text."""

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message, each of which should be a row."""

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """The rows of all lines, one from each; None if that is not certain."""

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or why it has none."""


def read_lines(payloads: Sequence[bytes], block: Block) -> Payloads:
    """The rows of some messages."""
    table = block.many(payloads)
    if table is not None:
        return Payloads(one_batch(table), np.arange(len(payloads)), ())
    bad: list[BadPayload] = []
    table, message = _read_blocks(_split(payloads, block, bad), block, bad)
    return Payloads(one_batch(table), message, tuple(sorted(bad, key=lambda one: one.message)))


class _Lines(NamedTuple):
    """What should be one row each."""

    data: Sequence[bytes]
    message: NDArray[np.int64]  # (lines,) the number of the message that each came in

    def part(self, start: int, stop: int) -> "_Lines":
        return _Lines(self.data[start:stop], self.message[start:stop])


def _split(payloads: Sequence[bytes], block: Block, bad: list[BadPayload]) -> _Lines:
    """All lines of all messages; a message without any is bad, because nothing may disappear silently."""
    data: list[bytes] = []
    counts = np.zeros(len(payloads), np.int64)
    for number, payload in enumerate(payloads):
        found = block.split(payload.removeprefix(BYTE_ORDER_MARK))
        if not found:
            bad.append(BadPayload(number, EMPTY, payload))
        data += found
        counts[number] = len(found)
    return _Lines(data, np.repeat(np.arange(len(payloads)), counts))


def _read_blocks(lines: _Lines, block: Block, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows of all lines that have one: in blocks as far as possible."""
    whole = block.many(lines.data) if len(lines.data) > _BLOCK_LINES else None
    if whole is not None:
        return whole, lines.message
    tables = [block.schema.empty_table()]
    messages = [lines.message[:0]]
    for start in range(0, len(lines.data), _BLOCK_LINES):
        part = lines.part(start, start + _BLOCK_LINES)
        table, message = block.many(part.data), part.message
        if table is None:
            table, message = _read_singly(part, block, bad)
        tables.append(table)
        messages.append(message)
    return pa.concat_tables(tables), np.concatenate(messages)


def _read_singly(lines: _Lines, block: Block, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
    rows: list[tuple[str | None, ...]] = []
    kept = np.zeros(len(lines.data), np.bool_)
    for number, line in enumerate(lines.data):
        found = block.one(line)
        if isinstance(found, str):
            bad.append(BadPayload(int(lines.message[number]), found, line))
        else:
            rows.append(found)
            kept[number] = True
    columns = [pa.array([row[number] for row in rows], pa.string()) for number in range(len(block.schema))]
    return pa.table(columns, schema=block.schema), lines.message[kept]
