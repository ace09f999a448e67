"""JSON lines: one object per line, UTF-8; `.jsonl.gz` too.

Declared values are read as text, as in CSV: a key may hold a number in one line and a string in the next, and a
person must be the same person in both. A number keeps its digits (12.0 and 12 are both "12"); a nested value is its
JSON text. A key that is missing in a line is null there.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.json as pajson

from castleguard.connectors.bad_lines import TOO_LONG, BadLine, BadLines
from castleguard.connectors.columns import require_columns
from castleguard.connectors.holding import check_held
from castleguard.connectors.json_values import (
    MANY_BRACKETS,
    exact_columns,
    may_be_deep,
    parse_object,
    render_objects,
    value_as_text,
)
from castleguard.connectors.text import BYTE_ORDER_MARK, Chunks, LineBlocks, chunks_of, count_byte, is_utf8
from castleguard.durable import AtomicFile
from castleguard.errors import InputError


class JsonlReader:
    """The declared keys of every object as strings. Malformed is a line that is not one JSON object."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        batch_rows: int,
        *,
        keep_bad: bool = False,
        stream: IO[bytes] | None = None,
    ) -> None:
        """With `keep_bad`, `take_bad` has to be called for every batch. A `stream` is read in place of the file."""
        self._path = path
        self._columns = list(columns)
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._batch_rows = batch_rows
        self._lines_read = 0  # counted where bad lines are kept
        self._bad = BadLines(keep=keep_bad)
        self._lines = LineBlocks(path, quotes=False, overlong=self._too_long, stream=stream)
        self._checked = False
        self._guess: pa.Schema | None = None

    @property
    def malformed(self) -> int:
        """How many lines were left out."""
        return self._bad.count

    def take_bad(self) -> list[BadLine]:
        """The lines that were left out since the last call, if they are kept."""
        return self._bad.take()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        for block in self._without_mark():
            table = self._parse(block) if is_utf8(block) else None
            if table is None:
                table = self._parse_lines(block)
            if self._bad.keep:
                self._lines_read += count_byte(block, b"\n")
            yield from table.to_batches(max_chunksize=self._batch_rows)
            if self._bad.kept:
                yield self._no_rows()
        if self._bad.kept:
            yield self._no_rows()

    def fraction(self) -> float | None:
        """How much of the file has been read."""
        return self._lines.fraction()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _without_mark(self) -> Iterator[bytes]:
        """The blocks, without the mark that some editors put before the first line."""
        for number, block in enumerate(self._lines):
            if number == 0 and block.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(f"{self._path} is UTF-16: save it as UTF-8")
            yield block.removeprefix(BYTE_ORDER_MARK) if number == 0 else block

    def _parse(self, block: bytes) -> pa.Table | None:
        """All lines of a block at once, with the types of the block before; None if it has to go line by line."""
        lines = _count_objects(block)
        if lines is None:
            return None
        for guess in (self._guess, None):
            if guess is None and (guess := self._guess_types(block)) is None:
                return None
            table = _read_block(block, guess)
            if table is None:
                continue
            self._guess = guess
            if table.num_rows != lines:  # several objects on a line: that is no row, and Arrow makes two of it
                return None
            columns = exact_columns(table, self._columns, block, _read_block)
            return None if columns is None else pa.table(columns, schema=self._schema)
        return None

    def _guess_types(self, block: bytes) -> pa.Schema | None:
        """The types of the declared keys in this block."""
        table = _read_block(block, None)
        if table is None:
            return None
        self._check_keys(table.column_names, table.num_rows)
        types = {field.name: field.type for field in table.schema}
        # A string that looks like a time is kept as it is written: other blocks may hold others that do not.
        plain = {name: types.get(name, pa.string()) for name in self._columns}
        return pa.schema([(name, pa.string() if pa.types.is_temporal(kind) else kind) for name, kind in plain.items()])

    def _parse_lines(self, block: bytes) -> pa.Table:
        """Line by line, for a block that holds a malformed line or mixed types."""
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(block.split(b"\n"), self._lines_read + 1):
            if not line.strip():
                continue
            row = parse_object(line)
            if isinstance(row, str):
                self._bad.add(number, row, line)
            else:
                rows.append(row)
        self._check_keys(list(dict.fromkeys(key for row in rows for key in row)), len(rows))
        columns = [pa.array([value_as_text(row.get(name)) for row in rows], pa.string()) for name in self._columns]
        return pa.table(columns, schema=self._schema)

    def _too_long(self, start: bytes) -> None:
        self._lines_read += 1
        self._bad.add(self._lines_read, TOO_LONG, start)

    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self._schema)

    def _check_keys(self, present: Sequence[str], rows: int) -> None:
        """A declared key that no line of the first block has is a wrong name."""
        if rows and not self._checked:
            require_columns(self._columns, present, str(self._path))
            self._checked = True


def _count_objects(block: bytes) -> int | None:
    """How many lines of a block are not blank; None if Arrow must not see the block, which does not go by lines.

    It reads on across the end of a line, takes a null for a row and crashes where one comes first. Between a line that
    ends with a brace and one that begins with one, every object is complete. A zero byte would end its input, and a
    value that is nested ten thousand times would crash it, too.
    """
    if b"\0" in block:
        return None
    ends = count_byte(block, b"\n")
    if block.startswith(b"{") and block.endswith(b"}\n") and block.count(b"}\n{") == ends - 1:
        lines = ends
    else:
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


class JsonlWriter:
    """Writes one object per line; numbers as numbers, dates and times as ISO strings, NaN as null."""

    def __init__(self, path: Path) -> None:
        self._part = AtomicFile(path)
        self._chunks = Chunks()

    def write(self, table: pa.Table) -> None:
        """Write the rows, in chunks whose borders do not depend on how they were handed over."""
        check_held(table.schema, "jsonl", str(self._part.path))
        for chunk in self._chunks.add(table):
            self._part.write(render(chunk))

    def close(self) -> None:
        """Write what is left and give the file its name."""
        for chunk in self._chunks.rest():
            self._part.write(render(chunk))
        self._part.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._part.discard()


def render(table: pa.Table) -> bytes:
    """All rows as lines of JSON, column by column; the columns are ones that JSON can hold."""
    if not table.num_rows:
        return b""
    lines = render_objects(table, "\n")
    return b"".join(chunk.cast(pa.large_string()).buffers()[2].to_pybytes() for chunk in chunks_of(lines))
