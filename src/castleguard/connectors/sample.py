"""The first rows of a file, with all of its columns: to look at what is there before anything is declared."""

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from castleguard.connectors.formats import Format, open_reader
from castleguard.errors import InputError, NoRowsError

_LONGEST_LINE = 1 << 20  # characters


class Sample(NamedTuple):
    """What was looked at."""

    rows: pa.Table
    malformed: int
    """How many lines stand between them, or after them, that are no rows."""


def read_sample(path: str | Path, rows: int, *, format: Format | None = None) -> Sample:
    """At most `rows` rows. Text formats give text, the others their own types. Raises InputError.

    The ending of the name says the format, unless the caller does.
    """
    path = Path(path)
    with closing(open_reader(path, [], batch_rows=rows, format=format)):
        pass  # it is there, and its ending is known
    names = _column_names(path, rows, format)
    if not names:
        raise InputError(f"{path} has no columns")
    batches: list[pa.RecordBatch] = []
    left = rows
    with closing(open_reader(path, names, batch_rows=rows, format=format)) as reader:
        for batch in reader:
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if left <= 0:
                break
        malformed = reader.malformed
    if left == rows:
        lines = f": {malformed:,} lines cannot be read" if malformed else ""
        raise NoRowsError(f"{path} has no rows to look at{lines}", unread=malformed)
    return Sample(pa.Table.from_batches(batches), malformed)


def _column_names(path: Path, rows: int, format: Format | None) -> list[str]:
    name = path.name.lower().removesuffix(".gz") if format is None else f".{format}"
    try:
        if name.endswith(".csv"):
            return _header(path, next(_lines(path), ""))
        if name.endswith((".jsonl", ".ndjson")):
            return list(dict.fromkeys(key for line in islice(_lines(path), rows) for key in _keys(line)))
    except (OSError, EOFError, csv.Error) as exc:
        raise InputError(f"{path} cannot be read: it is damaged") from exc
    with closing(open_reader(path, [], format=format)) as reader:
        return list(getattr(reader, "names", []))


def _header(path: Path, line: str) -> list[str]:
    names = next(csv.reader([line]), [])
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other is not None:
        raise InputError(f"{path} seems to be separated by {other!r}: only commas are read")
    return names


def _lines(path: Path) -> Iterator[str]:
    """The lines that are not empty, as text; a byte that is not UTF-8 is replaced."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        while line := file.readline(_LONGEST_LINE):
            if line.strip("\r\n"):
                yield line.rstrip("\r\n")


def _keys(line: str) -> list[str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return list(row) if isinstance(row, dict) else []
