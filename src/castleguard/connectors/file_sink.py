"""Files as the sink of a job: a folder with one complete file (a part) per segment, named by its number.

At any crash a part is complete or absent, and its name identifies it: exactly-once needs no more.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa

from castleguard.connectors.base import Writer
from castleguard.connectors.formats import Format
from castleguard.connectors.holding import check_held
from castleguard.connectors.listing import MANIFEST
from castleguard.durable import name_of_leftover, sync_folder
from castleguard.errors import OutputError

_PART = re.compile(r"part-(\d{12,})\.[a-z.]+")


class FileSink:
    """A folder of numbered parts, `part-000000000042.csv` and so on."""

    exactly_once = True
    longest_row = None

    def __init__(self, folder: Path, ending: str, open_writer: Callable[[Path], Writer]) -> None:
        """Create the folder if it is missing, and remove the unfinished files of an earlier process."""
        self._folder = folder
        self._ending = ending
        self._open_writer = open_writer
        self._format = cast(Format, ending.partition(".")[0])
        self._tried = 0  # number of the latest delivery that this object has attempted
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} cannot be written: it is a file, and a job writes a folder of parts")
        try:
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            for path in missing:
                sync_folder(path.parent)
            for name in os.listdir(folder):
                final = name_of_leftover(name)
                if final == MANIFEST or _PART.fullmatch(final):
                    (folder / name).unlink(missing_ok=True)
        except OSError as exc:
            raise self._failure(exc) from exc

    def last(self) -> int:
        """The highest number of a part in the folder, of any format."""
        return last_part(self._folder)

    def check(self, columns: pa.Schema) -> None:
        """Check that the format of the parts can hold these columns."""
        check_held(columns, self._format, str(self._folder))

    def deliver(self, number: int, table: pa.Table) -> None:
        """Write the part of this number: (1) under a hidden name, (2) flushed to disk, (3) renamed, (4) the folder
        flushed to disk, so that the new name survives a power cut.
        """
        if self.last() >= number and number != self._tried:
            raise OutputError(
                f"{self._folder} has part {self.last()}, which this job did not write: use one folder per job"
            )
        self._tried = number
        writer = self._open_writer(self._folder / f"part-{number:012d}.{self._ending}")
        try:
            writer.write(table)  # 1
            writer.close()  # 1, 2, 3
        except BaseException:
            writer.abort()
            raise
        try:
            sync_folder(self._folder)  # 4
        except OSError as exc:
            raise self._failure(exc) from exc

    def close(self) -> None:
        """Do nothing: no file is open between two deliveries."""

    def _failure(self, exc: OSError) -> OutputError:
        return _failure(self._folder, exc)


def last_part(folder: Path) -> int:
    """The highest number of a part in a folder, of any format; 0 if there is none."""
    try:
        parts = [found for name in os.listdir(folder) if (found := _PART.fullmatch(name))]
    except NotADirectoryError as exc:
        raise OutputError(f"{folder} cannot be written: it is a file, and a job writes a folder of parts") from exc
    except OSError as exc:
        raise _failure(folder, exc) from exc
    return max((int(part[1]) for part in parts), default=0)


def _failure(folder: Path, exc: OSError) -> OutputError:
    return OutputError(f"{folder} cannot be written: {exc.strerror or 'I/O error'}")
