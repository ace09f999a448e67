"""Reads any dialect of CSV with the one parser for plain CSV.

Bytes are decoded, and the separator and the quote of the dialect change places with the comma and the double quote.
The parsed values get their characters back by the same exchange, so a comma inside a value stays what it was.
"""

import codecs
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.connectors.csv_input import CsvInput
from castleguard.errors import InputError

_NO_QUOTE = "\x01"  # replaces the double quote if the dialect has none; a byte 1 in a value is read as a quote
_INVALID = b"\xff"  # a byte that is not UTF-8, for what cannot be decoded
_REPLACED = "\ufffd".encode()
_TIME_OF_DAY = re.compile(r"%[HIMSfpTRcXsz]")
_FIRST_YEAR = 1000


class Dialect:
    """One dialect of CSV, for one file."""

    def __init__(self, options: CsvInput, path: Path) -> None:
        pairs = [(options.separator_of(path), ","), (options.quote or _NO_QUOTE, '"')]
        table = bytearray(range(256))
        for one, other in pairs:
            table[ord(one)], table[ord(other)] = ord(other), ord(one)
        self._table = bytes(table) if bytes(table) != bytes(range(256)) else None
        self._options = options
        self._path = path
        self.null_values = ["", *(self.swap(text.encode()).decode() for text in options.null_values or ())]
        self._number = _number_pattern(options)
        utf8 = codecs.lookup(options.encoding).name in ("utf-8", "ascii")
        self._decoder = None if utf8 else codecs.getincrementaldecoder(options.encoding)(errors="replace")

    @property
    def decodes(self) -> bool:
        """Whether bytes change before they are parsed."""
        return self._decoder is not None or self._table is not None

    def swap(self, data: bytes) -> bytes:
        """Exchange the marks of the dialect with those of plain CSV; undoes itself."""
        return data if self._table is None else data.translate(self._table)

    def decode(self, read: Callable[[], bytes]) -> bytes:
        """The next bytes of plain CSV; empty at the end. `read` returns the next bytes of the file."""
        while True:
            data = read()
            if self._decoder is None:
                return self.swap(data)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError:  # UTF-16 without a byte order mark
                encoding = self._options.encoding
                raise InputError(
                    f"{self._path} is not {encoding}: set another encoding, such as {encoding}-le"
                ) from None
            if text or not data:
                return self.swap(text.encode(errors="replace").replace(_REPLACED, _INVALID))

    def restore(self, table: pa.Table) -> pa.Table:
        """The parsed columns with the characters of the file, and with numbers and dates as plain CSV writes them."""
        if self._table is None and self._number is None and not self._options.formats:
            return table
        columns = table.columns
        if self._table is not None:
            columns = [pa.chunked_array(map(self._swapped, column.chunks), column.type) for column in columns]
        if self._number is not None:
            columns = [self._plain_numbers(column) for column in columns]
        for format in self._options.formats:
            columns = [plain_times(column, format) for column in columns]
        return pa.table(columns, schema=table.schema)

    def _swapped(self, chunk: pa.Array) -> pa.Array:
        valid, offsets, data = chunk.buffers()
        if data is None:
            return chunk
        swapped = pa.py_buffer(self.swap(data.to_pybytes()))
        return pa.Array.from_buffers(chunk.type, len(chunk), [valid, offsets, swapped], offset=chunk.offset)

    def _plain_numbers(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Numbers with a decimal point and without marks between groups; other texts stay."""
        assert self._number is not None
        plain = column
        if self._options.thousands:
            plain = pc.replace_substring(plain, self._options.thousands, "")
        if self._options.decimal != ".":
            plain = pc.replace_substring(plain, self._options.decimal, ".")
        return pc.if_else(pc.match_substring_regex(column, self._number), plain, column)


def _bare(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts without leading zeros of their numbers, in lower case."""
    return pc.utf8_lower(pc.replace_substring_regex(texts, r"(^|[^0-9])0+([0-9])", r"\1\2"))


def _number_pattern(options: CsvInput) -> str | None:
    """Matches the numbers that plain CSV would write differently; None: there are none."""
    if options.decimal == "." and not options.thousands:
        return None
    group, mark = re.escape(options.thousands), re.escape(options.decimal)
    digits = rf"\d{{1,3}}(?:{group}\d{{3}})+|\d+" if group else r"\d+"
    return rf"^\s*[-+]?(?:{digits})?(?:{mark}\d*)?(?:[eE][-+]?\d+)?\s*$"


def plain_times(column: pa.ChunkedArray, format: str) -> pa.ChunkedArray:
    """Dates and times of one format in ISO 8601; other texts stay.

    >>> plain_times(pa.chunked_array([["12.05.1887", "2.1.1990", "31.02.1990", "?"]]), "%d.%m.%Y").to_pylist()
    ['1887-05-12', '1990-01-02', '31.02.1990', '?']
    """
    read = pc.strptime(column, format=format, unit="s", error_is_null=True)
    if read.null_count == len(column):
        return column
    # The parser takes 31 February for 2 March, and the year 87 for %Y: such a text does not come back as it was.
    same = pc.equal(_bare(pc.strftime(read, format=format)), _bare(column))
    read = pc.if_else(pc.and_(same, pc.greater_equal(pc.year(read), _FIRST_YEAR)), read, None)
    plain = pc.strftime(read, format="%Y-%m-%d %H:%M:%S" if _TIME_OF_DAY.search(format) else "%Y-%m-%d")
    return pc.if_else(read.is_valid(), plain, column)
