"""Which files a path of a job stands for: one file, the files of a folder, or those that match a pattern.

They are read in the plain order of their names, so that everybody can say which one comes next.
"""

import glob
import os
from pathlib import Path
from typing import NamedTuple

from castleguard.durable import is_unfinished
from castleguard.errors import InputError, UnavailableError

MANIFEST = "_castleguard.json"
"""Describes the parts in a folder (`manifest.py`)."""


class Listing(NamedTuple):
    """The files of a source. A file that is still being written has a name that starts with a dot or ends in .part or
    .tmp; it is not listed until it is renamed. What describes a folder of published parts is not one of them."""

    folder: Path
    """Where the files are; their names are relative to it."""
    pattern: str
    """What their names match."""
    several: bool
    """Whether there may be more than one."""

    def names(self) -> list[str]:
        """The files that are there now, in the order in which they are read.

        Raises InputError if the folder must not be looked into, UnavailableError if it cannot be now.
        """
        if not self.several:
            return [self.pattern] if (self.folder / self.pattern).is_file() else []
        try:
            if self.pattern == "*":
                with os.scandir(self.folder) as entries:
                    found = [entry.name for entry in entries if entry.is_file()]
            else:
                os.stat(self.folder)  # glob says nothing of a folder that is gone
                matches = glob.iglob(self.pattern, root_dir=self.folder, recursive=True)
                found = [name for name in matches if (self.folder / name).is_file()]
        except PermissionError as exc:
            raise InputError(f"{self.folder} cannot be looked into: {exc.strerror}") from exc
        except OSError as exc:
            raise UnavailableError(f"{self.folder} cannot be looked into: {exc.strerror}") from exc
        return sorted({name for name in found if _is_finished(os.path.basename(name))})

    def path(self, name: str) -> Path:
        """The file of this name."""
        return self.folder / name


def list_files(path: Path, *, awaited: bool = False) -> Listing:
    """What `path` stands for. Raises InputError if there is neither a file nor a folder, nor a pattern in it; if it is
    awaited, because somebody may still mount or make it, UnavailableError.
    """
    error = UnavailableError if awaited else InputError
    if path.is_dir():
        return Listing(path, "*", True)
    if path.exists():
        return Listing(path.parent, path.name, False)
    plain = next((number for number, part in enumerate(path.parts) if glob.has_magic(part)), None)
    if plain is None:
        raise error(f"{path} cannot be read: there is no such file or folder")
    folder = Path(*path.parts[:plain])
    if not folder.is_dir():
        raise error(f"{path} cannot be read: there is no folder {folder}")
    return Listing(folder, str(Path(*path.parts[plain:])), True)


def _is_finished(name: str) -> bool:
    return name != MANIFEST and not is_unfinished(name)
