"""Folders and files of a job: write access, privacy and free space."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from castleguard.jobs.check.checklist import Check

LEAST_FREE = 1 << 30  # bytes
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_writable(folder: Path, key: str) -> Check:
    """Whether the job can write to a folder, or create it."""
    existing = _existing(folder)
    if not existing.is_dir():
        return Check(key, f"{existing} is a file, not a folder", "bad", "choose another path")
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(key, f"{existing} is not writable", "bad", "give the job's user write permission")
    if not _keeps_files(existing):
        return Check(key, f"{existing} cannot hold files", "bad", "choose another path")
    return Check(key, f"{folder} is writable" if folder.exists() else f"{folder} can be created")


def _existing(path: Path) -> Path:
    """The path, or its nearest existing parent."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _keeps_files(folder: Path) -> bool:
    """Whether the file system can create files. /proc and similar ones grant root all access, but have no blocks and
    create no unnamed file.
    """
    if not hasattr(os, "O_TMPFILE") or os.statvfs(folder).f_blocks:
        return True
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except OSError:
        return False
    return True


def check_private(path: Path, key: str) -> Iterator[Check]:
    """Warn if other users can read a file or folder that holds raw rows."""
    if path.is_dir():
        if path.stat().st_mode & OTHERS:
            yield Check(key, f"{path} holds raw rows, and other users can open it", "doubtful", f"chmod 700 {path}")
    elif path.is_file() and path.stat().st_mode & OTHERS:
        yield Check(key, f"{path} holds raw rows, and other users can read it", "bad", f"chmod 600 {path}")
    elif path.parent.is_dir() and path.parent.stat().st_mode & stat.S_IRWXO:
        yield Check(key, f"other users can open {path.parent}", "doubtful", f"chmod 700 {path.parent}")


def check_space(folder: Path, key: str) -> Iterator[Check]:
    """Warn if little disk space is free."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < LEAST_FREE:
        yield Check(key, f"only {free >> 20:,} MiB are free", "doubtful", "free disk space: a full disk stops the job")
