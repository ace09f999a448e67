"""The committed files of a Spark output folder, for readers other than Spark.

A stream's folder also holds files of failed and unfinished micro-batches; other files repeat their rows. Only
the log in `_spark_metadata` shows which files count. Each file of the log is one micro-batch: a line with the version,
then a line of JSON per output file; about every tenth, such as `19.compact`, repeats all earlier ones. The folder of a
batch has no log, but `_SUCCESS` once it is complete.
"""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from castleguard.errors import InputError

LOG = "_spark_metadata"
DONE = "_SUCCESS"
OUTCOME = "outcome"
PUBLISHED = "published"

_NAME = re.compile(r"(\d+)(\.compact)?\Z")


def committed(folder: str | Path, outcome: str | None = PUBLISHED) -> list[Path]:
    """Return the files with rows of this outcome (None: of all outcomes), in the order of their commits.

    Files that were removed since are left out. Raises InputError if the folder is not an output of Spark, if its batch
    is not complete, or if all files are gone.
    """
    folder = Path(folder)
    if (folder / LOG).is_dir():
        found = [_inside(folder, entry) for entry in _entries(folder / LOG)]
    elif (folder / DONE).is_file():
        found = sorted(path for path in folder.rglob("part-*") if path.is_file())
    elif folder.is_dir():
        raise InputError(f"{folder} has neither {LOG} nor {DONE}: Spark has committed nothing there")
    else:
        raise InputError(f"{folder} is not a folder")
    present = [path for path in found if path.exists()]
    if found and not present:
        raise InputError(
            f"{folder} has none of the {len(found):,} files that Spark has committed: check whether they were moved"
        )
    wanted = None if outcome is None else f"{OUTCOME}={outcome}"
    return [path for path in present if wanted is None or wanted in path.relative_to(folder).parts]


def last_batch(folder: Path) -> int | None:
    """Return the number of the last committed micro-batch, or None."""
    return max((number for number, _ in _numbers(folder / LOG)), default=None)


def _numbers(log: Path) -> list[tuple[int, Path]]:
    """Return the files of the log, sorted by the number of their micro-batch."""
    found = []
    for path in log.iterdir() if log.is_dir() else ():
        name = _NAME.match(path.name)
        if name is not None:
            found.append((int(name.group(1)), path))
    return sorted(found)


def _entries(log: Path) -> list[str]:
    """Return the paths in the log, in order."""
    files = _numbers(log)
    compact = max((at for at, (_, path) in enumerate(files) if path.suffix == ".compact"), default=0)
    listed: dict[str, None] = {}
    for _, path in files[compact:]:
        for entry in _read(path):
            if entry.get("action") == "delete":
                listed.pop(entry["path"], None)
            else:
                listed[entry["path"]] = None
    return list(listed)


def _read(path: Path) -> list[dict[str, str]]:
    try:
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise InputError(f"{path} is a log of version {version!r}, but only v1 is supported")
        return [json.loads(line) for line in lines if line]
    except (OSError, ValueError, KeyError) as exc:
        raise InputError(f"{path} cannot be read: it is not a log of Spark, or it is damaged") from exc


def _inside(folder: Path, address: str) -> Path:
    """Return the current path of a file in the log: the folder may have been moved since."""
    parts = Path(unquote(urlsplit(address).path)).parts
    # Between the folder and the file are only partition folders, whose names contain "=". The output folder itself may
    # have such a name, so shorter paths are candidates too.
    last = len(parts) - 1
    first = last
    while first > 0 and "=" in parts[first - 1]:
        first -= 1
    candidates = [folder.joinpath(*parts[below:]) for below in range(first, last + 1)]
    return next((path for path in candidates if path.exists()), candidates[0])
