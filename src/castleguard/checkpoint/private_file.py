"""Files that hold raw rows: for their owner alone (0600), with names that survive a power cut."""

import os
import stat
from pathlib import Path


def open_private(path: Path) -> int:
    """A descriptor to read and write the file, which is made if it is not there, and so are the folders around it, for
    their owner alone as well. The rights of a file that is there are left as they are.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    is_new = not path.exists()
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if is_new:
            sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: Path) -> None:
    """Take everybody else's rights away. Only for a file that is known to be ours: it may be named by mistake."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power cut."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
