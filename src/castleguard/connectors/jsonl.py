"""JSON: one object per line, UTF-8.

Declared values are read as text, as in CSV: a key may hold a number in one line and a string in the next, and a person
must be the same person in both. A number keeps its digits (12.0 and 12 are both "12"); a nested value is its JSON text.
A key that is missing in a line is null there.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from castleguard.connectors.bad_lines import TOO_LONG
from castleguard.connectors.column_checks import require_columns
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.formats import Codec
from castleguard.connectors.holding import check_held, text_holds
from castleguard.connectors.json_paths import Fields, Finder
from castleguard.connectors.json_rows import render_messages, render_objects
from castleguard.connectors.json_template import FEWEST, read_alike
from castleguard.connectors.json_values import (
    MANY_BRACKETS,
    exact_columns,
    may_be_deep,
    parse_object,
    value_as_text,
)
from castleguard.connectors.line_files import Coding, LineReader, LineWriter, sample_lines
from castleguard.connectors.payloads import Payloads, read_lines
from castleguard.connectors.text_columns import BYTE_ORDER_MARK, chunks_of, count_byte, is_utf8

_SLICE_LINES = 3000  # parsed together: more leave the cache, fewer cost calls
_GUESS_LINES = 16  # lines used to guess the types of a block; a wrong guess only costs time


class JsonlReader(LineReader):
    """Reader of a file of JSON lines. Malformed lines are not one JSON object."""

    quotes = False

    def _configure(self, fields: Fields | None = None) -> Coding:
        """`fields`: paths of columns inside nested objects."""
        self._finder = Finder(fields) if fields else None
        return Coding()

    def _begin(self) -> None:
        self._checked = False
        self._types: pa.Schema | None = None

    def _blocks(self) -> Iterable[bytes]:
        for number, block in enumerate(self._lines):
            if number == 0:
                self._refuse_utf16(block)
            yield block.removeprefix(BYTE_ORDER_MARK) if number == 0 else block

    def _parse_block(self, block: bytes) -> Iterator[pa.Table]:
        table = self._parse(block) if self._finder is None and is_utf8(block) else None
        if table is None:
            table = self._parse_lines(block)
        if self._bad.keep:
            self._lines_read += count_byte(block, b"\n")
        yield table

    def _parse(self, block: bytes) -> pa.Table | None:
        """All lines of a block at once, with the types of the block before; None to go line by line."""
        if self._checked:  # else the keys of the first block are still to be compared with the schema
            body = block[:-1] if block.endswith(b"\n") else block
            alike = read_alike(body, count_byte(body, b"\n") + 1, self._schema.names)
            if alike is not None:
                return pa.table(alike, schema=self._schema)
        lines = _count_objects(block)
        if lines is None:
            return None
        for types in (self._types, None):
            if types is None and (types := self._guess_types(block)) is None:
                return None
            table = _read_block(block, types)
            if table is not None:
                self._types = types
                return _as_text(table, self._schema, block, lines)
        return None

    def _guess_types(self, block: bytes) -> pa.Schema | None:
        """The types of the declared keys in this block."""
        table = _read_block(block, None)
        if table is None:
            return None
        self._check_keys(table.column_names, table.num_rows)
        types = {field.name: field.type for field in table.schema}
        # A string that looks like a time is kept as written: other blocks may hold strings that do not.
        known = {name: types.get(name, pa.string()) for name in self._schema.names}
        return pa.schema([(name, pa.string() if pa.types.is_temporal(kind) else kind) for name, kind in known.items()])

    def _parse_lines(self, block: bytes) -> pa.Table:
        """Line by line, for a block with a malformed line or mixed types."""
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(block.split(b"\n"), self._lines_read + 1):
            if not line.strip():
                continue
            row = parse_object(line)
            if isinstance(row, str):
                self._bad.add(number, row, line)
            else:
                rows.append(row if self._finder is None else self._finder.flat(row))
        self._check_keys(list(dict.fromkeys(key for row in rows for key in row)), len(rows))
        columns = [pa.array([value_as_text(row.get(name)) for row in rows], pa.string()) for name in self._schema.names]
        return pa.table(columns, schema=self._schema)

    def _too_long(self, start: bytes) -> None:
        self._lines_read += 1
        self._bad.add(self._lines_read, TOO_LONG, start)

    def _check_keys(self, present: Sequence[str], rows: int) -> None:
        """Refuse a declared key that no line of the first block has: its name is wrong."""
        if rows and not self._checked:
            require_columns(self._schema.names, present, str(self._path))
            self._checked = True


class JsonLines:
    """Lines of JSON in messages."""

    def __init__(self, columns: Sequence[str], fields: Fields | None = None) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._finder = Finder(fields) if fields else None

    def split(self, payload: bytes) -> list[bytes]:
        """The lines of a message; one object that is laid out over several lines is one line."""
        data = payload.strip(b" \t\r\n")
        if b"\n" not in data:
            return [data] if data else []
        if isinstance(parse_object(data), dict):
            return [data.replace(b"\n", b" ")]
        return [line for piece in data.split(b"\n") if (line := piece.strip(b" \t\r"))]

    def many(self, lines: Sequence[bytes]) -> pa.Table | None:
        """All lines at once; None if that is not safe."""
        if self._finder is not None:
            return self._dig(lines)
        tables: list[pa.Table] = []
        for start in range(0, len(lines), _SLICE_LINES):
            table = self._slice(lines[start : start + _SLICE_LINES])
            if table is None:
                return None
            tables.append(table)
        return pa.concat_tables(tables) if tables else None

    def _dig(self, lines: Sequence[bytes]) -> pa.Table | None:
        """The lines one by one, with the columns that lie deeper."""
        rows = [self.one(line) for line in lines]
        if any(isinstance(row, str) for row in rows):
            return None
        columns = zip(*rows, strict=True)
        return pa.table([pa.array(column, pa.string()) for column in columns], schema=self.schema) if rows else None

    def _slice(self, lines: Sequence[bytes]) -> pa.Table | None:
        block = b"\n".join(lines)
        if count_byte(block, b"\n") != len(lines) - 1:
            return None
        alike = read_alike(block, len(lines), self.schema.names) if len(lines) >= FEWEST else None
        if alike is not None:
            return pa.table(alike, schema=self.schema)
        if _count_objects(block) != len(lines) or not is_utf8(block):
            return None
        types = self._guess_types(lines)
        table = None if types is None else _read_block(block, types)
        return None if table is None else _as_text(table, self.schema, block, len(lines))

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or the reason why it is not a row."""
        row = parse_object(line)
        if isinstance(row, str):
            return "it is not one JSON object" if is_utf8(line) else "it is not UTF-8"
        if self._finder is not None:
            row = self._finder.flat(row)
        return tuple(value_as_text(row.get(name)) for name in self.schema.names)

    def _guess_types(self, lines: Sequence[bytes]) -> pa.Schema | None:
        """The type of each declared key, from the first lines; None if a key has several.

        Never left to the parser: a deeply nested value would become a type nested as deep.
        """
        sample = [row for line in lines[:_GUESS_LINES] if isinstance(row := parse_object(line), dict)]
        guess: dict[str, pa.DataType] = {}
        for name in self.schema.names:
            values = [value for row in sample if (value := row.get(name)) is not None]
            kinds = {float if isinstance(value, float) else type(value) for value in values}
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


