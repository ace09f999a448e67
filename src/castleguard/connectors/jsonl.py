"""JSON lines: one object per line, UTF-8; `.jsonl.gz` too.

Declared values are read as text, as in CSV: a key may hold a number in one line and a string in the next, and a
person must be the same person in both. A number keeps its digits (12.0 and 12 are both "12"); a nested value is its
JSON text. A key that is missing in a line is null there.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from castleguard.connectors.bad_lines import HALF_CHARACTER, NO_OBJECT, NOT_UTF8, TOO_LONG, BadLine, BadLines
from castleguard.connectors.columns import require_columns
from castleguard.connectors.lines import LineBlocks, count_byte, is_utf8
from castleguard.connectors.part_file import PartFile
from castleguard.connectors.text import Chunks, as_text
from castleguard.errors import OutputError

EXACT = 2.0**53  # from here on a float64 no longer tells neighbouring whole numbers apart
MANY_BRACKETS = 500  # on a line that is handed to Arrow, at most


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
        for block in self._lines:
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
            columns = [_as_exact_text(table[name]) for name in self._columns]
            return None if any(column is None for column in columns) else pa.table(columns, schema=self._schema)
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
            row = _parse_line(line)
            if isinstance(row, str):
                self._bad.add(number, row, line)
            else:
                rows.append(row)
        self._check_keys(list(dict.fromkeys(key for row in rows for key in row)), len(rows))
        columns = [pa.array([_value_as_text(row.get(name)) for row in rows], pa.string()) for name in self._columns]
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


def may_be_deep(lines: Iterable[bytes]) -> bool:
    """Whether a line may be nested deeper than Python's parser goes."""
    return any(line.count(b"{") + line.count(b"[") > MANY_BRACKETS for line in lines)


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


def _parse_line(line: bytes) -> dict[str, Any] | str:
    """The object on a line, or why it is none that a text can hold."""
    try:
        row = json.loads(line.decode())
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return NOT_UTF8
    except UnicodeEncodeError:
        return HALF_CHARACTER
    except (ValueError, RecursionError):
        return NO_OBJECT
    return row if isinstance(row, dict) else NO_OBJECT


def _as_exact_text(column: pa.ChunkedArray) -> Any:
    """A parsed column as text; None if digits may have been lost, or if it is nested."""
    kind = column.type
    if pa.types.is_nested(kind):
        return None
    if not pa.types.is_floating(kind):
        return as_text(column)
    if pc.any(pc.greater_equal(pc.abs(column), EXACT)).as_py():
        return None
    whole = pc.equal(column, pc.trunc(column))
    digits = as_text(pc.cast(pc.if_else(whole, column, None), pa.int64()))
    return pc.if_else(whole, digits, as_text(column)) if len(column) else digits


def _value_as_text(value: Any) -> str | None:
    """One value as text, exactly as a whole column would give it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(pa.scalar(value).cast(pa.string()).as_py())
    return json.dumps(value)


class JsonlWriter:
    """Writes one object per line; numbers as numbers, dates and times as ISO strings, NaN as null."""

    def __init__(self, path: Path) -> None:
        self._part = PartFile(path)
        self._chunks = Chunks()

    def write(self, table: pa.Table) -> None:
        """Write the rows, in chunks whose borders do not depend on how they were handed over."""
        for chunk in self._chunks.add(table):
            self._part.write(render(chunk, self._part.path))

    def close(self) -> None:
        """Write what is left and give the file its name."""
        for chunk in self._chunks.rest():
            self._part.write(render(chunk, self._part.path))
        self._part.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._part.discard()


def render(table: pa.Table, path: Path) -> bytes:
    """All rows as lines of JSON, column by column."""
    if not table.num_rows:
        return b""
    pieces: list[Any] = []
    for number, name in enumerate(table.column_names):
        if pa.types.is_nested(table[name].type):
            raise OutputError(f"{path}: JSON lines cannot hold the nested column {name!r}")
        pieces += [("," if number else "{") + json.dumps(name) + ":", _as_json(table[name])]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    return b"".join(chunk.cast(pa.large_string()).buffers()[2].to_pybytes() for chunk in _chunks_of(lines))


def _chunks_of(array: Any) -> list[Any]:
    return array.chunks if isinstance(array, pa.ChunkedArray) else [array]


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
