"""Books of all shards together, read from the output without Spark."""

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
"""Maximum number of files to read, the newest first: they hold the latest books of every active shard."""


class Found(NamedTuple):
    """Books found in an output folder."""

    report: Books
    whole: bool
    """Whether they certainly include every shard; an inactive one may have its books in older files."""


def books_of(folder: Path, format: Format, shards: int) -> Found | None:
    """Return the total of the latest books of every shard; None if the output has none."""
    latest: dict[int, dict[str, Any]] = {}
    files = committed(folder, COUNTS)
    for path in list(reversed(files))[:MOST_FILES]:
        for row in _read(path, format, [SHARD, DETAIL]):
            shard, books = int(row[SHARD]), json.loads(row[DETAIL])
            if shard not in latest or _age(books) >= _age(latest[shard]):
                latest[shard] = books
        if len(latest) == shards:
            break  # older files have older books
    whole = len(latest) == shards or len(files) <= MOST_FILES
    return Found(total_books(latest.values()), whole) if latest else None


def malformed_in(folder: Path, format: Format) -> int:
    """Return the number of malformed lines."""
    found = (row for path in committed(folder, REJECTED) for row in _read(path, format, [DETAIL]))
    return sum(row[DETAIL].startswith(MALFORMED) for row in found)


def total_books(books: Iterable[dict[str, Any]]) -> Books:
    """Add the books of several shards. Rows that wait for the keys of their shard to be stored count as pending."""
    return Books.total(_load(one) for one in books)


def _load(one: dict[str, Any]) -> Books:
    return Books.load({**one, "rows_in": one["rows_in"] + one["waiting"], "pending": one["pending"] + one["waiting"]})


def _age(books: dict[str, Any]) -> tuple[float, int]:
    """Sort key of books: by time, then by fewer pending rows, because a flush comes last."""
    return float(books["now"]), -int(books["pending"] + books["waiting"])


def _read(path: Path, format: Format, columns: list[str]) -> Iterator[dict[str, Any]]:
    reader = open_reader(path, columns, format=format)
    try:
        for batch in reader:
            yield from batch.to_pylist()
    finally:
        reader.close()
