"""Job file proposed from a sample of the data, with every guess marked."""

import datetime as dt
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from castleguard.config.document import parse_document
from castleguard.connectors.file_sample import read_sample
from castleguard.connectors.formats import ENDINGS, known_format
from castleguard.connectors.listing import list_files
from castleguard.errors import InputError, NoRowsError, OutputError
from castleguard.jobs.propose.doubts import Doubts, find_doubts
from castleguard.jobs.propose.guesses import Guess, guess_roles
from castleguard.jobs.propose.job_text import Subject, proposal
from castleguard.schema.table import to_table

SAMPLE_ROWS = 10_000

_IN_MEMORY = "rows.parquet"


@dataclass(frozen=True, kw_only=True, repr=False)
class Data:
    """A sample, and the source that the job will read."""

    table: pa.Table
    malformed: int = 0
    """Number of malformed lines."""
    name: str = _IN_MEMORY
    type: str = "parquet"
    source: Path | None = None
    """A file, a folder or a pattern; None for rows in memory."""
    first: str = ""
    """The sampled file, if the source may have several."""

    def seen_from(self, folder: Path) -> Subject:
        """The sampled source, as seen from a job file in this folder."""
        path = _IN_MEMORY if self.source is None else os.path.relpath(self.source, folder)
        return Subject(self.name, path, self.type, self.table.num_rows, self.first, self.source is None)


@dataclass(frozen=True, kw_only=True, repr=False)
class Proposal:
    """A proposed job. `str()` is the text of the job file.

    Its labels and bounds come from the data: protect it like the data until you have replaced them. Its `repr` shows
    numbers only.
    """

    guesses: tuple[Guess, ...]
    """Role, reason and domain of every column, in the order of the data."""
    doubts: Doubts
    data: Data

    @property
    def rows(self) -> int:
        """Number of sampled rows."""
        return int(self.data.table.num_rows)

    @property
    def malformed(self) -> int:
        """Number of malformed lines."""
        return self.data.malformed

    @property
    def text(self) -> str:
        """The job file, for the working folder."""
        return self.text_in(".")

    @property
    def schema(self) -> dict[str, Any]:
        """The schema section of the job file, as a mapping for `load_schema`."""
        job = parse_document(self.text, Path("job.yaml")).data
        assert isinstance(job, dict)
        schema: dict[str, Any] = job["schema"]
        return schema

    def text_in(self, folder: str | Path) -> str:
        """The job file for this folder: its paths are relative to the folder."""
        return proposal(self.data.seen_from(Path(folder)), list(self.guesses), self.doubts)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the job file, readable by its owner alone. Raises OutputError."""
        path = Path(path)
        check_new(path, overwrite=overwrite)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(self.text_in(path.parent))
        except OSError as exc:
            raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc

    def as_json(self) -> dict[str, Any]:
        """The proposal for JSON. It contains labels and bounds from the data."""
        return {
            "job": self.text,
            "schema": _plain(self.schema),
            "rows": self.rows,
            "malformed": self.malformed,
            "guesses": [
                {**guess._asdict(), "domain": None if guess.domain is None else guess.domain._asdict()}
                for guess in self.guesses
            ],
            "doubts": self.doubts._asdict(),
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Proposal({len(self.guesses)} columns, {self.rows:,} rows)"


def propose(data: object, *, rows: int = SAMPLE_ROWS) -> Proposal:
    """Propose a job from the first rows of `data`: a file, a folder, a pattern such as "trips/*.csv", or a frame.

    Every role, domain and parameter is a guess. Raises InputError or SchemaError if the data cannot be read.

    >>> trips = [{"rider_id": n % 30, "age": 18 + n % 50, "fare": n % 7 * 2.5} for n in range(300)]
    >>> proposal = propose(trips)
    >>> [(guess.column, guess.role) for guess in proposal.guesses]
    [('rider_id', 'person'), ('age', 'quasi-identifier'), ('fare', 'quasi-identifier')]
    >>> proposal.schema["quasi_identifiers"][0]
    {'name': 'age', 'lower': 0, 'upper': 120, 'step': 5}
    """
    found = _sample(data, rows)
    guesses = guess_roles(found.table)
    doubts = find_doubts(found.table, guesses, csv=found.type == "csv")
    return Proposal(guesses=tuple(guesses), doubts=doubts, data=found)


def _sample(data: object, rows: int) -> Data:
    """The first rows of a file, a folder, a pattern or a frame. Raises InputError, SchemaError."""
    if not isinstance(data, str | os.PathLike):
        table = to_table(data).slice(0, rows)
        if not table.num_rows or not table.num_columns:
            raise NoRowsError("the table has no rows or no columns")
        return Data(table=table)
    path = Path(data)
    file, source = _find(path)
    table, malformed = read_sample(file, rows)
    kind = known_format(file.name)
    assert kind is not None  # read_sample has read it
    return Data(
        table=table,
        malformed=malformed,
        name=path.name or path.resolve().name,
        type=kind,
        source=source,
        first="" if file == path else file.name,
    )


def _find(data: Path) -> tuple[Path, Path]:
    """The file to sample, and the source of the job: `data`, or a pattern if the folder also holds other file types."""
    if data.is_file():
        return data, data
    listing = list_files(data)
    names = listing.names()
    known = [name for name in names if known_format(name) is not None]
    if not known:
        raise InputError(f"{data} has no data file: file names must end in one of {', '.join(ENDINGS)}")
    alike = all(known_format(name) == known_format(known[0]) for name in names)
    ending = "".join(Path(known[0]).suffixes[-2:]) if known[0].lower().endswith(".gz") else Path(known[0]).suffix
    return listing.path(known[0]), data if alike or not data.is_dir() else Path(glob.escape(str(data))) / f"*{ending}"


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file without `overwrite`."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path} already exists: choose another name, or replace it with --overwrite")


def _plain(value: Any) -> Any:
    """A YAML value for JSON: dates become text."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, dt.date) else value
