"""A folder with a small stream and its schema, and a way to run commands in this process."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv
import pytest

from castleguard.cli import main
from castleguard.testing.streams import visits, visits_schema_text

AGES = """\
source: {type: csv, path: in.csv}
schema:
  person: pid
  quasi_identifiers:
    - {name: age, lower: 0, upper: 100, step: 5}"""
"""The source and the schema of a job that publishes ages."""


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a command line; afterwards signals are handled as before."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), shown.out, shown.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """visits.csv with 800 rows and a malformed line, and schema.yaml."""
    table = pa.concat_tables(visits(800, seed=3, flaws=0.05))
    pyarrow.csv.write_csv(table, tmp_path / "visits.csv")
    with open(tmp_path / "visits.csv", "a", encoding="utf-8") as file:
        file.write("one,bad,line\n")
    (tmp_path / "schema.yaml").write_text(visits_schema_text(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def anonymise(run: Run, folder: Path) -> Run:
    """Run `castleguard anonymise` on the small stream, with more arguments or other ones."""

    def anonymise(*more: str | Path, input: str = "visits.csv", output: str = "out.csv") -> Outcome:
        options = ["--schema", folder / "schema.yaml", "--k", "5", "--l", "2", "--delay", "100", *more]
        return run("anonymise", folder / input, "-o", folder / output, *options)

    return anonymise
