"""The order in which bytes, names and folders reach the disk."""

import os
import stat
from pathlib import Path

import pytest


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by "bytes", "name" or "folder" with every fsync and rename."""
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "bytes")
        fsync(descriptor)

    def recorded_replace(old: Path, new: Path) -> None:
        order.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    return order
