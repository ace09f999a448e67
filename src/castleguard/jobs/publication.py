"""The files that `castleguard audit` looks at: whole tables, and a folder of parts in the order of their numbers."""

import gzip
import json
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from castleguard.connectors.file_sample import Sample, read_sample
from castleguard.connectors.formats import Format, format_of, open_reader
from castleguard.connectors.formulas import unescape_table
from castleguard.connectors.listing import MANIFEST, list_files
from castleguard.errors import ConfigError, InputError, Mistake, NoRowsError

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile

_ALL = 1 << 30  # rows
_PART = re.compile(r"part-(\d+)\.")
_FILES: tuple[Format, ...] = ("csv", "jsonl", "parquet", "arrow")


def read_original(path: Path, columns: Sequence[str], *, format: Format | None = None) -> pa.Table:
    """The declared columns of a file, or of all files of a folder or pattern in the order of their names."""
    files = list_files(path)
    batches: list[pa.RecordBatch] = []
    for name in files.names():
        with closing(open_reader(files.path(name), columns, format=format)) as reader:
            batches.extend(reader)
    if not batches:
        raise NoRowsError(f"{path} has no rows to look at")
    return _joined([pa.Table.from_batches([batch]) for batch in batches])


class Published(NamedTuple):
    """A published file, or a folder of parts."""

    rows: pa.Table
    unread_lines: int
    """Lines that are no rows, or say one thing twice."""
    unread_files: int
    """Files of the folder that are none of its parts."""


def read_published(path: Path, formulas: str | None = None) -> Published:
    """All columns of a file, or of the parts of a folder one after the other: also those that nobody declared.

    `formulas` says how CSV was written, "escape" by default: that is undone.
    """
    escaped = formulas in (None, "escape")
    if not path.is_dir():
        found = _read(path, escaped=escaped)
        return Published(_joined([found.rows]), found.malformed + _repeating_lines(path), 0)
    spark = _spark_folder(path)
    if spark is not None:
        return _read_spark(spark, escaped=escaped)
    files = list_files(path)
    tables, lines = [], 0
    names = sorted(files.names(), key=_number)
    for name in names:
        try:
            found = _read(files.path(name), escaped=escaped)
        except NoRowsError as exc:
            if exc.unread:
                raise
            continue  # a part may be empty: nothing was ready
        tables.append(found.rows)
        lines += found.malformed + _repeating_lines(files.path(name))
    if not tables:
        raise NoRowsError(f"{path} has no rows to look at")
    others = sum(each.is_file() and each != path / MANIFEST for each in path.rglob("*")) - len(names)
    return Published(_joined(tables), lines, max(others, 0))


def _read(path: Path, *, escaped: bool, format: Format | None = None) -> Sample:
    """All rows of a file, with formulas as they were before they were escaped."""
    found = read_sample(path, _ALL, format=format)
    if escaped and (format or format_of(path, InputError)) == "csv":
        found = found._replace(rows=unescape_table(found.rows))
    return found


def _spark_folder(path: Path) -> Path | None:
    """The folder that Spark has written, if this is one, or the part of one that holds the published rows."""
    from castleguard.spark.committed import DONE, LOG, OUTCOME

    folder = path.parent if path.name.startswith(f"{OUTCOME}=") else path
    return folder if (folder / LOG).is_dir() or (folder / DONE).is_file() else None


def _read_spark(folder: Path, *, escaped: bool) -> Published:
    """What Spark has committed. Columns that are there for rejects and books are left out where they say nothing."""
    from castleguard.spark.committed import OUTCOME, PUBLISHED, committed
    from castleguard.spark.output import OWN

    tables, lines = [], 0
    files = committed(folder)
    for path in files:
        ending = path.name.lower().removesuffix(".gz")
        found = _read(path, escaped=escaped, format="jsonl" if ending.endswith(".json") else None)
        empty = [name for name in OWN if name in found.rows.column_names and _says_nothing(found.rows.column(name))]
        tables.append(found.rows.drop_columns(empty))
        lines += found.malformed
    if not tables:
        raise NoRowsError(f"{folder} has no rows to look at")
    there = [each for each in (folder / f"{OUTCOME}={PUBLISHED}").iterdir() if not each.name.startswith(".")]
    return Published(_joined(tables), lines, len(there) - len(files))


def _says_nothing(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column))


def _repeating_lines(path: Path) -> int:
    """Lines of JSON that give a name twice: a reader takes one of the values, and the other one stands there too."""
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((".jsonl", ".ndjson")):
        return 0
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    found = 0

    def look(pairs: list[tuple[str, object]]) -> int:
        nonlocal found
        found += len({name for name, _ in pairs}) < len(pairs)
        return 0

    with opener(path, "rt", encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            with suppress(ValueError, RecursionError):  # what is no JSON is counted elsewhere
                json.loads(line, object_pairs_hook=look)
    return found


def _joined(tables: list[pa.Table]) -> pa.Table:
    """One table, whose columns have the widest type of their parts, and no views, which few functions take."""
    table = pa.concat_tables(tables, promote_options="permissive")
    for number, field in enumerate(table.schema):
        if field.type == pa.string_view():
            table = table.set_column(number, field.name, table.column(number).cast(pa.string()))
    return table


def files_of(job: "JobFile") -> tuple[Path, Format, Path]:
    """Where a job reads and writes, and the format of what it reads. Raises ConfigError if these are not files."""
    if job.sites is not None:
        why = (
            "write one file each, and publish together: put the files of all sites together, the published and the "
            "original ones, and audit those"
        )
        raise ConfigError(Mistake(why, where=job.where("sites"), key="sites"))
    for place, endpoint in (("source", job.source), ("sink", job.sink)):
        if endpoint.type not in _FILES:
            why = f"{endpoint.type} is no file: an audit reads files, `castleguard audit ORIGINAL PUBLISHED`"
            raise ConfigError(Mistake(why, where=job.where(place), key=f"{place}.type"))
    format = next(known for known in _FILES if known == job.source.type)
    return job.source.options.path, format, job.sink.options.path


def _number(name: str) -> tuple[int, str]:
    found = _PART.match(name)
    return int(found[1]) if found else 0, name
