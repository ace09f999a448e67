"""The books of all shards together, from what is in the output: no Spark is needed to read them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from castleguard.books import Books
from castleguard.connectors.formats import Format, open_reader
from castleguard.spark.committed import committed
from castleguard.spark.output import COUNTS, DETAIL, REJECTED, SHARD
from castleguard.spark.reading import MALFORMED

MOST_FILES = 2000
"""How many files of books are looked at: the newest have the latest books of every shard, unless one is silent."""


class Found(NamedTuple):
    """What was found."""

    report: Books
    whole: bool
    """Whether there can be no shard whose books lie further back than anybody looked."""


def books_of(folder: Path, format: Format, shards: int) -> Found | None:
    """The latest books of every shard, added up; None if there are none."""
    latest: dict[int, dict[str, Any]] = {}
    files = committed(folder, COUNTS)
    for path in list(reversed(files))[:MOST_FILES]:
        for row in _read(path, format, [SHARD, DETAIL]):
            shard, books = int(row[SHARD]), json.loads(row[DETAIL])
            if shard not in latest or _age(books) >= _age(latest[shard]):
                latest[shard] = books
        if len(latest) == shards:
            break  # a file that was committed earlier has earlier books
    whole = len(latest) == shards or len(files) <= MOST_FILES
    return Found(added(latest.values()), whole) if latest else None


def malformed_in(folder: Path, format: Format) -> int:
    """Lines that were no rows."""
    found = (row for path in committed(folder, REJECTED) for row in _read(path, format, [DETAIL]))
    return sum(row[DETAIL].startswith(MALFORMED) for row in found)


def added(books: Iterable[dict[str, Any]]) -> Books:
    """Books of several shards as those of one. Rows that wait for their shard's first keys are pending."""
    return Books.total(_load(one) for one in books)


def _load(one: dict[str, Any]) -> Books:
    return Books.load({**one, "rows_in": one["rows_in"] + one["waiting"], "pending": one["pending"] + one["waiting"]})


def _age(books: dict[str, Any]) -> tuple[float, int]:
    """Later books have a later time, and at the same time fewer rows that are pending: a flush comes last."""
    return float(books["now"]), -int(books["pending"] + books["waiting"])


def _read(path: Path, format: Format, columns: list[str]) -> Iterator[dict[str, Any]]:
    reader = open_reader(path, columns, format=format)
    try:
        for batch in reader:
            yield from batch.to_pylist()
    finally:
        reader.close()
