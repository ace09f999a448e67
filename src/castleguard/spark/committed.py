"""Which files of a folder Spark has committed, for readers that are not Spark.

A stream's folder also holds files of micro-batches that failed, and of those that are being written: their rows come
again in other files. Only the log in `_spark_metadata` tells them apart. Each of its files is a micro-batch: a line
with the version, then a line of JSON for each file; every tenth or so, `19.compact`, has all that came before it, too.
A folder that a batch has written has no log, but `_SUCCESS` once it is complete.
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
    """The files with rows of this outcome, in the order in which they were committed; None: of every outcome.

    A file that was taken away since is left out. Raises InputError if Spark has written no such folder, has not
    finished a batch, or if none of all the files is there any more.
    """
    folder = Path(folder)
    if (folder / LOG).is_dir():
        found = [_inside(folder, entry) for entry in _entries(folder / LOG)]
    elif (folder / DONE).is_file():
        found = sorted(path for path in folder.rglob("part-*") if path.is_file())
    elif folder.is_dir():
        raise InputError(f"{folder} has neither {LOG} nor {DONE}: Spark has committed nothing there")
    else:
        raise InputError(f"{folder} is no folder")
    there = [path for path in found if path.exists()]
    if found and not there:
        raise InputError(
            f"{folder} has none of the {len(found):,} files that Spark has committed: were they moved away?"
        )
    wanted = None if outcome is None else f"{OUTCOME}={outcome}"
    return [path for path in there if wanted is None or wanted in path.relative_to(folder).parts]


def last_batch(folder: Path) -> int | None:
    """The number of the last micro-batch that was committed, or None if there is none."""
    return max((number for number, _ in _numbers(folder / LOG)), default=None)


def _numbers(log: Path) -> list[tuple[int, Path]]:
    """The files of the log, by the number of their micro-batch."""
    found = []
    for path in log.iterdir() if log.is_dir() else ():
        name = _NAME.match(path.name)
        if name is not None:
            found.append((int(name.group(1)), path))
    return sorted(found)


def _entries(log: Path) -> list[str]:
    """What the log lists, in order."""
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
            raise InputError(f"{path} is a log of version {version!r}, and only v1 is known")
        return [json.loads(line) for line in lines if line]
    except (OSError, ValueError, KeyError) as exc:
        raise InputError(f"{path} cannot be read: it is no log of Spark, or it is damaged") from exc


def _inside(folder: Path, address: str) -> Path:
    """Where a file of the log is now: the folder may have been moved since."""
    parts = Path(unquote(urlsplit(address).path)).parts
    # Folders of partitions stand between the folder and the file, and every other part is before it. But the folder
    # itself may have such a name: then the way to the file begins further down.
    last = len(parts) - 1
    first = last
    while first > 0 and "=" in parts[first - 1]:
        first -= 1
    ways = [folder.joinpath(*parts[below:]) for below in range(first, last + 1)]
    return next((way for way in ways if way.exists()), ways[0])
