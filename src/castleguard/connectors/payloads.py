"""Messages to rows and rows to messages, for the brokers: what is in a message does not depend on who carries it.

    json     one object per message, or one per line
    csv      the values of one row, or of one per line, without a header
    arrow    an Arrow IPC stream

Whoever sends messages is not trusted. A message that cannot be read is handed back with the reason and never stops the
others, and what is read from a message does not depend on the messages that arrived with it. Many messages are parsed
at once: a parser that is started for each would cost more than everything else.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
from numpy.typing import NDArray

from castleguard.connectors.csv import UNREADABLE
from castleguard.connectors.jsonl import (
    MANY_BRACKETS,
    _as_exact_text,
    _as_json,
    _chunks_of,
    _parse_line,
    _value_as_text,
    may_be_deep,
)
from castleguard.connectors.lines import is_utf8
from castleguard.connectors.text import as_text
from castleguard.errors import OutputError

Format = Literal["json", "csv", "arrow"]

ARROW_ROWS = 4096  # in one Arrow message
ARROW_BYTES = 3 << 18  # brokers take a megabyte by default, headers included

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK_LINES = 256  # parsed again together after a larger block failed: one bad line costs this many, not all
_GUESS_LINES = 16  # looked at to guess the types of a block; a wrong guess costs time only
_EMPTY = "it is empty"


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


class _Lines(NamedTuple):
    """What should be one row each."""

    data: Sequence[bytes]
    message: NDArray[np.int64]  # (lines,) the number of the message that each came in

    def part(self, start: int, stop: int) -> "_Lines":
        return _Lines(self.data[start:stop], self.message[start:stop])


def read_payloads(
    format: Format, payloads: Sequence[bytes], columns: Sequence[str], columns_order: Sequence[str] = ()
) -> Payloads:
    """The rows of some messages. `columns_order` names the values of a CSV line from left to right; declared columns
    must be among them, each once.
    """
    if format == "arrow":
        return _read_arrow(payloads, columns)
    block = _JsonBlock(columns) if format == "json" else _CsvBlock(columns, columns_order)
    table = block.many(payloads)
    if table is not None:
        return Payloads(_one_batch(table), np.arange(len(payloads)), ())
    bad: list[BadPayload] = []
    lines = _split(payloads, block, bad)
    table, message = _read_lines(lines, block, bad)
    return Payloads(_one_batch(table), message, tuple(sorted(bad, key=lambda one: one.message)))


def write_payloads(format: Format, table: pa.Table, *, arrow_rows: int = ARROW_ROWS) -> list[bytes]:
    """The messages of a table, the same ones every time: one per row, in Arrow one per `arrow_rows` rows at most.

    Raises OutputError if the format cannot hold a column.
    """
    if format == "arrow":
        starts = range(0, table.num_rows, arrow_rows)
        return [message for start in starts for message in _arrow_messages(table.slice(start, arrow_rows))]
    nested = next((field.name for field in table.schema if pa.types.is_nested(field.type)), None)
    if nested is not None:
        raise OutputError(f"a {format.upper()} message cannot hold the nested column {nested!r}")
    if not table.num_rows:
        return []
    pieces: list[Any] = []
    if format == "json":
        for number, name in enumerate(table.column_names):
            pieces += [("," if number else "{") + json.dumps(name) + ":", _as_json(table[name])]
        messages = pc.binary_join_element_wise(*pieces, "}", "")
    else:
        alone = table.num_columns == 1
        messages = pc.binary_join_element_wise(*[_as_csv(column, alone) for column in table.columns], ",")
    return list(messages.cast(pa.large_binary()).to_pylist())


# JSON and CSV: many lines at once, or one by one


class _JsonBlock:
    """Reads lines of JSON, as text by the rules of `connectors.jsonl`."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message; one object that is laid out over several is one line."""
        data = payload.strip(b" \t\r\n")
        if b"\n" not in data:
            return [data] if data else []
        if isinstance(_parse_line(data), dict):
            return [data.replace(b"\n", b" ")]
        return [line for piece in data.split(b"\n") if (line := piece.strip(b" \t\r"))]

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """All lines at once; None if that is not safe."""
        block = b"\n".join(lines)
        breaks = len(lines) - 1
        # With braces at both ends of every line no object can reach from one line into the next, because after an
        # inner brace only a comma or a closing one may follow. So as many rows as lines are one from each.
        if not block.startswith(b"{") or not block.endswith(b"}"):
            return None
        if block.count(b"\n") != breaks or block.count(b"}\n{") != breaks:
            return None
        # A zero byte would end the parser's input, and it follows any nesting, which `one` does not.
        if b"\0" in block or _may_be_deep(block, lines) or not is_utf8(block):
            return None
        if (types := self._guess(lines)) is None:
            return None
        try:
            table = pajson.read_json(
                pa.BufferReader(block),
                pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
                pajson.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowException:
            return None
        columns = [_as_exact_text(table[name]) for name in types.names]
        if table.num_rows != len(lines) or any(column is None for column in columns):
            return None
        return pa.table([column.cast(pa.string()) for column in columns], schema=self.schema)

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or why it has none."""
        row = _parse_line(line)
        if isinstance(row, str):
            return "it is not one JSON object" if is_utf8(line) else "it is not UTF-8"
        return tuple(_value_as_text(row.get(name)) for name in self.schema.names)

    def _guess(self, lines: Sequence[bytes]) -> pa.Schema | None:
        """The type of each declared key, from the first lines; None if there are several.

        Never left to the parser: a value that is nested a million times would become a type nested as deep.
        """
        sample = [row for line in lines[:_GUESS_LINES] if isinstance(row := _parse_line(line), dict)]
        guess: dict[str, pa.DataType] = {}
        for name in self.schema.names:
            kinds = {type(value) for row in sample if (value := row.get(name)) is not None}
            if not kinds or kinds == {str}:
                guess[name] = pa.string()
            elif kinds == {bool}:
                guess[name] = pa.bool_()
            elif kinds == {int}:
                guess[name] = pa.int64()
            elif kinds <= {int, float}:
                guess[name] = pa.float64()
            else:
                return None
        return pa.schema(guess)


def _may_be_deep(block: bytes, lines: Sequence[bytes]) -> bool:
    nested = block.count(b"{") - len(lines) + block.count(b"[")
    return nested > MANY_BRACKETS and may_be_deep(lines)


class _CsvBlock:
    """Reads lines of CSV, as text by the rules of `connectors.csv`."""

    def __init__(self, columns: Sequence[str], order: Sequence[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._order = list(order)
        # A known row before the lines and one behind them: if both come back, no quote was left open.
        self._known = b",".join([b"x"] * len(self._order))
        self._convert = pacsv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,  # checked before
        )

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message. A line end between quotes belongs to a value, unless a quote is never closed."""
        pieces = payload.strip(b"\r\n").split(b"\n")
        if len(pieces) > 1 and b'"' in payload:
            joined = pieces[:1]
            for piece in pieces[1:]:
                if joined[-1].count(b'"') % 2:
                    joined[-1] += b"\n" + piece
                else:
                    joined.append(piece)
            pieces = pieces if joined[-1].count(b'"') % 2 else joined
        return [line for piece in pieces if (line := piece.rstrip(b"\r"))]

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """All lines at once; None if that is not safe."""
        block = b"\n".join([self._known, *lines, self._known])
        # A line without a line end inside is one row at most, so as many rows as lines are one from each.
        if block.count(b"\n") != len(lines) + 1 or b"\r" in block or b"\n" + _BYTE_ORDER_MARK in block:
            return None
        if not is_utf8(block):
            return None
        table, wrong = self._parse(block)
        return table.slice(1, len(lines)) if table.num_rows == len(lines) + 2 and not wrong else None

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or why it has none."""
        valid = is_utf8(line)
        data = line if valid else line.decode(errors="replace").encode()
        table, wrong = self._parse(b"\n".join([self._known, data, self._known]))
        if wrong == 1 and table.num_rows == 2:
            return "it has a wrong number of values"
        if wrong or table.num_rows != 3:
            return "it has an unclosed quote or a stray line end"
        values = tuple(column[1].as_py() for column in table.columns)
        if not valid and any(value is not None and UNREADABLE in value for value in values):
            return "it is not UTF-8"
        return values

    def _parse(self, block: bytes) -> tuple[pa.Table, int]:
        """The rows of a block and how many others there are, with a wrong number of values."""
        wrong = 0

        def skip(_row: pacsv.InvalidRow) -> str:
            nonlocal wrong
            wrong += 1
            return "skip"

        try:
            table = pacsv.read_csv(
                pa.BufferReader(block),
                pacsv.ReadOptions(column_names=self._order, block_size=3 * len(block), use_threads=False),
                pacsv.ParseOptions(invalid_row_handler=skip),
                self._convert,
            )
        except pa.ArrowException:
            return self.schema.empty_table(), wrong
        return table, wrong


_Block = _JsonBlock | _CsvBlock


def _split(payloads: Sequence[bytes], block: _Block, bad: list[BadPayload]) -> _Lines:
    """All lines of all messages; a message without any is bad, because nothing may disappear silently."""
    data: list[bytes] = []
    counts = np.zeros(len(payloads), np.int64)
    for number, payload in enumerate(payloads):
        found = block.split(payload.removeprefix(_BYTE_ORDER_MARK))
        if not found:
            bad.append(BadPayload(number, _EMPTY, payload))
        data += found
        counts[number] = len(found)
    return _Lines(data, np.repeat(np.arange(len(payloads)), counts))


def _read_lines(lines: _Lines, block: _Block, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
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


def _read_singly(lines: _Lines, block: _Block, bad: list[BadPayload]) -> tuple[pa.Table, NDArray[np.int64]]:
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


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


# Arrow


def _read_arrow(payloads: Sequence[bytes], columns: Sequence[str]) -> Payloads:
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
    return Payloads(_one_batch(pa.table(merged)), message, tuple(bad))


def _arrow_rows(payload: bytes, columns: Sequence[str]) -> pa.Table | str:
    """The declared columns of an IPC stream, or why it has none."""
    if not payload:
        return _EMPTY
    try:
        table = pa.ipc.open_stream(pa.BufferReader(payload)).read_all()
        for name in columns:
            if table.column_names.count(name) != 1:
                return f"it does not have one column {name!r}"
        table = table.select(list(columns))
        table.validate(full=True)  # a stream is not checked while it is read, and offsets may point anywhere
        for number, field in enumerate(table.schema):
            if pa.types.is_nested(field.type):
                return f"its column {field.name!r} is nested"
            if pa.types.is_dictionary(field.type):
                table = table.set_column(number, field.name, table.column(number).cast(field.type.value_type))
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        return "it is not an Arrow stream, or it is damaged"
    return table


def _merge(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if len(kinds) > 1:
        columns = [column if pa.types.is_null(column.type) else _as_any_text(column) for column in columns]
        kinds = {pa.string()}
    kind = next(iter(kinds), pa.null())
    return pa.chunked_array([chunk for column in columns for chunk in _chunks_of(column.cast(kind))], kind)


def _as_any_text(column: pa.ChunkedArray) -> Any:
    exact = _as_exact_text(column)
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


# CSV values


def _as_csv(column: pa.ChunkedArray, alone: bool) -> Any:
    """A column as CSV values, quoted where needed; a row of one empty value still is a row."""
    texts = pc.fill_null(as_text(column), "")
    special = pc.match_substring_regex(texts, '[",\r\n]')
    if alone:
        special = pc.or_(special, pc.equal(texts, ""))
    if not pc.any(special).as_py():
        return texts
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.if_else(special, quoted, texts)
