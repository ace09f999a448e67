"""`castleguard init DATA`: a job file proposed from a sample of the data, with every guess marked as one."""

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.errors import InputError, OutputError

if TYPE_CHECKING:
    from castleguard.cli.guesses import Guess

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

    from castleguard.cli.guesses import guess_roles
    from castleguard.cli.proposal import Subject, proposal
    from castleguard.connectors.sample import read_sample

    file, source = _find(data)
    table = read_sample(file, SAMPLE_ROWS)
    guesses = guess_roles(table)
    kind = _type_of(file.name)
    assert kind is not None  # it could be read
    name = data.name or data.resolve().name
    first = "" if file == data else file.name
    subject = Subject(name, os.path.relpath(source, output.parent), kind, table.num_rows, first)
    _write(output, proposal(subject, guesses))
    click.echo(_summary(output, guesses, table.num_rows))


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


def _summary(output: Path, guesses: "list[Guess]", rows: int) -> str:
    roles = [guess.role for guess in guesses]
    lines = [f"{output}: guesses from {rows:,} rows and {len(roles)} columns"]
    for role in ("person", "quasi-identifier", "sensitive", "dropped"):
        names = [guess.column for guess in guesses if guess.role == role]
        lines.append(f"  {role:<17} {', '.join(names) if names else '-'}")
    lines += [
        "",
        "Look at every line marked GUESS, correct it, and set `confirmed: true`. Then:",
        f"  castleguard validate {output}",
    ]
    return "\n".join(lines)
