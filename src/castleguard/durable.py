"""Files that survive a crash: written whole or not at all, under names that survive a power cut.

A file grows under a hidden name in the folder of its final one, and one atomic rename publishes it: a reader that finds
the final name finds all bytes. Files that hold raw rows are private to their owner (0600).
"""

import gzip
import os
import re
import secrets
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from castleguard.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

UNFINISHED = (".part", ".tmp")
"""Suffixes of files that are still being written, ours and those of other programs."""

_HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part")
_PRIVATE = 0o600

_being_written: set[Path] = set()
"""Hidden names of the files that this process has begun and not finished."""


def is_unfinished(name: str) -> bool:
    """Whether a file name marks a file that is still being written, or hidden."""
    return name.startswith(".") or name.lower().endswith(UNFINISHED)


def remove_unfinished() -> None:
    """Remove the hidden files of this process.

    For an interrupted command: the signal can arrive after a file is created and before the `try` that discards it.
    """
    for hidden in tuple(_being_written):
        hidden.unlink(missing_ok=True)


def name_of_leftover(name: str) -> str:
    """Final name of the file that a dead process left under this hidden name; empty for any other file."""
    found = _HIDDEN.fullmatch(name)
    return found[1] if found else ""


class AtomicFile:
    """An output file that gets its final name when it is complete. `.gz` is compressed on the fly."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        """Create the hidden file now, so that an output that cannot be written fails here and not at the end."""
        self.path = path
        if path.is_dir():
            raise OutputError(f"{path} cannot be written: it is a folder")
        if not path.parent.is_dir():
            raise OutputError(f"{path} cannot be written: no such folder: {path.parent}")
        self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        mode = _PRIVATE if private else 0o666

        def opener(name: str, flags: int) -> int:
            return os.open(name, flags, mode)

        _being_written.add(self._hidden)
        try:
            self._raw: IO[bytes] = open(self._hidden, "xb", opener=opener)  # noqa: SIM115 (closed by commit, discard)
        except OSError as exc:
            _being_written.discard(self._hidden)
            raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc
        compressed = path.suffix.lower() == ".gz"
        # No name and no time in the gzip header: the same rows give the same bytes.
        self.file = cast(IO[bytes], gzip.GzipFile("", "wb", 6, self._raw, mtime=0)) if compressed else self._raw

    def write(self, data: "bytes | pa.Buffer") -> None:
        """Append bytes."""
        try:
            self.file.write(data)
        except OSError as exc:
            raise self.failure(exc) from exc

    def commit(self) -> None:
        """Flush the bytes to disk, then rename, replacing an older file. Only `sync_folder` makes the name durable."""
        try:
            self.file.close()
            if not self._raw.closed:
                self._raw.close()
            with open(self._hidden, "rb") as written:
                os.fsync(written.fileno())  # before the rename: a name must not survive a crash without its rows
            os.replace(self._hidden, self.path)
            _being_written.discard(self._hidden)
        except OSError as exc:
            self.discard()
            raise self.failure(exc) from exc

    def discard(self) -> None:
        """Remove the hidden file; does nothing after `commit`."""
        for file in (self.file, self._raw):
            try:
                file.close()
            except OSError:  # a full disk: unflushed bytes are removed anyway
                continue
        self._hidden.unlink(missing_ok=True)
        _being_written.discard(self._hidden)

    def failure(self, exc: OSError) -> OutputError:
        """The error to raise for an operating system error of this file."""
        return OutputError(f"{self.path} cannot be written: {exc.strerror or 'I/O error'}")


def write_durably(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file by these bytes: (1) under a hidden name, (2) to disk, (3) renamed, (4) the folder to disk.

    Raises OutputError.
    """
    file = AtomicFile(path, private=private)
    try:
        file.write(data)  # 1
        file.commit()  # 2, 3
        sync_folder(path.parent)  # 4
    except OSError as exc:
        raise file.failure(exc) from exc
    finally:
        file.discard()


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk. Raises OSError."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_private(path: Path) -> int:
    """Descriptor to read and write a file. Creates the file and missing folders, private to their owner.

    The mode of an existing file is left alone. Raises OSError.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    is_new = not path.exists()
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, _PRIVATE)
    try:
        if is_new:
            sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: Path) -> None:
    """Remove all rights of group and others. Only for a file known to be ours: its name may be a mistake."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(_PRIVATE)
