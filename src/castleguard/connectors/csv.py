"""CSV files: a header line, commas, double quotes, UTF-8; `.csv.gz` too.

Every column is read as text. A type guessed from the first rows could be wrong for a later one, and would then stop
the stream; what a text means is decided by the schema, row by row.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from castleguard.connectors.bad_lines import (
    NOT_UTF8,
    TOO_LONG,
    UNCLOSED_QUOTE,
    BadLine,
    BadLines,
    values_instead_of,
)
from castleguard.connectors.columns import require_columns
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.formulas import escape, escape_names, formulas_in, is_text
from castleguard.connectors.holding import check_held
from castleguard.connectors.text import (
    BYTE_ORDER_MARK,
    Chunks,
    LineBlocks,
    as_long_text,
    as_text,
    count_byte,
    is_utf8,
    long,
)
from castleguard.durable import AtomicFile
from castleguard.errors import InputError, OutputError

UNREADABLE = "\ufffd"  # what a byte that is not UTF-8 is replaced by

# A quote is one only where a value begins; within it, two stand for one.
_VALUE = rb'(?:"(?:[^"]|"")*+")?+[^,\r\n]*+'
_ROW = re.compile(_VALUE + rb"(?:," + _VALUE + rb")*+")
_CLOSED = rb'(?:"(?:[^"]|"")*+"[^,\r\n]*+|(?!")[^,\r\n]*+)'
_CLOSED_ROW = re.compile(_CLOSED + rb"(?:," + _CLOSED + rb")*+")
# Something behind a closing quote is part of the value, but not if the value has a line end: then that quote is one
# that opens a value, and an earlier one was never closed.
_SHORT = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"[^,\r\n]*+'
_LONG = rb'"[^"]*+(?:""[^"]*+)*+"(?=[,\r\n]|\Z)'
_CERTAIN = rb"(?:" + _SHORT + rb"|" + _LONG + rb'|(?!")[^,\r\n]*+)'
_CERTAIN_ROWS = re.compile(rb"(?:" + _CERTAIN + rb"(?:," + _CERTAIN + rb")*+(?:\r?\n|\r|\Z))*+")

_BEFORE = re.compile(rb"(?:" + _SHORT + rb'|(?!")[^,\r\n]*+),')
_LINE = re.compile(rb"([^\r\n]*+)(?:\r?\n|\r|\Z)")


class CsvReader:
    """The declared columns of a CSV file as strings; an empty value is null.

    Malformed is a line with a wrong number of values, an unclosed quote, or a declared value that is not UTF-8.
    """

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
        self._columns = list(columns)
        self._batch_rows = batch_rows
        self._lines_read = 0  # counted where bad lines are kept
        self._bad = BadLines(keep=keep_bad)
        self._lines = LineBlocks(path, quotes=True, overlong=self._too_long, stream=stream)
        self._blocks = iter(self._lines)
        try:
            self._header, self._first_block = self._read_header(path)
        except BaseException:
            self._lines.close()
            raise
        self._convert = pacsv.ConvertOptions(
            include_columns=self._columns,
            column_types=dict.fromkeys(self._columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,  # checked per block, where one bad byte costs a row and not the stream
        )

    @property
    def malformed(self) -> int:
        """How many lines were left out."""
        return self._bad.count

    def take_bad(self) -> list[BadLine]:
        """The lines that were left out since the last call, if they are kept."""
        return self._bad.take()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        for block in chain([self._first_block] if self._first_block else [], self._blocks):
            yield from self._rows(block)
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

    def _read_header(self, path: Path) -> tuple[list[str], bytes]:
        """The column names, and what follows them in the first block."""
        first = next(self._blocks, b"").removeprefix(BYTE_ORDER_MARK)
        block = first.lstrip(b"\r\n")
        if block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{path} is UTF-16: save it as UTF-8")
        line, _, rest = block.partition(b"\n")
        try:
            header = next(csv.reader([line.decode(errors="replace").rstrip("\r")]), [])
        except csv.Error:  # quotes what it met: not handed on
            ends = ", its lines must end in line feeds" if b"\r" in line.rstrip(b"\r") else ""
            raise InputError(f"{path} cannot be read: the first line must name the columns{ends}") from None
        if not header:
            raise InputError(f"{path} is empty: the first line must name the columns")
        other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
        hint = f"; it seems to be separated by {other!r}, only commas are read" if other else ""
        require_columns(self._columns, header, str(path), hint, may_be_values=True)
        self._lines_read += _line_ends(first[: len(first) - len(rest)])
        return header, rest

    def _rows(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Parse whole lines, without those in which a quote is never closed. What cannot be parsed as a whole even then
        is halved, until the bad line stands alone.
        """
        table = self._parse(block)
        if table is None:
            table = self._parse_without_strays(block)
        middle = _middle(block) if table is None else 0
        if table is None and not middle:
            self._bad.add(self._lines_read + 1, UNCLOSED_QUOTE, block.rstrip(b"\r\n"))
        if not middle:
            if self._bad.keep:
                self._lines_read += _line_ends(block)
            yield from table.to_batches(max_chunksize=self._batch_rows) if table is not None else ()
            return
        yield from self._rows(block[:middle])
        yield from self._rows(block[middle:])

    def _parse(self, block: bytes) -> pa.Table | None:
        """The good rows of a block, the bad ones counted. None if a line spoils its neighbours: nothing is counted."""
        if block.find(b"\n") == len(block) - 1:
            block = block.rstrip(b"\r\n") or b"\n"  # one line: its end must not end up in an unclosed value
        bad: list[pacsv.InvalidRow] = []

        def skip(row: pacsv.InvalidRow) -> str:
            bad.append(row)
            return "skip"

        valid = is_utf8(block)
        text = block if valid else block.decode(errors="replace").encode()
        if text.startswith(BYTE_ORDER_MARK):  # the parser drops one: here it belongs to a value
            text = BYTE_ORDER_MARK + text
        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                # One block is one chunk for the parser: it may then hold line ends inside of quotes.
                pacsv.ReadOptions(column_names=self._header, block_size=3 * len(block), use_threads=False),
                pacsv.ParseOptions(invalid_row_handler=skip),
                self._convert,
            )
        except pa.ArrowInvalid:
            return None
        # An unclosed quote makes one row of its line and all that follow, of the right length or not.
        if any("\n" in row.text for row in bad) or _swallows(block, table.num_rows + len(bad)):
            return None
        if bad or not valid:
            spoilt = np.zeros(table.num_rows, np.bool_) if valid else _spoilt(table)
            self._note_bad(block, bad, spoilt, valid=valid)
            table = table.filter(pa.array(~spoilt)) if spoilt.any() else table
        return table

    def _parse_without_strays(self, block: bytes) -> pa.Table | None:
        """The good rows of a block that has lines with stray quotes, in one pass over it. None: nothing is counted."""
        pieces: list[bytes] = []
        bad: list[tuple[int, int]] = []
        at = 0
        for start, stop in _strays(block):
            # Ends of lines stay, so that lines keep their numbers. A quote in the last value is closed at the end.
            forgiven = _values_before_quote(block[start:stop]) == len(self._header) - 1
            # Without the line, a carriage return before it and the line feed after it would be one end.
            joins = block[start - 1 : start] == b"\r" and block[stop : stop + 1] == b"\n"
            pieces += [block[at:start], block[start:stop] + b'"' if forgiven else b"\n" * joins]
            bad += [] if forgiven else [(start, stop)]
            at = stop
        table = self._parse(b"".join([*pieces, block[at:]])) if pieces else None
        if table is None:
            return None
        before = counted = 0
        for start, stop in bad:
            before += _line_ends(block[counted:start])
            counted = start
            self._bad.add(self._lines_read + before + 1, UNCLOSED_QUOTE, block[start:stop])
        self._bad.kept.sort(key=lambda line: line.line)
        return table

    def _note_bad(self, block: bytes, bad: list[pacsv.InvalidRow], spoilt: NDArray[np.bool_], *, valid: bool) -> None:
        """Enter the lines of a block that are no rows: those the parser left out, and the `spoilt` ones it did not."""
        if not self._bad.keep:
            self._bad.count += len(bad) + int(np.count_nonzero(spoilt))
            return
        parsed = np.delete(np.arange(spoilt.size + len(bad)), [row.number - 1 for row in bad])
        reasons = dict.fromkeys(parsed[spoilt].tolist(), NOT_UTF8)
        raw: dict[int, bytes] = {}
        for row in bad:
            raw[row.number - 1] = row.text.encode()
            reasons[row.number - 1] = values_instead_of(row.actual_columns, row.expected_columns)
        if not valid and reasons:  # what the parser saw is not what stands there
            raw = dict(enumerate(filter(None, _ROW.findall(block))))
        numbers = sorted(reasons)
        for number, lines_before in zip(numbers, _lines_before(block, numbers), strict=True):
            line = raw.get(number, b"")
            reason = reasons[number] if _CLOSED_ROW.fullmatch(line) else UNCLOSED_QUOTE
            self._bad.add(self._lines_read + lines_before + 1, reason, line)

    def _too_long(self, start: bytes) -> None:
        self._bad.add(self._lines_read + 1, TOO_LONG, start)
        self._lines_read += _line_ends(start) + 1

    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in self._columns]))


