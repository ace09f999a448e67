"""A job file proposed from a sample of the data, with every guess marked as one."""

import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castleguard.config.document import parse_document
from castleguard.errors import OutputError
from castleguard.jobs.propose.data import Data, sample_data
from castleguard.jobs.propose.doubts import Doubts, find_doubts
from castleguard.jobs.propose.guesses import Guess, guess_roles
from castleguard.jobs.propose.job_text import proposal

SAMPLE_ROWS = 10_000


@dataclass(frozen=True, kw_only=True, repr=False)
class Proposal:
    """A proposed job. `str()` is the text of the job file.

    Labels and bounds in it come from the data: keep it as you keep the data, until you have replaced them. Its `repr`
    shows numbers only.
    """

    guesses: tuple[Guess, ...]
    """Role, reason and domain of every column, in the order of the data."""
    doubts: Doubts
    data: Data

    @property
    def rows(self) -> int:
        """How many rows were looked at."""
        return int(self.data.table.num_rows)

    @property
    def malformed(self) -> int:
        """Lines of the file that are no rows."""
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
        """The job file, for the folder that it will be in: paths in it are relative to that."""
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
        """The same for programs. It holds labels and bounds from the data."""
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
    found = sample_data(data, rows)
    guesses = guess_roles(found.table)
    doubts = find_doubts(found.table, guesses, csv=found.type == "csv")
    return Proposal(guesses=tuple(guesses), doubts=doubts, data=found)


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file unless that is asked for."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists already: choose another name, or replace it with --overwrite")


def _plain(value: Any) -> Any:
    """A value of a YAML file as JSON can hold it: dates as text."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, dt.date) else value
