"""`castleguard init DATA`: a job file proposed from a sample of the data, with every guess marked as one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.errors import OutputError

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


@click.command(short_help="Propose a job file for a file of data.")
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

    Nobody but you knows what a column means and what is public about it. The file is refused by every other command
    until `confirmed: false` in it is set to true or deleted. Labels and bounds in it come from the data: keep it as you
    keep the data, until you have replaced them.
    """
    if output.exists() and not overwrite:
        raise OutputError(f"{output} exists already: choose another name, or replace it with --overwrite")

    from castleguard.cli.guesses import guess_roles
    from castleguard.cli.proposal import Subject, proposal
    from castleguard.connectors.sample import read_sample

    table = read_sample(data, SAMPLE_ROWS)
    guesses = guess_roles(table)
    path = os.path.relpath(data, output.parent)
    text = proposal(Subject(data.name, path, _type_of(data), table.num_rows), guesses)
    _write(output, text)
    click.echo(_summary(output, guesses, table.num_rows))


def _type_of(data: Path) -> str:
    name = data.name.lower()
    return next(_TYPES[ending] for ending in sorted(_TYPES, key=len, reverse=True) if name.endswith(ending))


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
