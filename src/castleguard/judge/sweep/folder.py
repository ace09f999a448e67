"""Folder of a sweep: its identity, and one durable line per finished setting.

It holds figures, never a row's value. The figures depend on unpublished rows, so they are for the operator only.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from castleguard.durable import write_durably
from castleguard.errors import InputError, OutputError, UnavailableError
from castleguard.judge.sweep.figures import Figures, from_json
from castleguard.judge.sweep.parameter_grid import Setting, key_of

IDENTITY, RESULTS, TABLE, REPORT, PICTURE = "sweep.json", "results.jsonl", "results.csv", "report.md", "picture.png"
_FILES = (IDENTITY, RESULTS, TABLE, REPORT, PICTURE)


class Folder:
    """Results of a sweep on disk. One process at a time."""

    def __init__(self, path: Path, identity: Mapping[str, Any], *, overwrite: bool = False) -> None:
        """Open or create the folder. Raises OutputError if it has the results of another sweep."""
        self.path = path
        self._identity: dict[str, Any] = json.loads(json.dumps(identity, default=str))
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._check_ours(overwrite)
            self._results = open(path / RESULTS, "a+b")  # noqa: SIM115 (closed by close)
        except OSError as exc:
            raise OutputError(f"cannot write to {path}: {exc.strerror}") from exc
        try:
            self._lock(self._results)
            self._begin(overwrite)
            self.done = self._read()
        except BaseException:
            self._results.close()
            raise

    def add(self, setting: Setting, figures: Figures) -> None:
        """Store a finished setting; it survives a crash once this returns."""
        line = json.dumps({"setting": setting.parameters, "figures": figures.as_json()}, allow_nan=False)
        try:
            self._results.write(f"{line}\n".encode())
            self._results.flush()
            os.fsync(self._results.fileno())
        except OSError as exc:
            raise OutputError(f"cannot write {self.path / RESULTS}: {exc.strerror}") from exc
        self.done[setting.key] = figures

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the folder atomically."""
        write_durably(self.path / name, data)

    def close(self) -> None:
        """Close the folder and release its lock."""
        self._results.close()

    def _check_ours(self, overwrite: bool) -> None:
        """Refuse to replace files of these names that no sweep has written."""
        if not overwrite and not (self.path / IDENTITY).exists():
            for name in _FILES:
                if (self.path / name).exists():
                    raise OutputError(
                        f"{self.path} has a {name} from another program: choose another folder, or use --overwrite"
                    )

    def _lock(self, file: IO[bytes]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise UnavailableError(
                f"another sweep is using {self.path}: wait for it to end, or choose another folder"
            ) from exc

    def _begin(self, overwrite: bool) -> None:
        """Restore the same sweep, or begin a new one."""
        known = self.path / IDENTITY
        if known.exists() and not overwrite:
            differing = _differences(_loaded(known), self._identity)
            if differing:
                raise OutputError(
                    f"{self.path} has the results of another sweep (different {' and '.join(differing)}): "
                    f"choose another folder, or start over with --overwrite"
                )
            return
        self._results.truncate(0)
        for name in (TABLE, REPORT, PICTURE):
            (self.path / name).unlink(missing_ok=True)
        self.write(IDENTITY, json.dumps(self._identity, indent=1).encode())

    def _read(self) -> dict[str, Figures]:
        """Finished settings by their key. A truncated last line is dropped."""
        self._results.seek(0)
        content = self._results.read()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        done: dict[str, Figures] = {}
        for at, line in enumerate(lines):
            try:
                entry = json.loads(line)
                done[key_of(entry["setting"])] = from_json(entry["figures"])
            except (ValueError, KeyError, TypeError, AttributeError, InputError) as exc:
                if at < len(lines) - 1:
                    raise InputError(
                        f"{self.path / RESULTS} is damaged at line {at + 1}: start over with --overwrite"
                    ) from exc
                whole -= len(line) + 1
        if whole < len(content):
            self._results.truncate(whole)
        return done


def _loaded(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError) as exc:
        raise InputError(f"cannot read {path}: start over with --overwrite") from exc
    if not isinstance(known, dict):
        raise InputError(f"{path} does not describe a sweep: start over with --overwrite")
    return known


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    return [name for name in ours if theirs.get(name) != ours[name]] + [name for name in theirs if name not in ours]


def identity_of_file(path: Path) -> dict[str, Any]:
    """Identity of a file without its content: name, size and modification time.

    A checksum would let someone who knows all rows but one test guesses about that row.
    """
    try:
        facts = path.stat()
    except OSError as exc:
        raise InputError(f"cannot read {path}: {exc.strerror}") from exc
    return {"name": path.name, "bytes": facts.st_size, "changed": facts.st_mtime_ns}
