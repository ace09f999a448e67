"""Reads original and published files for an audit: single files, folders of parts, and Spark output."""

import gzip
import json
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from castleguard.connectors.csv_input import PLAIN, CsvInput
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


def read_original(
    path: Path, columns: Sequence[str], *, format: Format | None = None, csv: CsvInput = PLAIN
) -> pa.Table:
    """The declared columns of a file, or of all files of a folder or pattern, sorted by name."""
    files = list_files(path)
    batches: list[pa.RecordBatch] = []
    for name in files.names():
        with closing(open_reader(files.path(name), columns, format=format, csv=csv)) as reader:
            batches.extend(reader)
    if not batches:
        raise NoRowsError(f"{path} has no rows")
    return _joined([pa.Table.from_batches([batch]) for batch in batches])


class Published(NamedTuple):
    """A published file, or a folder of parts."""

    rows: pa.Table
    unread_lines: int
    """Lines that are malformed, or repeat a key."""
    unread_files: int
    """Files in the folder that are not parts."""


def read_published(path: Path, formulas: str | None = None) -> Published:
    """All columns of a file, or of the parts of a folder in order, undeclared columns included.

    `formulas` is the option that CSV was written with, "escape" by default; escaping is undone.
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
            continue  # a part may be empty
        tables.append(found.rows)
        lines += found.malformed + _repeating_lines(files.path(name))
    if not tables:
        raise NoRowsError(f"{path} has no rows")
    others = sum(each.is_file() and each != path / MANIFEST for each in path.rglob("*")) - len(names)
    return Published(_joined(tables), lines, max(others, 0))


def _read(path: Path, *, escaped: bool, format: Format | None = None) -> Sample:
    """All rows of a file, with escaped formulas restored."""
    found = read_sample(path, _ALL, format=format)
    if escaped and (format or format_of(path, InputError)) == "csv":
        found = found._replace(rows=unescape_table(found.rows))
    return found


def _spark_folder(path: Path) -> Path | None:
    """The Spark output folder at or above `path`; None if there is none."""
    from castleguard.spark.committed import DONE, LOG, OUTCOME

    folder = path.parent if path.name.startswith(f"{OUTCOME}=") else path
    return folder if (folder / LOG).is_dir() or (folder / DONE).is_file() else None


def _read_spark(folder: Path, *, escaped: bool) -> Published:
    """The files that Spark has committed, without the empty columns for rejects and books."""
    from castleguard.spark.committed import OUTCOME, PUBLISHED, committed
    from castleguard.spark.output import OWN

    tables, lines = [], 0
    files = committed(folder)
    for path in files:
        ending = path.name.lower().removesuffix(".gz")
        found = _read(path, escaped=escaped, format="jsonl" if ending.endswith(".json") else None)
        empty = [name for name in OWN if name in found.rows.column_names and _is_empty(found.rows.column(name))]
        tables.append(found.rows.drop_columns(empty))
        lines += found.malformed
    if not tables:
        raise NoRowsError(f"{folder} has no rows")
    there = [each for each in (folder / f"{OUTCOME}={PUBLISHED}").iterdir() if not each.name.startswith(".")]
    return Published(_joined(tables), lines, len(there) - len(files))


def _is_empty(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count == len(column))


def _repeating_lines(path: Path) -> int:
    """Number of JSON lines that repeat a key: a reader takes one of the values, but the file contains both."""
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
            with suppress(ValueError, RecursionError):  # invalid JSON is counted elsewhere
                json.loads(line, object_pairs_hook=look)
    return found


def _joined(tables: list[pa.Table]) -> pa.Table:
    """One table, with the widest type of each column, and without string views, which few functions support."""
    table = pa.concat_tables(tables, promote_options="permissive")
    for number, field in enumerate(table.schema):
        if field.type == pa.string_view():
            table = table.set_column(number, field.name, table.column(number).cast(pa.string()))
    return table


def files_of(job: "JobFile") -> tuple[Path, Format, Path]:
    """Source path, source format and sink path of a job. Raises ConfigError if they are not files."""
    if job.sites is not None:
        why = (
            "publish together, so one site cannot be audited alone: combine the original and the published files of "
            "all sites, and audit those"
        )
        raise ConfigError(Mistake(why, where=job.where("sites"), key="sites"))
    for place, endpoint in (("source", job.source), ("sink", job.sink)):
        if endpoint.type not in _FILES:
            why = f"{endpoint.type} is not a file: export both to files and run `castleguard audit ORIGINAL PUBLISHED`"
            raise ConfigError(Mistake(why, where=job.where(place), key=f"{place}.type"))
    format = next(known for known in _FILES if known == job.source.type)
    return job.source.options.path, format, job.sink.options.path


def _number(name: str) -> tuple[int, str]:
    found = _PART.match(name)
    return int(found[1]) if found else 0, name
