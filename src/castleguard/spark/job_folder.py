"""Plan, batch key and lock of a job beside Spark's checkpoint, and the checks before a query starts.

Spark restores any checkpoint that it can read, even for another query, and skips micro-batches that the output's log
already has: with a new checkpoint and an old output, rows would be lost silently. The plan is therefore stored here and
compared, and checkpoint and output must belong together.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from castleguard.checkpoint.codec import differences, digest_of
from castleguard.durable import name_of_leftover, open_private, write_durably
from castleguard.errors import OutputError, SnapshotError, UnavailableError
from castleguard.spark.committed import DONE, LOG, last_batch

PLAN = "castleguard.json"
KEY = "castleguard.key"
LOCK = "castleguard.lock"
_HALF_WRITTEN = "castleguard.json.new"  # left by an earlier version that died while it wrote the plan
KEY_BYTES = 32

_DRY = (
    "run the unchanged job with --until-idle, so that nothing is pending; then remove the files that it has read, and "
    "use a new checkpoint.path and a new sink.path"
)

_BACK = "bring back the folder that belongs to the checkpoint"

Facts = Mapping[str, Any]


@contextmanager
def folder_of(path: Path) -> Iterator[Path]:
    """Lock the folder of a job: only one process may run it. A new folder is private to its owner."""
    check_folder(path)
    try:
        descriptor = open_private(path / LOCK)
    except OSError as exc:
        raise OutputError(f"{path} cannot be used as a checkpoint: {exc.strerror}") from exc
    try:
        _lock(descriptor, path)
        yield path
    finally:
        os.close(descriptor)


def check_folder(path: Path) -> None:
    """Raise OutputError if the path exists and is not a folder."""
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file, but in Spark checkpoint.path is a folder: use another path")


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not available on every system; run without a lock
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        raise UnavailableError(f"{path} is in use by another process: stop that first") from exc


def check_plan(folder: Path, facts: Facts) -> bool:
    """Whether this job has used the folder before. Raises SnapshotError if another job has, or it holds other files."""
    try:
        before = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        before = None
    except OSError as exc:
        raise SnapshotError(f"{folder / PLAN} cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise _damaged(folder) from exc
    if before is None:
        entries = [entry.name for entry in folder.iterdir()] if folder.exists() else []
        own = (KEY, LOCK, _HALF_WRITTEN)
        foreign = [name for name in entries if name not in own and name_of_leftover(name) not in (KEY, PLAN)]
        if PLAN in foreign:
            raise _damaged(folder)
        if foreign:
            raise SnapshotError(f"{folder} holds other files ({min(foreign)}): use a folder for this job only")
        return False
    if not isinstance(before, Mapping):
        raise _damaged(folder)
    differing = differences(facts, before)
    if differing:
        raise SnapshotError(
            f"{folder} belongs to a job with another {' and another '.join(differing)}. To change that: {_DRY}"
        )
    return True


def _damaged(folder: Path) -> SnapshotError:
    return SnapshotError(
        f"{folder / PLAN} is empty or damaged, so the job of {folder} is unknown: remove the files that were read, and "
        f"use a new checkpoint.path and a new sink.path; pending rows are lost"
    )


def keep_plan(folder: Path, facts: Facts) -> None:
    """Store the plan atomically, once, before anything starts."""
    write_durably(folder / PLAN, json.dumps(facts, indent=1).encode(), private=True)


def check_stream_output(folder: Path, checkpoint: Path, *, known: bool) -> None:
    """Raise OutputError unless output and checkpoint belong together."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, but Spark writes a folder: use another sink.path")
    last, logged, through = last_batch(folder), _last(checkpoint / "offsets"), _last(checkpoint / "commits")
    if last is not None and (not known or logged is None):
        raise OutputError(
            f"{folder} was written by a stream whose checkpoint is not in {checkpoint}: Spark would skip rows "
            f"silently; use another sink.path, or the checkpoint that belongs to it"
        )
    if last is not None and logged is not None and last > logged:
        raise OutputError(
            f"{folder} is ahead of the checkpoint {checkpoint}, which must be an old copy: rows would be skipped; "
            f"bring back the latest checkpoint"
        )
    if through is not None and last is None:
        missing = folder / LOG if folder.exists() else folder
        raise OutputError(
            f"{missing} is missing, although the checkpoint {checkpoint} has published there: {_BACK}, or start a new "
            f"job with a new checkpoint.path, a new sink.path and the unread rows"
        )
    # Every micro-batch, even without rows, enters the log of the output first and that of the checkpoint afterwards.
    if through is not None and last is not None and last < through:
        raise OutputError(
            f"{folder} ends with micro-batch {last}, but the checkpoint {checkpoint} with {through}: the folder must "
            f"be an old copy; {_BACK}"
        )
    if not known and folder.is_dir() and any(entry.name != LOG for entry in folder.iterdir()):
        raise OutputError(f"{folder} is not empty: use a folder for this job only")


def check_batch_output(folder: Path) -> None:
    """Raise OutputError if the folder is not empty. Removes an empty folder."""
    if not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    elif (folder / DONE).is_file() or (folder / LOG).is_dir():
        raise OutputError(f"{folder} is complete, and a batch is written once: use another sink.path")
    else:
        raise OutputError(f"{folder} exists but is not complete, perhaps after a failed run: delete it and run again")


def batch_key(folder: Path, facts: Facts, inputs: Sequence[tuple[str, int, int]]) -> bytes:
    """Return the key for the draws of a batch: the same if the same job reads the same files again, else a new one.

    After a failure the same rows must not be published with fresh noise; and changed rows must not get the earlier
    noise, because the difference of two releases would reveal the change. Files are compared by name, size and time.
    """
    described = json.dumps([facts, list(inputs)], sort_keys=True, default=str)
    batch = hashlib.blake2b(described.encode(), digest_size=16).hexdigest()
    path = folder / KEY
    try:
        if path.exists():
            known, key = _parse_key(path.read_text(encoding="ascii"))
            if known == batch:
                return key
    except (OSError, ValueError) as exc:
        raise SnapshotError(f"{path} cannot be read or is damaged: delete it together with the output") from exc
    made = secrets.token_bytes(KEY_BYTES)
    write_durably(path, f"{batch} {made.hex()} {_digest(batch, made)}\n".encode(), private=True)
    return made


def _parse_key(line: str) -> tuple[str, bytes]:
    """Parse and verify the key file: a flipped bit would publish the same rows with other noise."""
    batch, key, digest = line.rstrip("\n").split(" ")
    made = bytes.fromhex(key)
    if digest != _digest(batch, made) or len(made) != KEY_BYTES:
        raise ValueError("damaged")
    return batch, made


def _digest(batch: str, key: bytes) -> str:
    return digest_of((batch, key)).hex()


def _last(folder: Path) -> int | None:
    """Return the last micro-batch in one of Spark's logs: `offsets` lists started ones, `commits` completed ones."""
    found = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []
    return max(found, default=None)
