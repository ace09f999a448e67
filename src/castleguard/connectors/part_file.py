"""A file that has its final name only when it is complete.

It grows under a hidden name in the same folder, so that giving it its name is one atomic rename. Whoever finds a file
under the final name finds all of it.
"""

import gzip
import os
import secrets
from pathlib import Path
from typing import IO, cast

import pyarrow as pa

from castleguard.errors import OutputError


class PartFile:
    """One output file in the making. `.gz` is compressed on the way."""

    def __init__(self, path: Path) -> None:
        """Create the hidden file at once: an output that cannot be written is an error now, not at the end."""
        self.path = path
        if path.is_dir():
            raise OutputError(f"{path} cannot be written: it is a folder")
        if not path.parent.is_dir():
            raise OutputError(f"{path} cannot be written: there is no folder {path.parent}")
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            self._raw: IO[bytes] = open(self._part, "xb")  # noqa: SIM115 (closed by commit and discard)
        except OSError as exc:
            raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc
        compressed = path.suffix.lower() == ".gz"
        # No name and no time in the gzip header: the same rows give the same bytes.
        self.file = cast(IO[bytes], gzip.GzipFile("", "wb", 6, self._raw, mtime=0)) if compressed else self._raw

    def write(self, data: bytes | pa.Buffer) -> None:
        """Append bytes."""
        try:
            self.file.write(data)
        except OSError as exc:
            raise self.failure(exc) from exc

    def commit(self) -> None:
        """Give the complete file its name, replacing what had it."""
        try:
            self.file.close()
            if not self._raw.closed:
                self._raw.close()
            with open(self._part, "rb") as written:
                os.fsync(written.fileno())  # before the rename: a name must not survive a crash without its rows
            os.replace(self._part, self.path)
        except OSError as exc:
            self.discard()
            raise self.failure(exc) from exc

    def discard(self) -> None:
        """Remove the hidden file; does nothing after `commit`."""
        for file in (self.file, self._raw):
            try:
                file.close()
            except OSError:  # a full disk: what could not be flushed is removed anyway
                continue
        self._part.unlink(missing_ok=True)

    def failure(self, exc: OSError) -> OutputError:
        """The error to raise for an operating system error of this file."""
        return OutputError(f"{self.path} cannot be written: {exc.strerror or 'the system refused'}")
