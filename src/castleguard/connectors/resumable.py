"""One file that can be left in the middle and read on later, after a restart too.

Reading on means to read the file again and to leave out what was handed out before. That works for every format, and
needs no byte position, which compressed files and quoted line ends do not have.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from castleguard.connectors.bad_lines import BadLine, KeepsBadLines
from castleguard.connectors.base import BadRow, Read, Reader
from castleguard.errors import CastleguardError, InputError

HEAD_BYTES = 1 << 16


class Mark(NamedTuple):
    """How far a file has been read, and which file that was. JSON can hold its fields."""

    name: str
    rows: int
    """Rows that were handed out."""
    bad: int
    """Malformed lines that were handed out: they are counted apart, because they come with the rows around them."""
    size: int
    """Of the file in bytes, when it was opened, or at its end if it was read to its end. A file may grow, but not
    shrink."""
    head: str
    """Hash of its beginning. Another file of the same name must not be read on."""


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
        self._batches: Iterator[pa.RecordBatch] = iter(self._reader)

    def mark(self) -> Mark | None:
        """Where to read on; None if nothing was handed out yet."""
        if not self._rows and not self._bad and not self._resumed:
            return None
        return Mark(self.name, self._rows, self._bad, self._size, self._head)

    def end_mark(self) -> Mark:
        """The mark at the end of the file: where to read on if it grows."""
        try:
            head = _fingerprint(self._path, self._end).head
        except OSError:  # it is gone already
            return Mark(self.name, self._rows, self._bad, self._size, self._head)
        return Mark(self.name, self._rows, self._bad, self._end, head)

    def read(self) -> Read | None:
        """The next rows or malformed lines; None at the end of the file. Raises InputError, then every time."""
        if self._error is not None:
            raise self._error
        try:
            return self._read()
        except CastleguardError as exc:
            self._error = exc  # a reader that has failed looks like one at its end
            raise

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._reader.close()

    def _read(self) -> Read | None:
        while True:
            end = _size(self._path)  # before the last look into it: what comes behind that has not been read for sure
            found = next(self._batches, None)
            if found is None:
                self._end = max(self._size, end)
                break
            batch = self._without_skipped(found)
            bad = self._new_bad()
            if batch.num_rows or bad:
                return self._hand_out(batch, bad)
        if self._rows_to_skip or self._bad_to_skip:
            raise InputError(f"{self._path} has fewer rows than were read from it before: it has changed since")
        return None

    def _without_skipped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        skipped = min(self._rows_to_skip, batch.num_rows)
        self._rows_to_skip -= skipped
        return batch.slice(skipped) if skipped else batch

    def _new_bad(self) -> list[BadLine]:
        found = self._reader.take_bad() if isinstance(self._reader, KeepsBadLines) else []
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
    return BadRow(f"{name}, line {line.line}", line.reason, line.raw)


Change = Literal["no", "grown", "other"]


def changed_since(path: Path, mark: Mark) -> Change:
    """What has become of a file that was read to its end. One that is gone has not changed."""
    try:
        found = _fingerprint(path, mark.size)
    except OSError:
        return "no"
    if found.size < mark.size or found.head != mark.head:
        return "other"
    return "no" if found.size == mark.size else "grown"


def grew_within_line(path: Path, mark: Mark) -> bool:
    """Whether a text file that has grown since has grown in the middle of a line: that line was handed out before, as
    far as it went. Nobody can tell of a compressed file.
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
    """Size and hash of the beginning of a file, as it was when the file had this length. Raises OSError."""
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
    """The fingerprint of a file, which must be the one of the mark as far as that went."""
    try:
        found = _fingerprint(path, None if mark is None else mark.size)
    except FileNotFoundError as exc:
        done = f" on after row {mark.rows}" if mark else ""
        raise InputError(f"{path} cannot be read{done}: there is no such file") from exc
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}") from exc
    if mark is None:
        return found
    if found.size < mark.size:
        raise InputError(f"{path} cannot be read on after row {mark.rows}: it has shrunk since")
    if found.head != mark.head:
        raise InputError(f"{path} cannot be read on after row {mark.rows}: it is not the same file any more")
    return _Fingerprint(mark.size, mark.head)