def _count_objects(block: bytes) -> int | None:
    """Number of lines that are not blank; None if Arrow must not see the block, because it ignores line ends.

    Arrow reads on across the end of a line, takes a null for a row, and crashes where one comes first. With braces at
    both ends of every line no object can reach into the next, because after an inner brace only a comma or a closing
    one may follow. A zero byte would end Arrow's input, and a value nested ten thousand times would crash it.
    """
    if b"\0" in block:
        return None
    lines = count_byte(block, b"\n") + (not block.endswith(b"\n"))
    if not (block.startswith(b"{") and block.endswith((b"}\n", b"}")) and block.count(b"}\n{") == lines - 1):
        found = [line for line in map(bytes.strip, block.split(b"\n")) if line]
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in found):
            return None
        lines = len(found)
    brackets = count_byte(block, b"{") + count_byte(block, b"[")
    return None if brackets > lines + MANY_BRACKETS and may_be_deep(block.split(b"\n")) else lines


def _read_block(block: bytes, types: pa.Schema | None) -> pa.Table | None:
    """Parse a block with pyarrow; None if it cannot. With `types`, all other keys are ignored."""
    other = "infer" if types is None else "ignore"
    try:
        return pajson.read_json(
            pa.BufferReader(block),
            pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pajson.ParseOptions(explicit_schema=types, unexpected_field_behavior=other),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _as_text(table: pa.Table, schema: pa.Schema, block: bytes, lines: int) -> pa.Table | None:
    """A parsed block as text; None unless every line gave one row and every number keeps its digits."""
    if table.num_rows != lines:  # Arrow makes two rows of two objects on a line
        return None
    columns = exact_columns(table, schema.names, block, _read_block)
    return None if columns is None else pa.table([column.cast(pa.string()) for column in columns], schema=schema)


def render(table: pa.Table, _options: CsvOutput = DEFAULT) -> bytes:
    """All rows as lines of JSON; JSON must be able to hold the columns."""
    if not table.num_rows:
        return b""
    lines = render_objects(table, "\n")
    return b"".join(chunk.cast(pa.large_string()).buffers()[2].to_pybytes() for chunk in chunks_of(lines))


def _no_header(_names: Sequence[str], _options: CsvOutput) -> bytes:
    return b""


def _column_names(path: Path, rows: int) -> list[str]:
    return list(dict.fromkeys(key for line in islice(sample_lines(path), rows) for key in _keys(line)))


def _keys(line: str) -> list[str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return list(row) if isinstance(row, dict) else []


def _open_writer(path: Path, _options: CsvOutput) -> LineWriter:
    return LineWriter(path, "jsonl", render)


def _read_messages(
    payloads: Sequence[bytes], columns: Sequence[str], _order: Sequence[str], fields: Fields | None = None
) -> Payloads:
    return read_lines(payloads, JsonLines(columns, fields))


def _write_messages(table: pa.Table, _options: CsvOutput, _rows: int) -> list[bytes]:
    check_held(table.schema, "jsonl", "messages")
    return render_messages(table) if table.num_rows else []


CODEC = Codec(
    title="JSON",
    holds=text_holds,
    open_reader=JsonlReader,
    open_writer=_open_writer,
    column_names=_column_names,
    header=_no_header,
    render=render,
    read_messages=_read_messages,
    write_messages=_write_messages,
)