def _swallows(block: bytes, rows: int) -> bool:
    """Whether a quote that is never closed made one row of several lines."""
    if b'"' not in block:
        return False
    lines = count_byte(block, b"\n") + (not block.endswith(b"\n"))
    if rows >= lines or rows >= sum(1 for line in block.splitlines() if line):
        return False
    return count_byte(block, b'"') % 2 == 1 or not _CERTAIN_ROWS.fullmatch(block)


def _strays(block: bytes) -> list[tuple[int, int]]:
    """Where lines are that no row begins with, without their ends: a quote in them is never closed."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(block):
        rows = _CERTAIN_ROWS.match(block, at)
        at = at if rows is None else rows.end()
        line = _LINE.match(block, at)
        if at < len(block) and line is not None:
            found.append(line.span(1))
            at = line.end()
    return found


def _values_before_quote(line: bytes) -> int:
    """How many values stand before the quote of a line that is never closed."""
    count = at = 0
    while (value := _BEFORE.match(line, at)) is not None:
        count, at = count + 1, value.end()
    return count


def _middle(block: bytes) -> int:
    """Where to cut a block in two, behind the end of a line near its middle; 0 if it has one line only."""
    half = len(block) // 2
    end = block.rfind(b"\n", 0, half) + 1
    quotes = block.count(b'"', 0, end)
    before = end
    while before and quotes % 2:  # not within a value, as long as no quote is missing before it
        earlier = block.rfind(b"\n", 0, before - 1) + 1
        quotes -= block.count(b'"', earlier, before)
        before = earlier
    return before or block.find(b"\n", half, -1) + 1 or end


def _line_ends(block: bytes) -> int:
    """How many lines end in a block: with a line feed, a carriage return, or both."""
    ends = count_byte(block, b"\n")
    return ends + block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else ends


def _lines_before(block: bytes, numbers: Sequence[int]) -> list[int]:
    """How many lines of a block end before these of its rows, which ascend; blank lines are no rows."""
    if b'"' not in block:
        rows = [number for number, line in enumerate(block.splitlines()) if line]
        return [rows[number] for number in numbers]
    starts = [found.start() for found in _ROW.finditer(block) if found.group()]
    lines: list[int] = []
    counted = 0
    for start in (starts[number] for number in numbers):
        lines.append((lines[-1] if lines else 0) + _line_ends(block[counted:start]))
        counted = start
    return lines


def _spoilt(table: pa.Table) -> NDArray[np.bool_]:
    """Which rows have a replaced byte."""
    spoilt = np.zeros(table.num_rows, np.bool_)
    for column in table.columns:
        spoilt |= pc.fill_null(pc.match_substring(column, UNREADABLE), False).to_numpy()
    return spoilt


class CsvWriter:
    """Writes a CSV file with a header; numbers and text plain, quotes around the values that need them."""

    def __init__(self, path: Path, csv: CsvOutput = DEFAULT) -> None:
        self._csv = csv
        self._part = AtomicFile(path)
        self._chunks = Chunks()
        self._headed = False

    def write(self, table: pa.Table) -> None:
        """Write the rows, in chunks whose borders do not depend on how they were handed over."""
        check_held(table.schema, "csv", str(self._part.path))
        for chunk in self._chunks.add(table):
            self._write(chunk)

    def close(self) -> None:
        """Write what is left and give the file its name."""
        for chunk in self._chunks.rest():
            self._write(chunk)
        self._part.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._part.discard()

    def _write(self, chunk: pa.Table) -> None:
        if not self._headed:
            self._part.write(header(chunk.column_names, self._csv))
            self._headed = True
        self._part.write(render(chunk, self._csv))


def header(names: Sequence[str], options: CsvOutput = DEFAULT) -> bytes:
    """The line with the names of the columns."""
    line = io.StringIO()
    written = escape_names(names) if options.formulas == "escape" else names
    csv.writer(line, lineterminator="\n").writerow(written)
    return line.getvalue().encode()


def render(table: pa.Table, options: CsvOutput = DEFAULT) -> pa.Buffer:
    """The rows as lines; the columns are ones that CSV can hold."""
    columns = [text_of(table.column(name), name, options) for name in table.column_names]
    plain = pa.table(columns, names=table.column_names)
    out = pa.BufferOutputStream()
    options = pacsv.WriteOptions(include_header=False, batch_size=max(table.num_rows, 1), quoting_style="none")
    try:
        pacsv.write_csv(plain, out, options)
    except pa.ArrowInvalid:  # a text with a comma, a quote or a line end in it
        return _render_quoted(plain)
    return out.getvalue()


def text_of(column: pa.ChunkedArray, name: str, options: CsvOutput) -> Any:
    """A column as the text that stands in CSV, but for quotes.

    Rows with formulas that are to be refused never come as far as this in a job: they are rejected when they are read.
    """
    if options.formulas == "refuse" and formulas_in(column) is not None:
        raise OutputError(
            f"column {name!r} has text that a spreadsheet would take for a formula, and formulas is refuse: "
            f"set it to escape, or mend the input"
        )
    text = as_text(column)
    return escape(text) if options.formulas == "escape" and is_text(column.type) else text


def _render_quoted(plain: pa.Table) -> pa.Buffer:
    """The same lines with quotes around the values that need them, and around no others: a value looks the same in
    every part, whatever stands beside it, because groups are told by what is written.
    """
    quoted = []
    for column in map(as_long_text, plain.columns):
        needs = pc.match_substring_regex(column, '[",\\r\\n]')
        inside = pc.replace_substring(column, '"', '""')
        quoted.append(pc.if_else(needs, pc.binary_join_element_wise(long('"'), inside, long('"'), long("")), column))
    lines = pc.binary_join_element_wise(*quoted, long(","), null_handling="replace", null_replacement="")
    return pa.py_buffer("".join(f"{line}\n" for line in lines.to_pylist()).encode())
