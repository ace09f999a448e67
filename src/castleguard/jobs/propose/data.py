"""Where a sample comes from: a file, the first file of a folder or pattern, or a frame."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from castleguard.connectors.file_sample import read_sample
from castleguard.connectors.formats import ENDINGS, known_format
from castleguard.connectors.listing import list_files
from castleguard.errors import InputError, NoRowsError
from castleguard.jobs.propose.job_text import Subject
from castleguard.schema.table import to_table

_IN_MEMORY = "rows.parquet"


@dataclass(frozen=True, kw_only=True, repr=False)
class Data:
    """A sample, and what the job is to read."""

    table: pa.Table
    malformed: int = 0
    """Lines that are no rows."""
    name: str = _IN_MEMORY
    type: str = "parquet"
    source: Path | None = None
    """A file, a folder or a pattern; None: the rows were given in memory."""
    first: str = ""
    """The file that was looked at, if there may be several."""

    def seen_from(self, folder: Path) -> Subject:
        """What was looked at, for a job file in this folder."""
        path = _IN_MEMORY if self.source is None else os.path.relpath(self.source, folder)
        return Subject(self.name, path, self.type, self.table.num_rows, self.first, self.source is None)


def sample_data(data: object, rows: int) -> Data:
    """The first rows of a file, a folder, a pattern or a frame. Raises InputError, SchemaError."""
    if not isinstance(data, str | os.PathLike):
        table = to_table(data).slice(0, rows)
        if not table.num_rows or not table.num_columns:
            raise NoRowsError("there are no rows to look at")
        return Data(table=table)
    path = Path(data)
    file, source = _find(path)
    table, malformed = read_sample(file, rows)
    kind = known_format(file.name)
    assert kind is not None  # it could be read
    return Data(
        table=table,
        malformed=malformed,
        name=path.name or path.resolve().name,
        type=kind,
        source=source,
        first="" if file == path else file.name,
    )


def _find(data: Path) -> tuple[Path, Path]:
    """The file to look at, and what the job is to read: `data`, or a pattern in it if it holds files of other types."""
    if data.is_file():
        return data, data
    listing = list_files(data)
    names = listing.names()
    known = [name for name in names if known_format(name) is not None]
    if not known:
        raise InputError(f"{data} holds no file to look at: a name has to end in one of {', '.join(ENDINGS)}")
    alike = all(known_format(name) == known_format(known[0]) for name in names)
    ending = "".join(Path(known[0]).suffixes[-2:]) if known[0].lower().endswith(".gz") else Path(known[0]).suffix
    return listing.path(known[0]), data if alike or not data.is_dir() else Path(glob.escape(str(data))) / f"*{ending}"
