"""The files that `castleguard audit` looks at: whole tables, and a folder of parts in the order of their numbers."""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from castleguard.connectors.formats import Format, open_reader
from castleguard.connectors.listing import list_files
from castleguard.connectors.sample import read_sample
from castleguard.errors import ConfigError, InputError

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
        raise InputError(f"{path} has no rows to look at")
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")


def read_published(path: Path) -> pa.Table:
    """All columns of a file, or of the parts of a folder one after the other: also those that nobody declared."""
    if not path.is_dir():
        return read_sample(path, _ALL).rows
    files = list_files(path)
    tables = []
    for name in sorted(files.names(), key=_number):
        try:
            tables.append(read_sample(files.path(name), _ALL).rows)
        except InputError as exc:
            if "has no rows" not in str(exc):  # a part may be empty: nothing was ready
                raise
    if not tables:
        raise InputError(f"{path} has no rows to look at")
    return pa.concat_tables(tables, promote_options="default")


def files_of(job: "JobFile") -> tuple[Path, Format, Path]:
    """Where a job reads and writes, and the format of what it reads. Raises ConfigError if these are not files."""
    if job.sites is not None:
        raise ConfigError(
            f"{job.where('sites')}  sites write one file each, and publish together: put the files of all sites "
            f"together, the published and the original ones, and audit those"
        )
    for place, endpoint in (("source", job.source), ("sink", job.sink)):
        if endpoint.type not in _FILES:
            raise ConfigError(
                f"{job.where(place)}  {place}.type {endpoint.type} is no file: an audit reads files, "
                f"`castleguard audit ORIGINAL PUBLISHED`"
            )
    format = next(known for known in _FILES if known == job.source.type)
    return job.source.options.path, format, job.sink.options.path


def _number(name: str) -> tuple[int, str]:
    found = _PART.match(name)
    return int(found[1]) if found else 0, name
