"""Formats that are text: files in blocks of whole lines, and columns as text.

Blocks are parsed one by one, and not by a streaming parser, because such a parser is lost after its first error: one
line that cannot be read would end the stream.

Published columns repeat a few values many times (the edges of a grid), so each distinct value is rendered once and
looked up: this is where most of the time of writing a file goes otherwise.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import InputError

BLOCK_BYTES = 1 << 20  # the fastest on one core: larger blocks leave the cache, smaller ones cost calls
LONGEST_LINE = 1 << 24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineBlocks:
    """Iterates over the blocks of one file; `.gz` is decompressed on the way."""

    def __init__(
        self,
        path: Path,
        *,
        quotes: bool,
        overlong: Callable[[bytes], None],
        stream: IO[bytes] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """With `quotes`, a line end between double quotes belongs to a value and does not end a line.

        `overlong` is told the beginning of a line that is left out because it is longer than any row could be. An
        unbuffered `stream` is read in place of the file; `path` is then only its name.
        """
        self._path = path
        self._quotes = quotes
        self._overlong = overlong
        self._block_bytes = block_bytes
        self._size = 0
        if stream is not None:
            self._raw = self._file = stream
            return
        try:
            self._raw = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by close)
            self._size = path.stat().st_size
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror}") from exc
        compressed = path.suffix.lower() == ".gz"
        self._file = cast(IO[bytes], gzip.GzipFile(fileobj=self._raw)) if compressed else self._raw

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks that end at the end of a line; only the last one may lack its line feed."""
        carry = b""
        skipping = False
        while data := self._read():
            if skipping:
                _, found, data = data.partition(b"\n")
                skipping = not found
            block = carry + data if carry else data
            end = self._end_of_line(block)
            carry = block[end:]
            if end:
                yield block[:end]
            if len(carry) > LONGEST_LINE:
                self._overlong(carry)
                carry, skipping = b"", True
        if carry:
            yield carry

    def fraction(self) -> float | None:
        """How much of the file has been read."""
        return None if self._raw.closed or not self._size else min(self._raw.tell() / self._size, 1.0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()

    def _read(self) -> bytes:
        try:
            return self._file.read(self._block_bytes)
        except (OSError, EOFError, zlib.error) as exc:
            reason = (exc.strerror if isinstance(exc, OSError) else None) or "its compression is damaged"
            raise InputError(f"{self._path} cannot be read any further: {reason}") from exc

    def _end_of_line(self, block: bytes) -> int:
        """Where the last whole line of `block` ends; 0 if it has none."""
        last = block.rfind(b"\n") + 1
        if not self._quotes or b'"' not in block:
            return last
        # An odd number of quotes before a line end: it lies inside a value that goes on in the next block.
        end, quotes = last, count_byte(block, b'"', last)
        while end and quotes % 2:
            earlier = block.rfind(b"\n", 0, end - 1) + 1
            quotes -= block.count(b'"', earlier, end)
            end = earlier
        # Nowhere even, and for long: a stray quote, which must not hold back the rest of the file.
        return last if not end and len(block) > 2 * self._block_bytes else end


def count_byte(block: bytes, byte: bytes, end: int | None = None) -> int:
    """How often a byte occurs before `end`; ten times as fast as `bytes.count` where it occurs often."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8)[:end] == ord(byte)))


def is_utf8(block: bytes) -> bool:
    """Whether all of a block is UTF-8; the parsers do not ask."""
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


CHUNK_ROWS = 65536  # rendered and written together; the cost per call is then lost in the cost per row


class Chunks:
    """Cuts a sequence of tables into chunks of CHUNK_ROWS rows, whatever the sizes of the tables.

    So the bytes of a file depend on its rows only. The first table is a chunk of its own if nothing follows, even when
    it is empty: it carries the names of the columns.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take a table; yield the chunks that are full."""
        if table.num_rows or not self._waiting:
            self._waiting.append(table)
            self._rows += table.num_rows
        while self._rows >= CHUNK_ROWS:
            whole = pa.concat_tables(self._waiting)
            yield whole.slice(0, CHUNK_ROWS).combine_chunks()
            self._waiting = [whole.slice(CHUNK_ROWS)]
            self._rows -= CHUNK_ROWS

    def rest(self) -> Iterator[pa.Table]:
        """Yield what is left."""
        if self._waiting:
            yield pa.concat_tables(self._waiting).combine_chunks()
            self._waiting = []


def chunks_of(column: Any) -> list[Any]:
    """The arrays of a column (Array or ChunkedArray)."""
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def long(text: str) -> pa.Scalar:
    """A text to be joined with large strings."""
    return pa.scalar(text, pa.large_string())


def as_long_text(column: Any) -> Any:
    """A column as large strings, whatever it was: texts of two types cannot be joined."""
    return as_text(column).cast(pa.large_string())


def as_text(column: Any) -> Any:
    """A column (Array or ChunkedArray) as strings; null stays null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_text(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_signed_integer(kind):
        return _integers_as_text(column)
    if pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return _repeated_as_text(column)
    return pc.cast(column, pa.string())


def _integers_as_text(column: Any) -> Any:
    extremes = pc.min_max(column)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None or high - low > len(column):
        return pc.cast(column, pa.string())
    labels = pc.cast(pa.array(np.arange(low, high + 1)), pa.string())
    # As int64, because the distance between two int8 need not be an int8.
    return labels.take(column if low == 0 else pc.subtract(pc.cast(column, pa.int64()), low))


def _repeated_as_text(column: Any) -> Any:
    encoded = column.dictionary_encode()
    if 2 * len(encoded.dictionary) > len(column):
        return _labels(column)
    return _labels(encoded.dictionary).take(encoded.indices)


def _labels(values: Any) -> Any:
    """Each value as text; a time without the zeros of a fraction that it does not have."""
    text = pc.cast(values, pa.string())
    if pa.types.is_timestamp(values.type):
        return pc.replace_substring_regex(text, r"\.0+([^0-9].*)?$", r"\1")
    return text
