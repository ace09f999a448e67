"""Files with one row per line: read in blocks of whole lines, written in chunks of rows.

Blocks are parsed one by one and not by a streaming parser, because such a parser stops at its first error: one line
that cannot be read would end the stream.
"""

import gzip
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, cast

import pyarrow as pa

from castleguard.connectors.bad_lines import BadLine, BadLines
from castleguard.connectors.formats import Format
from castleguard.connectors.holding import check_held
from castleguard.connectors.text_columns import CHUNK_ROWS, count_byte
from castleguard.durable import AtomicFile
from castleguard.errors import InputError

BLOCK_BYTES = 1 << 20  # the fastest on one core: larger blocks leave the cache, smaller ones cost calls
LONGEST_LINE = 1 << 24
_LONGEST_SAMPLED = 1 << 20  # characters


class Coding(NamedTuple):
    """How the bytes of a file become lines, and lines the bytes of the file again."""

    decode: Callable[[Callable[[], bytes]], bytes] | None = None
    """See `LineBlocks`."""
    restore: Callable[[bytes], bytes] = bytes
    """See `BadLines`."""


class LineBlocks:
    """Iterates over the blocks of one file; `.gz` is decompressed on the fly."""

    def __init__(
        self,
        path: Path,
        *,
        quotes: bool,
        overlong: Callable[[bytes], None],
        stream: IO[bytes] | None = None,
        decode: Callable[[Callable[[], bytes]], bytes] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """With `quotes`, a line end between double quotes belongs to a value and does not end a line.

        `overlong` is called with the beginning of a line that is skipped because no row can be that long. An unbuffered
        `stream` is read in place of the file; `path` is then only its name. `decode` gets a function that reads the
        next bytes, and returns what they stand for.
        """
        self._path = path
        self._quotes = quotes
        self._overlong = overlong
        self._block_bytes = block_bytes
        self._decode = decode
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
        """Fraction of the file that has been read."""
        return None if self._raw.closed or not self._size else min(self._raw.tell() / self._size, 1.0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()

    def _read(self) -> bytes:
        return self._read_bytes() if self._decode is None else self._decode(self._read_bytes)

    def _read_bytes(self) -> bytes:
        try:
            return self._file.read(self._block_bytes)
        except (OSError, EOFError, zlib.error) as exc:
            reason = (exc.strerror if isinstance(exc, OSError) else None) or "its compression is damaged"
            raise InputError(f"{self._path} cannot be read any further: {reason}") from exc

    def _end_of_line(self, block: bytes) -> int:
        """End of the last whole line of `block`; 0 if it has none."""
        last = block.rfind(b"\n") + 1
        if not self._quotes or b'"' not in block:
            return last
        # An odd number of quotes before a line end: it lies inside a value that continues in the next block.
        end, quotes = last, count_byte(block, b'"', last)
        while end and quotes % 2:
            earlier = block.rfind(b"\n", 0, end - 1) + 1
            quotes -= block.count(b'"', earlier, end)
            end = earlier
        # Odd everywhere in a long block: a stray quote, which must not hold back the rest of the file.
        return last if not end and len(block) > 2 * self._block_bytes else end


class LineReader(ABC):
    """Reader of one file: the declared columns as text. Malformed lines are left out and counted."""

    quotes: ClassVar[bool]
    """Whether a line end between double quotes belongs to a value."""
    other_encodings: ClassVar[str] = ""
    """How to read a file that is not UTF-8, for an error message."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        batch_rows: int,
        *,
        keep_bad: bool = False,
        stream: IO[bytes] | None = None,
        **options: Any,
    ) -> None:
        """With `keep_bad`, call `take_bad` after every batch. A `stream` is read in place of the file. `options` are
        those of the format.
        """
        self._path = path
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._batch_rows = batch_rows
        self._lines_read = 0  # counted only where bad lines are kept
        coding = self._configure(**options)
        self._bad = BadLines(keep=keep_bad, restore=coding.restore)
        self._lines = LineBlocks(path, quotes=self.quotes, overlong=self._too_long, stream=stream, decode=coding.decode)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def malformed(self) -> int:
        """Number of lines left out so far."""
        return self._bad.count

    def take_bad(self) -> list[BadLine]:
        """Lines left out since the last call, if they are kept."""
        return self._bad.take()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        for block in self._blocks():
            for table in self._parse_block(block):
                yield from table.to_batches(max_chunksize=self._batch_rows)
            if self._bad.kept:
                yield self._no_rows()
        if self._bad.kept:
            yield self._no_rows()

    def fraction(self) -> float | None:
        """Fraction of the file that has been read."""
        return self._lines.fraction()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _configure(self) -> "Coding":
        """Take the options of the format."""
        return Coding()

    @abstractmethod
    def _begin(self) -> None:
        """Read what comes before the first row. Raises InputError, SchemaError."""

    @abstractmethod
    def _blocks(self) -> Iterable[bytes]:
        """Blocks of lines that hold rows."""

    @abstractmethod
    def _parse_block(self, block: bytes) -> Iterator[pa.Table]:
        """Good rows of a block. Adds the bad lines and, if they are kept, counts the lines of the block."""

    @abstractmethod
    def _too_long(self, start: bytes) -> None:
        """Add a line that was skipped because of its length."""

    def _refuse_utf16(self, first: bytes) -> None:
        if first.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{self._path} is UTF-16: save it as UTF-8{self.other_encodings}")

    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self._schema)


Render = Callable[[pa.Table], "bytes | pa.Buffer"]
Header = Callable[[Sequence[str]], bytes]


class LineWriter:
    """Writer of one file, with rows rendered in chunks whose borders do not depend on how they were handed over."""

    def __init__(self, path: Path, format: Format, render: Render, header: Header | None = None) -> None:
        self._format = format
        self._render = render
        self._header = header
        self._file = AtomicFile(path)
        self._chunks = Chunks()

    def write(self, table: pa.Table) -> None:
        """Write all full chunks."""
        check_held(table.schema, self._format, str(self._file.path))
        self._write(self._chunks.add(table))

    def close(self) -> None:
        """Write the remaining rows and give the file its name."""
        self._write(self._chunks.rest())
        self._file.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._file.discard()

    def _write(self, chunks: Iterable[pa.Table]) -> None:
        for chunk in chunks:
            if self._header is not None:
                self._file.write(self._header(chunk.column_names))
                self._header = None
            self._file.write(self._render(chunk))


class Chunks:
    """Cuts a sequence of tables into chunks of CHUNK_ROWS rows, so that the bytes of a file depend on its rows only.

    If no rows arrive, the first table is a chunk even when it is empty: it carries the names of the columns.
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
        """Yield the remaining rows."""
        if self._waiting:
            yield pa.concat_tables(self._waiting).combine_chunks()
            self._waiting = []


def sample_lines(path: Path) -> Iterator[str]:
    """Lines that are not empty, cut off if very long; bytes that are not UTF-8 are replaced. Raises InputError."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            while line := file.readline(_LONGEST_SAMPLED):
                if line.strip("\r\n"):
                    yield line.rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as exc:
        raise InputError(f"{path} cannot be read: it is damaged") from exc
