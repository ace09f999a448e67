"""CSV: a header line (in files only), commas, double quotes, UTF-8; files in other dialects through `csv_dialect`.

Every column is read as text. A type guessed from the first rows could be wrong for a later one and would stop the
stream; the schema decides row by row what a text means.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from castleguard.connectors.bad_lines import NOT_UTF8, TOO_LONG, UNCLOSED_QUOTE, values_instead_of
from castleguard.connectors.column_checks import require_columns
from castleguard.connectors.csv_dialect import Dialect
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.csv_quotes import (
    CLOSED_ROW,
    ROW,
    count_line_ends,
    lines_before,
    middle_of,
    stray_lines,
    swallows_lines,
    values_before_quote,
)
from castleguard.connectors.formats import Codec
from castleguard.connectors.formulas import escape, escape_names, formulas_in, is_text
from castleguard.connectors.holding import check_held, text_holds
from castleguard.connectors.line_files import Coding, LineReader, LineWriter
from castleguard.connectors.payloads import Payloads, read_lines
from castleguard.connectors.repeated_rows import Repeated, find_repeated
from castleguard.connectors.text_columns import BYTE_ORDER_MARK, as_long_text, as_text, is_utf8, long, text_bytes
from castleguard.errors import InputError, OutputError

# Arrow's parser would replace the signal handlers of the process during each call. A signal that arrives as a call ends
# is lost then, and a job that is told to stop goes on. Blocks are small: their parsing need not be interruptible.
pa.enable_signal_handlers(False)

_SPECIAL = np.zeros(256, np.bool_)  # bytes of texts that need quotes
_SPECIAL[list(b'",\r\n')] = True
_REPLACED = "\ufffd"  # stands for a byte that is not UTF-8


class CsvParser:
    """Parses whole lines into the declared columns, all of them text; an empty value is null."""

    def __init__(self, names: Sequence[str], columns: Sequence[str], null_values: Sequence[str] = ("",)) -> None:
        """`names` are those of all values of a line, from left to right."""
        self.names = list(names)
        self._convert = pacsv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=list(null_values),
            strings_can_be_null=True,
            check_utf8=False,  # checked per block, where one bad byte costs a row and not the stream
        )

    def parse(self, text: bytes) -> tuple[pa.Table, list[pacsv.InvalidRow]] | None:
        """Rows, and lines with a wrong number of values; None if the text cannot be parsed."""
        bad: list[pacsv.InvalidRow] = []

        def skip(row: pacsv.InvalidRow) -> str:
            bad.append(row)
            return "skip"

        if text.startswith(BYTE_ORDER_MARK):  # the parser drops one: here it belongs to a value
            text = BYTE_ORDER_MARK + text
        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                # One block is one chunk for the parser: it may then hold line ends inside quotes.
                pacsv.ReadOptions(column_names=self.names, block_size=3 * len(text), use_threads=False),
                pacsv.ParseOptions(invalid_row_handler=skip),
                self._convert,
            )
        except pa.ArrowException:
            return None
        return table, bad


class CsvReader(LineReader):
    """Reader of a CSV file.

    Malformed lines have a wrong number of values, an unclosed quote, or a declared value that is not UTF-8.
    """

    quotes = True
    other_encodings = ", or set encoding: utf-16 in the csv options"

    def _configure(self, csv: CsvInput = PLAIN) -> Coding:
        """`csv`: how the file is written."""
        self._dialect = Dialect(csv, self._path)
        self._header = csv.header
        return Coding(self._dialect.decode if self._dialect.decodes else None, self._dialect.swap)

    @property
    def names(self) -> list[str]:
        """All columns of the file."""
        return self._parser.names

    def _begin(self) -> None:
        self._unread = iter(self._lines)
        header, self._first_block = self._read_header()
        self._parser = CsvParser(header, self._schema.names, self._dialect.null_values)

    def _blocks(self) -> Iterable[bytes]:
        return chain([self._first_block] if self._first_block else [], self._unread)

    def _read_header(self) -> tuple[list[str], bytes]:
        """The column names, and the rest of the first block."""
        first = next(self._unread, b"").removeprefix(BYTE_ORDER_MARK)
        block = first.lstrip(b"\r\n")
        self._refuse_utf16(block)
        line, _, rest = block.partition(b"\n")
        try:
            values = next(csv.reader([line.decode(errors="replace").rstrip("\r")]), [])
        except csv.Error:  # its message quotes the line: not passed on
            ends = ", its lines must end in line feeds" if b"\r" in line.rstrip(b"\r") else ""
            raise InputError(f"{self._path} cannot be read: the first line must name the columns{ends}") from None
        header = [self._dialect.swap(value.encode()).decode() for value in values]
        if isinstance(self._header, list):
            header, rest = self._header, block
        elif not self._header:
            header, rest = [f"column_{number}" for number in range(1, len(values) + 1)], block
        if not header:
            raise InputError(f"{self._path} is empty: the first line must name the columns")
        other = _other_separator(header)
        hint = f"; it seems to be separated by {other!r}: set separator in the csv options" if other else ""
        require_columns(self._schema.names, header, str(self._path), hint, may_be_values=True)
        self._lines_read += count_line_ends(first[: len(first) - len(rest)])
        return header, rest

    def _parse_block(self, block: bytes) -> Iterator[pa.Table]:
        """Parse without the lines that have an unclosed quote. A block that still cannot be parsed is halved, until the
        bad line is alone.
        """
        table = self._parse(block)
        if table is None:
            table = self._parse_without_strays(block)
        middle = middle_of(block) if table is None else 0
        if table is None and not middle:
            self._bad.add(self._lines_read + 1, UNCLOSED_QUOTE, block.rstrip(b"\r\n"))
        if not middle:
            if self._bad.keep:
                self._lines_read += count_line_ends(block)
            if table is not None:
                yield table
            return
        yield from self._parse_block(block[:middle])
        yield from self._parse_block(block[middle:])

    def _parse(self, block: bytes) -> pa.Table | None:
        """Good rows of a block; the bad ones are added. None, and nothing is added, if a line spoils its neighbours."""
        if block.find(b"\n") == len(block) - 1:
            block = block.rstrip(b"\r\n") or b"\n"  # one line: its end must not end up in an unclosed value
        text, valid = _decodable(block)
        parsed = self._parser.parse(text)
        if parsed is None:
            return None
        table, bad = parsed
        # An unclosed quote merges its line and all that follow into one row, of the right length or not.
        if any("\n" in row.text for row in bad) or swallows_lines(block, table.num_rows + len(bad)):
            return None
        if bad or not valid:
            spoilt = np.zeros(table.num_rows, np.bool_) if valid else _spoilt(table)
            self._add_bad(block, bad, spoilt, valid=valid)
            table = table.filter(pa.array(~spoilt)) if spoilt.any() else table
        return self._dialect.restore(table)

    def _parse_without_strays(self, block: bytes) -> pa.Table | None:
        """Good rows of a block without its stray lines, in one pass. None: nothing is added."""
        pieces: list[bytes] = []
        bad: list[tuple[int, int]] = []
        at = 0
        for start, stop in stray_lines(block):
            # Line ends stay, so that lines keep their numbers. A quote in the last value is closed at the end.
            forgiven = values_before_quote(block[start:stop]) == len(self._parser.names) - 1
            # Without the line, a carriage return before it and the line feed after it would be one line end.
            joins = block[start - 1 : start] == b"\r" and block[stop : stop + 1] == b"\n"
            pieces += [block[at:start], block[start:stop] + b'"' if forgiven else b"\n" * joins]
            bad += [] if forgiven else [(start, stop)]
            at = stop
        table = self._parse(b"".join([*pieces, block[at:]])) if pieces else None
        if table is None:
            return None
        before = counted = 0
        for start, stop in bad:
            before += count_line_ends(block[counted:start])
            counted = start
            self._bad.add(self._lines_read + before + 1, UNCLOSED_QUOTE, block[start:stop])
        self._bad.kept.sort(key=lambda line: line.place)
        return table

    def _add_bad(self, block: bytes, bad: list[pacsv.InvalidRow], spoilt: NDArray[np.bool_], *, valid: bool) -> None:
        """Add the lines of a block that are not rows: those the parser left out, and the `spoilt` ones it did not."""
        if not self._bad.keep:
            self._bad.count += len(bad) + int(np.count_nonzero(spoilt))
            return
        parsed = np.delete(np.arange(spoilt.size + len(bad)), [row.number - 1 for row in bad])
        reasons = dict.fromkeys(parsed[spoilt].tolist(), NOT_UTF8)
        raw: dict[int, bytes] = {}
        for row in bad:
            raw[row.number - 1] = row.text.encode()
            reasons[row.number - 1] = values_instead_of(row.actual_columns, row.expected_columns)
        if not valid and reasons:  # the parser saw replaced bytes
            raw = dict(enumerate(filter(None, ROW.findall(block))))
        numbers = sorted(reasons)
        for number, before in zip(numbers, lines_before(block, numbers), strict=True):
            line = raw.get(number, b"")
            reason = reasons[number] if CLOSED_ROW.fullmatch(line) else UNCLOSED_QUOTE
            self._bad.add(self._lines_read + before + 1, reason, line)

    def _too_long(self, start: bytes) -> None:
        self._bad.add(self._lines_read + 1, TOO_LONG, start)
        self._lines_read += count_line_ends(start) + 1


class CsvLines:
    """Lines of CSV in messages: the values of one row each, without a header."""

    def __init__(self, columns: Sequence[str], order: Sequence[str]) -> None:
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._parser = CsvParser(order, columns)
        # A known row before the lines and one after them: if both come back, every quote is closed.
        self._known = b",".join([b"x"] * len(order))

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
        block = self._between_known(*lines)
        # A line without a line end inside is at most one row, so as many rows as lines are one from each.
        if block.count(b"\n") != len(lines) + 1 or b"\r" in block or b"\n" + BYTE_ORDER_MARK in block:
            return None
        parsed = self._parser.parse(block) if is_utf8(block) else None
        if parsed is None or parsed[1] or parsed[0].num_rows != len(lines) + 2:
            return None
        return parsed[0].slice(1, len(lines))

    def one(self, line: bytes) -> tuple[str | None, ...] | str:
        """The values of one line, or the reason why it is not a row."""
        text, valid = _decodable(line)
        table, bad = self._parser.parse(self._between_known(text)) or (self.schema.empty_table(), [])
        if len(bad) == 1 and table.num_rows == 2:
            return "it has a wrong number of values"
        if bad or table.num_rows != 3:
            return "it has an unclosed quote or a stray line end"
        values = tuple(column[1].as_py() for column in table.columns)
        if not valid and any(value is not None and _REPLACED in value for value in values):
            return "it is not UTF-8"
        return values

    def _between_known(self, *lines: bytes) -> bytes:
        return b"\n".join([self._known, *lines, self._known])


def header(names: Sequence[str], options: CsvOutput = DEFAULT) -> bytes:
    """The line with the names of the columns."""
    line = io.StringIO()
    written = escape_names(names) if options.formulas == "escape" else names
    csv.writer(line, lineterminator="\n").writerow(written)
    return line.getvalue().encode()


def render(table: pa.Table, options: CsvOutput = DEFAULT) -> pa.Buffer:
    """The rows as lines; CSV must be able to hold the columns."""
    repeated = find_repeated(table)
    if repeated is not None:
        return text_bytes(_looked_up(table, options, repeated))
    texts = pa.table(_as_texts(table, options), names=table.column_names)
    out = pa.BufferOutputStream()
    style = pacsv.WriteOptions(include_header=False, batch_size=max(table.num_rows, 1), quoting_style="none")
    try:
        pacsv.write_csv(texts, out, style)
    except pa.ArrowInvalid:  # a text contains a comma, a quote or a line end
        return text_bytes(_ended(_join(texts.columns)))
    return out.getvalue()


def _looked_up(table: pa.Table, options: CsvOutput, repeated: Repeated) -> Any:
    """Lines with their ends. Neighbouring columns whose rows repeat are rendered for the distinct rows only."""
    distinct, last = repeated.distinct(table), table.num_columns - 1
    pieces = []
    for repeats, run in groupby(range(table.num_columns), key=repeated.columns.__contains__):
        places = list(run)
        texts = _join(_as_texts((distinct if repeats else table).select(places), options))
        texts = _ended(texts) if places[-1] == last else texts
        pieces.append(repeated.spread(texts) if repeats else texts)
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, long(","))


def _ended(lines: Any) -> Any:
    return pc.binary_join_element_wise(lines, long("\n"), long(""))


def _as_texts(table: pa.Table, options: CsvOutput) -> list[Any]:
    """Columns as the text that stands in CSV, without quotes.

    In a job, rows with formulas to be refused never arrive here: they are rejected when they are read.
    """
    texts = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if options.formulas == "refuse" and formulas_in(column) is not None:
            raise OutputError(
                f"column {name!r} has text that a spreadsheet would take for a formula, and formulas is refuse: "
                f"set it to escape, or correct the input"
            )
        text = as_text(column)
        texts.append(escape(text) if options.formulas == "escape" and is_text(column.type) else text)
    return texts


def _join(texts: Sequence[Any], *, quote_empty: bool = False) -> Any:
    """Lines without their ends, with quotes around the values that need them and around no others.

    A value must look the same in every part: readers distinguish groups by the published text.
    """
    quoted = [_quoted(text, empty=quote_empty) for text in texts]
    return quoted[0] if len(quoted) == 1 else pc.binary_join_element_wise(*quoted, long(","))


def _quoted(column: Any, *, empty: bool) -> Any:
    text = pc.fill_null(as_long_text(column), "")
    if not empty and not _SPECIAL[np.frombuffer(text_bytes(text), np.uint8)].any():
        return text
    special = pc.match_substring_regex(text, '[",\\r\\n]')
    if empty:
        special = pc.or_(special, pc.equal(text, ""))
    if not pc.any(special).as_py():
        return text
    inside = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise(long('"'), inside, long('"'), long("")), text)


def _decodable(block: bytes) -> tuple[bytes, bool]:
    """A block as UTF-8, and whether it already was."""
    valid = is_utf8(block)
    return (block if valid else block.decode(errors="replace").encode()), valid


def _spoilt(table: pa.Table) -> NDArray[np.bool_]:
    """Rows with a replaced byte."""
    spoilt = np.zeros(table.num_rows, np.bool_)
    for column in table.columns:
        spoilt |= pc.fill_null(pc.match_substring(column, _REPLACED), False).to_numpy()
    return spoilt


def _other_separator(names: Sequence[str]) -> str | None:
    """The separator that a header without commas seems to use."""
    return next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)


def _column_names(path: Path, _rows: int, csv: CsvInput = PLAIN) -> list[str]:
    with closing(CsvReader(path, [], 1, csv=csv)) as reader:
        names = reader.names
    other = _other_separator(names)
    if other is not None:
        raise InputError(f"{path} seems to be separated by {other!r}: set separator in the csv options")
    return names


def _open_writer(path: Path, options: CsvOutput) -> LineWriter:
    return LineWriter(path, "csv", partial(render, options=options), partial(header, options=options))


def _read_messages(payloads: Sequence[bytes], columns: Sequence[str], order: Sequence[str]) -> Payloads:
    return read_lines(payloads, CsvLines(columns, order))


def _write_messages(table: pa.Table, options: CsvOutput, _rows: int) -> list[bytes]:
    check_held(table.schema, "csv", "messages")
    if not table.num_rows:
        return []
    # A row of one empty value must still be a row.
    lines = _join(_as_texts(table, options), quote_empty=table.num_columns == 1)
    return list(lines.cast(pa.large_binary()).to_pylist())


CODEC = Codec(
    title="CSV",
    holds=text_holds,
    open_reader=CsvReader,
    open_writer=_open_writer,
    column_names=_column_names,
    header=header,
    render=render,
    read_messages=_read_messages,
    write_messages=_write_messages,
)
