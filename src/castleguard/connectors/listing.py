"""The files that a path of a job stands for: one file, the files of a folder, or those that match a pattern.

They are read in the order of their names, so that the next one is predictable.
"""

import glob
import os
from pathlib import Path
from typing import NamedTuple

from castleguard.durable import is_unfinished
from castleguard.errors import InputError, UnavailableError

MANIFEST = "_castleguard.json"
"""Name of the file that describes the parts in a folder (`manifest.py`)."""


class Listing(NamedTuple):
    """The files of a source. Unfinished files (`durable.is_unfinished`) and the manifest of parts are not listed."""

    folder: Path
    """The names are relative to this folder."""
    pattern: str
    """Pattern that the names match."""
    several: bool
    """Whether more than one file can match."""

    def names(self) -> list[str]:
        """The files that exist now, in the order in which they are read.

        Raises InputError if the folder must not be listed, UnavailableError if it cannot be listed now.
        """
        if not self.several:
            return [self.pattern] if (self.folder / self.pattern).is_file() else []
        try:
            if self.pattern == "*":
                with os.scandir(self.folder) as entries:
                    found = [entry.name for entry in entries if entry.is_file()]
            else:
                os.stat(self.folder)  # glob does not report a folder that is gone
                matches = glob.iglob(self.pattern, root_dir=self.folder, recursive=True)
                found = [name for name in matches if (self.folder / name).is_file()]
        except PermissionError as exc:
            raise InputError(f"{self.folder} cannot be listed: {exc.strerror}") from exc
        except OSError as exc:
            raise UnavailableError(f"{self.folder} cannot be listed: {exc.strerror}") from exc
        return sorted({name for name in found if _is_finished(os.path.basename(name))})

    def path(self, name: str) -> Path:
        """The file of this name."""
        return self.folder / name


def list_files(path: Path, *, awaited: bool = False) -> Listing:
    """The listing of a path. Raises InputError if it is neither a file nor a folder nor a pattern; UnavailableError if
    it is awaited, because it may still be mounted or created.
    """
    error = UnavailableError if awaited else InputError
    if path.is_dir():
        return Listing(path, "*", True)
    if path.exists():
        return Listing(path.parent, path.name, False)
    plain = next((number for number, part in enumerate(path.parts) if glob.has_magic(part)), None)
    if plain is None:
        raise error(f"{path} cannot be read: no such file or folder")
    folder = Path(*path.parts[:plain])
    if not folder.is_dir():
        raise error(f"{path} cannot be read: no such folder: {folder}")
    return Listing(folder, str(Path(*path.parts[plain:])), True)


def _is_finished(name: str) -> bool:
    return name != MANIFEST and not is_unfinished(name)
