"""`castleguard init DATA`: a job file proposed from a sample of the data, with every guess marked as one."""

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.errors import InputError, OutputError

if TYPE_CHECKING:
    from castleguard.jobs.propose.guesses import Guess

SAMPLE_ROWS = 10_000

_TYPES = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

_HEADLESS = (
    "castleguard: the first line of the file looks like a row and not like the names of columns: if it is one, put a "
    "line of names before it, delete the job file, which holds its values, and begin again"
)
_LINES = "look at their number of values, their quotes and their encoding, which must be UTF-8"


@click.command(short_help="Propose a job file for a file or folder of data.")
@click.argument("data", type=click.Path(path_type=Path), metavar="DATA")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("job.yaml"),
    show_default=True,
    metavar="JOB",
    help="The job file to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace JOB if it exists.")
def init(data: Path, output: Path, overwrite: bool) -> None:
    """Look at the first 10,000 rows of DATA and write a job file in which every role, domain and parameter is a guess.

    DATA is a file, a folder, or a pattern such as 'trips/*.csv' (in quotes, so that the shell leaves it alone). Of
    several files the first one by name is looked at, and the job reads all of them.

    Nobody but you knows what a column means and what is public about it. The file is refused by every other command
    until `confirmed: false` in it is set to true or deleted. Labels and bounds in it come from the data: keep it as you
    keep the data, until you have replaced them.
    """
    if output.exists() and not overwrite:
        raise OutputError(f"{output} exists already: choose another name, or replace it with --overwrite")

    from castleguard.connectors.sample import read_sample
    from castleguard.jobs.propose.doubts import find_doubts
    from castleguard.jobs.propose.guesses import guess_roles
    from castleguard.jobs.propose.job_text import Subject, proposal

    file, source = _find(data)
    table, malformed = read_sample(file, SAMPLE_ROWS)
    guesses = guess_roles(table)
    kind = _type_of(file.name)
    assert kind is not None  # it could be read
    name = data.name or data.resolve().name
    first = "" if file == data else file.name
    subject = Subject(name, os.path.relpath(source, output.parent), kind, table.num_rows, first)
    doubts = find_doubts(table, guesses, csv=kind == "csv")
    _write(output, proposal(subject, guesses, doubts))
    if doubts.headless:
        click.echo(_HEADLESS, err=True)
    if malformed:
        lines = "1 line is no row, and was" if malformed == 1 else f"{malformed:,} lines are no rows, and were"
        click.echo(f"castleguard: {lines} left out: {_LINES}", err=True)
    click.echo(_summary(output, guesses, table.num_rows, named=not doubts.headless))


def _find(data: Path) -> tuple[Path, Path]:
    """The file to look at, and what the job is to read: DATA, or a pattern in it if it holds files of other types."""
    from castleguard.connectors.listing import list_files

    if data.is_file():
        return data, data
    listing = list_files(data)
    names = listing.names()
    known = [name for name in names if _type_of(name) is not None]
    if not known:
        raise InputError(f"{data} holds no file to look at: a name has to end in one of {', '.join(_TYPES)}")
    alike = all(_type_of(name) == _type_of(known[0]) for name in names)
    ending = "".join(Path(known[0]).suffixes[-2:]) if known[0].lower().endswith(".gz") else Path(known[0]).suffix
    return listing.path(known[0]), data if alike or not data.is_dir() else Path(glob.escape(str(data))) / f"*{ending}"


def _type_of(name: str) -> str | None:
    """The format that the ending of a name stands for."""
    name = name.lower()
    return next((_TYPES[ending] for ending in sorted(_TYPES, key=len, reverse=True) if name.endswith(ending)), None)


def _write(output: Path, text: str) -> None:
    """For its owner alone: what is in it was taken from data."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise OutputError(f"{output} cannot be written: {exc.strerror}") from exc


def _summary(output: Path, guesses: "list[Guess]", rows: int, *, named: bool) -> str:
    """With `named`, the columns by their names; or else only how many there are."""
    roles = [guess.role for guess in guesses]
    lines = [f"{output}: guesses from {rows:,} rows and {len(roles)} columns"]
    for role in ("person", "quasi-identifier", "sensitive", "dropped"):
        names = [guess.column for guess in guesses if guess.role == role]
        lines.append(f"  {role:<17} {', '.join(names) if names and named else len(names) or '-'}")
    lines += [
        "",
        "Look at every line marked GUESS, correct it, and set `confirmed: true`. Then:",
        f"  castleguard validate {output}",
    ]
    return "\n".join(lines)
