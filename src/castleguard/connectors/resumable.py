"""One file that can be restored at a mark, also after a restart.

Restoring reads the file again and skips the rows that were handed out before. This works for every format and
needs no byte position, which compressed files and quoted line ends do not have.
"""

import hashlib
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from castleguard.connectors.bad_lines import BadLine, KeepsBadLines
from castleguard.connectors.base import BadRow, Read, Reader
from castleguard.errors import CastleguardError, InputError
from castleguard.pipeline import ahead
from castleguard.workers import cores

HEAD_BYTES = 1 << 16


class Mark(NamedTuple):
    """Position in a file, and the identity of the file. All fields are JSON values."""

    name: str
    rows: int
    """Number of rows handed out."""
    bad: int
    """Number of malformed lines handed out: counted apart, because they come with the rows around them."""
    size: int
    """Bytes of the file when it was opened, or when its end was reached. A file may grow but not shrink."""
    head: str
    """Hash of its beginning, which distinguishes files of the same name."""


class _Piece(NamedTuple):
    """A step of a reader."""

    batch: pa.RecordBatch | None
    """None at the end of the file."""
    bad: list[BadLine]
    end: int
    """Bytes of the file before the step: more may not have been read."""


class ResumableFile:
    """The rows of one file from a mark on."""

    def __init__(self, path: Path, name: str, open_reader: Callable[[Path], Reader], mark: Mark | None = None) -> None:
        """Raises InputError if the file cannot be read, or is not the file of the mark."""
        self.name = name
        self._path = path
        self._resumed = mark is not None
        self._size, self._head = _identity(path, mark)
        self._end = self._size
        self._rows = mark.rows if mark else 0
        self._bad = mark.bad if mark else 0
        self._rows_to_skip = self._rows
        self._bad_to_skip = self._bad
        self._error: CastleguardError | None = None
        self._reader = open_reader(path)
        self._pieces = ahead(self._read_pieces()) if cores() > 1 else self._read_pieces()

    def mark(self) -> Mark | None:
        """Position after the rows handed out; None if there are none yet."""
        if not self._rows and not self._bad and not self._resumed:
            return None
        return Mark(self.name, self._rows, self._bad, self._size, self._head)

    def end_mark(self) -> Mark:
        """The mark at the end of the file, to be restored if it grows."""
        try:
            head = _fingerprint(self._path, self._end).head
        except OSError:  # already removed
            return Mark(self.name, self._rows, self._bad, self._size, self._head)
        return Mark(self.name, self._rows, self._bad, self._end, head)

    def read(self) -> Read | None:
        """The next rows or malformed lines; None at the end of the file. Raises InputError, and again at every call."""
        if self._error is not None:
            raise self._error
        try:
            return self._read()
        except CastleguardError as exc:
            self._error = exc  # a failed reader looks like one at its end
            raise

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._pieces.close()
        self._reader.close()

    def _read(self) -> Read | None:
        for piece in self._pieces:
            if piece.batch is None:
                self._end = max(self._size, piece.end)
                break
            batch = self._without_skipped(piece.batch)
            bad = self._new_bad(piece.bad)
            if batch.num_rows or bad:
                return self._hand_out(batch, bad)
        if self._rows_to_skip or self._bad_to_skip:
            raise InputError(f"{self._path} has fewer rows than were read from it before: it has changed since")
        return None

    def _read_pieces(self) -> Generator[_Piece]:
        """Read the file, perhaps in a thread that is ahead: what is handed out changes no state here."""
        batches = iter(self._reader)
        while True:
            end = _size(self._path)
            batch = next(batches, None)
            yield _Piece(batch, self._reader.take_bad() if isinstance(self._reader, KeepsBadLines) else [], end)
            if batch is None:
                return

    def _without_skipped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        skipped = min(self._rows_to_skip, batch.num_rows)
        self._rows_to_skip -= skipped
        return batch.slice(skipped) if skipped else batch

    def _new_bad(self, found: list[BadLine]) -> list[BadLine]:
        skipped = min(self._bad_to_skip, len(found))
        self._bad_to_skip -= skipped
        return found[skipped:]

    def _hand_out(self, batch: pa.RecordBatch, bad: list[BadLine]) -> Read:
        name, first = self.name, self._rows + 1
        self._rows += batch.num_rows
        self._bad += len(bad)
        return Read(batch, lambda row: f"{name}, row {first + row}", tuple(bad_row(name, line) for line in bad))


def bad_row(name: str, line: BadLine) -> BadRow:
    """A malformed line of the file of this name."""
    return BadRow(f"{name}, line {line.place}", line.reason, line.raw)


Change = Literal["no", "grown", "other"]


def changed_since(path: Path, mark: Mark) -> Change:
    """Change of a file since it was read to its end. A removed file has not changed."""
    try:
        found = _fingerprint(path, mark.size)
    except OSError:
        return "no"
    if found.size < mark.size or found.head != mark.head:
        return "other"
    return "no" if found.size == mark.size else "grown"


def grew_within_line(path: Path, mark: Mark) -> bool:
    """Whether a grown text file has grown in the middle of a line, of which the first half was handed out.

    Unknown for a compressed file: False.
    """
    if path.suffix.lower() == ".gz" or not mark.size:
        return False
    with open(path, "rb") as file:
        file.seek(mark.size - 1)
        last, following = file.read(1), file.read(1)
    return last != b"\n" and following not in (b"\n", b"\r")


class _Fingerprint(NamedTuple):
    size: int
    head: str


def _fingerprint(path: Path, length: int | None = None) -> _Fingerprint:
    """Size of a file, and hash of its beginning when it had this length. Raises OSError."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(min(size if length is None else length, HEAD_BYTES))
    return _Fingerprint(size, hashlib.blake2b(head, digest_size=8).hexdigest())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _identity(path: Path, mark: Mark | None) -> _Fingerprint:
    """The fingerprint of a file, which must match the mark up to the size of the mark."""
    try:
        found = _fingerprint(path, None if mark is None else mark.size)
    except FileNotFoundError as exc:
        done = f" after row {mark.rows}" if mark else ""
        raise InputError(f"{path} cannot be read{done}: no such file") from exc
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}") from exc
    if mark is None:
        return found
    if found.size < mark.size:
        raise InputError(f"{path} cannot be read after row {mark.rows}: it has shrunk since")
    if found.head != mark.head:
        raise InputError(f"{path} cannot be read after row {mark.rows}: it is not the same file any more")
    return _Fingerprint(mark.size, mark.head)
