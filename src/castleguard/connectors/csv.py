"""CSV files: a header line, commas, double quotes, UTF-8; `.csv.gz` too.

Every column is read as text. A type guessed from the first rows could be wrong for a later one, and would then stop
the stream; what a text means is decided by the schema, row by row.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from castleguard.connectors.columns import require_columns
from castleguard.connectors.lines import LineBlocks, count_byte, is_utf8
from castleguard.connectors.part_file import PartFile
from castleguard.connectors.text import Chunks, as_text
from castleguard.errors import InputError, OutputError

UNREADABLE = "\ufffd"  # what a byte that is not UTF-8 is replaced by


class CsvReader:
    """The declared columns of a CSV file as strings; an empty value is null.

    Malformed is a line with a wrong number of values, an unclosed quote, or a declared value that is not UTF-8.
    """

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        self._columns = list(columns)
        self._batch_rows = batch_rows
        self._lines = LineBlocks(path, quotes=True)
        self._blocks = iter(self._lines)
        self._malformed = 0
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
        return self._malformed + self._lines.overlong

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        if self._first_block:
            yield from self._rows(self._first_block)
        for block in self._blocks:
            yield from self._rows(block)

    def fraction(self) -> float | None:
        """How much of the file has been read."""
        return self._lines.fraction()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _read_header(self, path: Path) -> tuple[list[str], bytes]:
        """The column names, and what follows them in the first block."""
        block = next(self._blocks, b"").removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{path} is UTF-16: save it as UTF-8")
        line, _, rest = block.partition(b"\n")
        header = next(csv.reader([line.decode(errors="replace").rstrip("\r")]), [])
        if not header:
            raise InputError(f"{path} is empty: the first line must name the columns")
        other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
        hint = f"; it seems to be separated by {other!r}, only commas are read" if other else ""
        require_columns(self._columns, header, str(path), hint)
        return header, rest

    def _rows(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Parse whole lines. What cannot be parsed as a whole is halved, until the bad line stands alone."""
        table = self._parse(block)
        if table is not None:
            yield from table.to_batches(max_chunksize=self._batch_rows)
            return
        middle = block.find(b"\n", len(block) // 2, -1) + 1 or block.rfind(b"\n", 0, len(block) // 2) + 1
        if not middle:
            self._malformed += 1
            return
        yield from self._rows(block[:middle])
        yield from self._rows(block[middle:])

    def _parse(self, block: bytes) -> pa.Table | None:
        """The good rows of a block, the bad ones counted. None if a line spoils its neighbours: nothing is counted."""
        if block.find(b"\n") == len(block) - 1:
            block = block.rstrip(b"\r\n") or b"\n"  # one line: its end must not end up in an unclosed value
        bad: list[str] = []

        def skip(row: pacsv.InvalidRow) -> str:
            bad.append(row.text)
            return "skip"

        valid = is_utf8(block)
        try:
            table = pacsv.read_csv(
                pa.BufferReader(block if valid else block.decode(errors="replace").encode()),
                # One block is one chunk for the parser: it may then hold line ends inside of quotes.
                pacsv.ReadOptions(column_names=self._header, block_size=3 * len(block), use_threads=False),
                pacsv.ParseOptions(invalid_row_handler=skip),
                self._convert,
            )
        except pa.ArrowInvalid:
            return None
        # An unclosed quote makes one row of its line and all that follow, of the right length or not.
        if any("\n" in text for text in bad) or _swallows(block, table.num_rows + len(bad)):
            return None
        readable = table if valid else _readable(table)
        self._malformed += len(bad) + table.num_rows - readable.num_rows
        return readable


def _swallows(block: bytes, rows: int) -> bool:
    """Whether a quote that is never closed made one row of several lines."""
    if b'"' not in block or rows >= count_byte(block, b"\n") or count_byte(block, b'"') % 2 == 0:
        return False
    return rows < sum(1 for line in block.splitlines() if line)


def _readable(table: pa.Table) -> pa.Table:
    """The rows without a replaced byte."""
    for name in table.column_names:
        spoilt = pc.fill_null(pc.match_substring(table[name], UNREADABLE), False)
        table = table.filter(pc.invert(spoilt))
    return table


class CsvWriter:
    """Writes a CSV file with a header; numbers and text plain, quotes only where a chunk needs them."""

    def __init__(self, path: Path) -> None:
        self._part = PartFile(path)
        self._chunks = Chunks()
        self._headed = False

    def write(self, table: pa.Table) -> None:
        """Write the rows, in chunks whose borders do not depend on how they were handed over."""
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
        try:
            plain = pa.table([as_text(column) for column in chunk.columns], names=chunk.column_names)
        except pa.ArrowNotImplementedError as exc:
            raise OutputError(f"{self._part.path}: a CSV file cannot hold a nested column") from exc
        if not self._headed:
            self._part.write(_header(chunk.column_names))
            self._headed = True
        try:
            self._part.write(_render(plain, "none"))
        except pa.ArrowInvalid:  # a text with a comma, a quote or a line end in it
            self._part.write(_render(chunk, "needed"))


def _header(names: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def _render(table: pa.Table, quoting: str) -> pa.Buffer:
    """The rows as CSV. Into memory first: a table that turns out to need quotes leaves nothing behind."""
    out = pa.BufferOutputStream()
    pacsv.write_csv(
        table,
        out,
        pacsv.WriteOptions(include_header=False, batch_size=max(table.num_rows, 1), quoting_style=quoting),
    )
    return out.getvalue()
