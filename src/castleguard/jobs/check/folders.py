"""Folders and files of a job: whether they can be written, who can read them, and how much room is left."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from castleguard.jobs.check.checklist import Check

LEAST_FREE = 1 << 30  # bytes
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def writable(folder: Path, key: str) -> Check:
    """Whether a folder can be written, or made."""
    there = _existing(folder)
    if not there.is_dir():
        return Check(key, f"{there} is a file, and must be a folder", "bad", "choose another path")
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(key, f"{there} cannot be written", "bad", "let the user of the job write there")
    if not _keeps_files(there):
        return Check(key, f"{there} is no place for files", "bad", "choose another path")
    return Check(key, f"{folder} can be written" if folder.exists() else f"{folder} can be made")


def _existing(path: Path) -> Path:
    """The path, or the nearest one around it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _keeps_files(folder: Path) -> bool:
    """Whether files can be made there. /proc and its like forbid root nothing, and make no file either: they have no
    room, and take none that has no name yet.
    """
    if not hasattr(os, "O_TMPFILE") or os.statvfs(folder).f_blocks:
        return True
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError:
        return False
    return True


def check_private(path: Path, key: str) -> Iterator[Check]:
    """Raw rows are for the owner alone."""
    if path.is_file() and path.stat().st_mode & OTHERS:
        yield Check(key, f"{path} holds raw rows, and others can read it", "bad", f"chmod 600 {path}")
    elif path.parent.is_dir() and path.parent.stat().st_mode & stat.S_IRWXO:
        yield Check(key, f"others can look into {path.parent}", "doubtful", f"chmod 700 {path.parent}")


def check_private_folder(folder: Path, key: str) -> Iterator[Check]:
    """A folder that holds raw rows is for the owner alone; one that is not there yet will be."""
    if folder.is_dir() and folder.stat().st_mode & OTHERS:
        yield Check(key, f"others can look into {folder}, which holds raw rows", "doubtful", f"chmod 700 {folder}")


def check_space(folder: Path, key: str) -> Iterator[Check]:
    """Whether there is little room."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < LEAST_FREE:
        yield Check(key, f"{free >> 20:,} MiB are free there", "doubtful", "a full disk stops the job: make room")
