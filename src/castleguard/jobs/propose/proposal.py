"""Job file proposed from a sample of the data, with every guess marked."""

import datetime as dt
import glob
import os
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from castleguard.config.document import parse_document
from castleguard.connectors.csv_detect import detect_csv
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.file_sample import all_columns, no_rows
from castleguard.connectors.formats import ENDINGS, format_of, known_format, open_reader
from castleguard.connectors.listing import list_files
from castleguard.errors import InputError, NoRowsError, OutputError, SchemaError
from castleguard.jobs.propose.doubts import Doubts, find_doubts
from castleguard.jobs.propose.guesses import Guess, guess_roles
from castleguard.jobs.propose.job_text import Subject, proposal
from castleguard.jobs.propose.persons import Candidate, find_candidates
from castleguard.jobs.propose.profile import profile_column
from castleguard.jobs.propose.survey import SAMPLE_ROWS, Survey, survey
from castleguard.schema.table import to_table

_IN_MEMORY = "rows.parquet"


@dataclass(frozen=True, kw_only=True, repr=False)
class Data:
    """A sample, and the source that the job will read."""

    found: Survey
    malformed: int = 0
    """Number of malformed lines."""
    name: str = _IN_MEMORY
    type: str = "parquet"
    source: Path | None = None
    """A file, a folder or a pattern; None for rows in memory."""
    csv: CsvInput = PLAIN
    """How the file is written, if it is CSV."""
    first: str = ""
    """The sampled file, if the source may have several."""

    def seen_from(self, folder: Path) -> Subject:
        """The sampled source, as seen from a job file in this folder."""
        path = _IN_MEMORY if self.source is None else os.path.relpath(self.source, folder)
        found = self.found
        return Subject(
            name=self.name,
            path=path,
            type=self.type,
            rows=found.rows,
            whole=found.whole,
            csv=self.csv,
            first=self.first,
            in_memory=self.source is None,
        )


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
        """Number of rows read."""
        return self.data.found.rows

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

    @property
    def is_open(self) -> bool:
        """Whether someone has to choose the person."""
        return not self.doubts.alone and not any(guess.role == "person" for guess in self.guesses)

    def with_person(self, column: str | None) -> "Proposal":
        """The proposal with a person that someone has chosen; None: every row is a person of its own.

        Raises SchemaError for a column that the data does not have.
        """
        chosen = []
        if column is not None:
            if column not in self.data.found.repeats:
                raise SchemaError(f"the data has no column {column!r}")
            repeats = self.data.found.repeats[column]
            chosen = [Candidate(column, 2, repeats.distinct, repeats.each)]
        found = _guessed(self.data, chosen)
        return replace(found, doubts=found.doubts._replace(alone=column is None))

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
            "doubts": {**self.doubts._asdict(), "persons": [each._asdict() for each in self.doubts.persons]},
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Proposal({len(self.guesses)} columns, {self.rows:,} rows)"


def propose(data: object, *, rows: int = SAMPLE_ROWS) -> Proposal:
    """Propose a job from `data`: a file, a folder, a pattern such as "trips/*.csv", or a frame.

    All rows are read once, at most five million; roles and domains are guessed from a sample of `rows` rows of them.
    Every role, domain and parameter is a guess. Raises InputError or SchemaError if the data cannot be read.

    >>> trips = [{"rider_id": n % 30, "age": 18 + n % 50, "fare": n % 7 * 2.5} for n in range(300)]
    >>> proposal = propose(trips)
    >>> [(guess.column, guess.role) for guess in proposal.guesses]
    [('rider_id', 'person'), ('age', 'quasi-identifier'), ('fare', 'quasi-identifier')]
    >>> proposal.schema["quasi_identifiers"][0]
    {'name': 'age', 'lower': 0, 'upper': 120, 'step': 5}
    """
    read = _read(data, rows)
    sample = read.found.sample
    profiles = [profile_column(name, sample[name]) for name in sample.column_names if name]
    return _guessed(read, find_candidates(profiles, read.found.repeats, read.found.rows))


def _guessed(read: Data, candidates: list[Candidate]) -> Proposal:
    """The proposal with the first of the candidates as the person, if it has a rank."""
    guesses = guess_roles(read.found.sample, candidates, read.found.repeats)
    doubts = find_doubts(read.found, guesses, candidates, csv=read.type == "csv" and read.csv.header is True)
    return Proposal(guesses=tuple(guesses), doubts=doubts, data=read)


def _read(data: object, rows: int) -> Data:
    """A file, a folder, a pattern or a frame, read once. Raises InputError, SchemaError."""
    if not isinstance(data, str | os.PathLike):
        table = to_table(data)
        if not table.num_rows or not table.num_columns:
            raise NoRowsError("the table has no rows or no columns")
        return Data(found=survey([table], table.schema, sample=rows))
    path = Path(data)
    file, source = _find(path)
    kind = format_of(file, InputError)
    csv = detect_csv(file) if kind == "csv" and file.exists() else PLAIN
    names = all_columns(file, rows, csv=csv)
    with closing(open_reader(file, names, csv=csv)) as reader:
        found = survey(reader, pa.schema([(name, pa.string()) for name in names]), sample=rows)
        malformed = reader.malformed
    if not found.rows:
        raise no_rows(file, malformed)
    return Data(
        found=found,
        malformed=malformed,
        name=path.name or path.resolve().name,
        type=kind,
        source=source,
        csv=csv,
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
