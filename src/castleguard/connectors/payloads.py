"""Messages to rows and rows to messages, for every broker: the payload does not depend on its carrier.

    json     one object per message, or one per line
    csv      the values of one row, or of one per line, without a header
    arrow    an Arrow IPC stream

Senders are not trusted. A message that cannot be read is handed back with the reason and never stops the others, and
the rows of a message do not depend on the messages that arrived with it. Many messages are parsed at once: starting a
parser for each of them would cost more than everything else.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.connectors import formats
from castleguard.connectors.base import Bad
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.holding import check_held
from castleguard.connectors.json_paths import Fields
from castleguard.connectors.text_columns import BYTE_ORDER_MARK

Format = Literal["json", "csv", "arrow"]

ARROW_ROWS = 4096  # in one message
EMPTY = "it is empty"

_FORMATS: dict[Format, formats.Format] = {"json": "jsonl", "csv": "csv", "arrow": "arrow"}
_BLOCK_LINES = 256  # parsed together after a larger block failed: one bad line costs this many, not all


class BadPayload(Bad[int]):
    """A message, or a line of one, that is not a row. `place`: number of the message among those read together."""


class Payloads(NamedTuple):
    """The content of some messages."""

    rows: pa.RecordBatch
    """The declared columns, in the declared order: text in JSON and CSV, typed in Arrow."""
    message: NDArray[np.int64]  # (rows,) number of each row's message, ascending
    bad: tuple[BadPayload, ...]
    """In the order of the messages."""

    def __repr__(self) -> str:
        """Number of rows, never their content."""
        return f"Payloads({self.rows.num_rows} rows, {len(self.bad)} bad)"


def read_payloads(
    format: Format,
    payloads: Sequence[bytes],
    columns: Sequence[str],
    columns_order: Sequence[str] = (),
    fields: Fields | None = None,
) -> Payloads:
    """The rows of some messages.

    `columns_order` names the values of a CSV line from left to right, every declared column once; `fields` has the
    paths of columns inside nested JSON.
    """
    read = formats.codec(_FORMATS[format]).read_messages
    assert read is not None
    return read(payloads, columns, columns_order, fields) if fields else read(payloads, columns, columns_order)


def check_payloads(format: Format, columns: pa.Schema, where: str) -> None:
    """Raise OutputError if messages of the format cannot hold these columns."""
    check_held(columns, _FORMATS[format], where)


def write_payloads(
    format: Format, table: pa.Table, *, arrow_rows: int = ARROW_ROWS, csv: CsvOutput = DEFAULT
) -> list[bytes]:
    """The messages of a table, the same ones every time: one per row, in Arrow one per `arrow_rows` rows at most.

    Raises OutputError if the format cannot hold a column, as `check_payloads` does.
    """
    write = formats.codec(_FORMATS[format]).write_messages
    assert write is not None
    return write(table, csv, arrow_rows)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table together."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


class LineFormat(Protocol):
    """Lines of one format in messages."""

    schema: pa.Schema
    """The declared columns, all of them text."""

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message, each of which should be a row."""

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """One row from each line; None if that is not certain."""

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or the reason why it is not a row."""


def read_lines(payloads: Sequence[bytes], format: LineFormat) -> Payloads:
    """The rows of some messages of lines; as many lines as possible are parsed at once."""
    table = format.many(payloads)
    if table is not None:
        return Payloads(one_batch(table), np.arange(len(payloads)), ())
    bad: list[BadPayload] = []
    table, message = _read_blocks(_split(payloads, format, bad), format, bad)
    return Payloads(one_batch(table), message, tuple(sorted(bad, key=lambda one: one.place)))


class _Lines(NamedTuple):
    """Lines that should be one row each."""

    data: Sequence[bytes]
    message: NDArray[np.int64]  # (lines,) number of each line's message

    def part(self, start: int, stop: int) -> "_Lines":
        return _Lines(self.data[start:stop], self.message[start:stop])


def _split(payloads: Sequence[bytes], format: LineFormat, bad: list[BadPayload]) -> _Lines:
    """All lines of all messages; a message without any is bad, because nothing may disappear silently."""
    data: list[bytes] = []
    counts = np.zeros(len(payloads), np.int64)
    for number, payload in enumerate(payloads):
        found = format.split(payload.removeprefix(BYTE_ORDER_MARK))
        if not found:
            bad.append(BadPayload(number, EMPTY, payload))
        data += found
        counts[number] = len(found)
    return _Lines(data, np.repeat(np.arange(len(payloads)), counts))


def _read_blocks(lines: _Lines, format: LineFormat, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
    """The good rows: all lines at once, or in blocks as far as possible."""
    whole = format.many(lines.data) if len(lines.data) > _BLOCK_LINES else None
    if whole is not None:
        return whole, lines.message
    tables = [format.schema.empty_table()]
    messages = [lines.message[:0]]
    for start in range(0, len(lines.data), _BLOCK_LINES):
        part = lines.part(start, start + _BLOCK_LINES)
        table, message = format.many(part.data), part.message
        if table is None:
            table, message = _read_singly(part, format, bad)
        tables.append(table)
        messages.append(message)
    return pa.concat_tables(tables), np.concatenate(messages)


def _read_singly(lines: _Lines, format: LineFormat, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
    rows: list[tuple[str | None, ...]] = []
    kept = np.zeros(len(lines.data), np.bool_)
    for number, line in enumerate(lines.data):
        found = format.one(line)
        if isinstance(found, str):
            bad.append(BadPayload(int(lines.message[number]), found, line))
        else:
            rows.append(found)
            kept[number] = True
    columns = [pa.array([row[number] for row in rows], pa.string()) for number in range(len(format.schema))]
    return pa.table(columns, schema=format.schema), lines.message[kept]
