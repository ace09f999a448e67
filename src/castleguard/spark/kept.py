"""What a job keeps in its folder beside Spark's own checkpoint, and whether it may go on from there.

Spark continues from any checkpoint that it can read, with whatever the query is now, and leaves out micro-batches that
the output's log has already: with a new checkpoint and an old output, rows would be lost without a word. So the plan is
kept here and compared, and checkpoint and output must be of one another, before a query starts.
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
    "run the job as it was with --until-idle, so that nothing is pending; then take the files away that it has read, "
    "and name a new checkpoint.path and a new sink.path"
)

_BACK = "bring back the folder that belongs to it"

Facts = Mapping[str, Any]


@contextmanager
def folder_of(path: Path) -> Iterator[Path]:
    """The folder, for its owner alone if it is made now, and locked: a job runs once."""
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
    """Raise OutputError if it is there and is no folder."""
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file, and checkpoint.path is a folder in Spark: name another")


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on every system, and then nobody can be kept out
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        raise UnavailableError(f"{path} is in use by another process: a job runs once") from exc


def check_plan(folder: Path, facts: Facts) -> bool:
    """Whether the folder has been used by this job before. Raises SnapshotError if by another, or by something else."""
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
        strangers = [name for name in entries if name not in own and name_of_leftover(name) not in (KEY, PLAN)]
        if PLAN in strangers:
            raise _damaged(folder)
        if strangers:
            raise SnapshotError(f"{folder} holds something else ({min(strangers)}): name a folder for this job alone")
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
        f"{folder / PLAN} is empty or damaged, so nobody can tell which job {folder} belongs to: take the files away "
        f"that were read, and name a new checkpoint.path and a new sink.path; what was pending is lost"
    )


def keep_plan(folder: Path, facts: Facts) -> None:
    """Write it down, before anything starts, and once: it is there as a whole, or not at all."""
    write_durably(folder / PLAN, json.dumps(facts, indent=1).encode(), private=True)


def check_stream_output(folder: Path, checkpoint: Path, *, known: bool) -> None:
    """Raise OutputError unless what was published there is what the checkpoint knows of."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, and Spark writes a folder: name another sink.path")
    last, logged, through = last_batch(folder), _last(checkpoint / "offsets"), _last(checkpoint / "commits")
    if last is not None and (not known or logged is None):
        raise OutputError(
            f"{folder} was written by a stream whose checkpoint is not in {checkpoint}: Spark would leave out rows "
            f"there without a word; name another sink.path, or the checkpoint that it belongs to"
        )
    if last is not None and logged is not None and last > logged:
        raise OutputError(
            f"{folder} is further than the checkpoint {checkpoint}, which must be an old copy: rows would be left out"
        )
    if through is not None and last is None:
        missing = folder / LOG if folder.exists() else folder
        raise OutputError(
            f"{missing} is missing, though the checkpoint {checkpoint} has published there: {_BACK}, or begin a new "
            f"job with a new checkpoint.path and a new sink.path and what was not read yet"
        )
    # A micro-batch is in the log of the output first, also one without rows, and in that of the checkpoint then.
    if through is not None and last is not None and last < through:
        raise OutputError(
            f"{folder} ends with micro-batch {last}, and the checkpoint {checkpoint} has gone on to {through}: what "
            f"came in between is missing, so it must be an old copy; {_BACK}"
        )
    if not known and folder.is_dir() and any(entry.name != LOG for entry in folder.iterdir()):
        raise OutputError(f"{folder} is not empty: name a folder that this job has for itself")


def check_batch_output(folder: Path) -> None:
    """Raise OutputError if something is there. An empty folder is removed."""
    if not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    elif (folder / DONE).is_file() or (folder / LOG).is_dir():
        raise OutputError(f"{folder} is complete, and a batch is written once: name another sink.path for another one")
    else:
        raise OutputError(
            f"{folder} is there and not complete: a run that failed may have left it; delete it, and run again"
        )


def batch_key(folder: Path, facts: Facts, inputs: Sequence[tuple[str, int, int]]) -> bytes:
    """The key with which a batch is drawn: the same if the same job reads the same files again, and else a new one.

    A job that failed must not publish the same rows with fresh noise; and rows that have changed must not get the noise
    of before, because the difference of two releases would then show the change itself. Files are told by their names,
    sizes and times.
    """
    described = json.dumps([facts, list(inputs)], sort_keys=True, default=str)
    meant = hashlib.blake2b(described.encode(), digest_size=16).hexdigest()
    path = folder / KEY
    try:
        if path.exists():
            known, key = _checked(path.read_text(encoding="ascii"))
            if known == meant:
                return key
    except (OSError, ValueError) as exc:
        raise SnapshotError(f"{path} cannot be read, or is damaged: delete it, and the output with it") from exc
    made = secrets.token_bytes(KEY_BYTES)
    write_durably(path, f"{meant} {made.hex()} {_digest(meant, made)}\n".encode(), private=True)
    return made


def _checked(line: str) -> tuple[str, bytes]:
    """What the key is for, and the key: with one flipped bit the same rows would be published with other noise."""
    meant, key, digest = line.rstrip("\n").split(" ")
    made = bytes.fromhex(key)
    if digest != _digest(meant, made) or len(made) != KEY_BYTES:
        raise ValueError("damaged")
    return meant, made


def _digest(meant: str, key: bytes) -> str:
    return digest_of((meant, key)).hex()


def _last(folder: Path) -> int | None:
    """The number of the last micro-batch in one of Spark's logs: `offsets` has those that were begun, and `commits`
    those that are through.
    """
    found = [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []
    return max(found, default=None)
