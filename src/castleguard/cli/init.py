"""`castleguard init DATA`: propose a job file from a sample of the data, with every guess marked."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli.file_options import FILE, defaulted

if TYPE_CHECKING:
    from castleguard.jobs.propose.proposal import Proposal

_HEADLESS = (
    "castleguard: the first line of the file looks like a row, not like column names: if it is a row, delete the job "
    "file, which contains its values, add a header line and run init again"
)
_LINES = "check the number of values and the quotes"


@click.command(short_help="Propose a job file for a file or folder of data.")
@click.argument("data", type=FILE, metavar="DATA")
@defaulted("-o", "--output", type=FILE, default=Path("job.yaml"), metavar="JOB", help="Job file to write.")
@click.option("--person", metavar="COLUMN", help="Column that identifies persons; none: every row is a person.")
@click.option("--overwrite", is_flag=True, help="Replace JOB if it exists.")
def init(data: Path, output: Path, person: str | None, overwrite: bool) -> None:
    """Read DATA and write a job file in which every role, domain and parameter is a guess.

    DATA is a file, a folder, or a pattern such as 'trips/*.csv' (quote it, or the shell expands it). If it stands for
    several files, init reads the first one by name, and the job reads all of them. Roles and domains are guessed from
    a sample of all rows (of the first five million). How a CSV file is written is found out and put into the job.

    If no column is certain to identify persons, init asks in a terminal, and otherwise leaves the question open.

    Only you know what a column means and what is public about it. All other commands refuse the file until you set
    `confirmed: false` to true, or delete that line. Its labels and bounds come from the data: protect the file like
    the data until you have replaced them.
    """
    from castleguard.jobs.propose.proposal import check_new, propose

    check_new(output, overwrite=overwrite)  # before the data is read
    found = propose(data)
    # The names of a file without a header may be values: they are not shown.
    if person is None and found.is_open and not found.doubts.headless and sys.stdin.isatty():
        person = _ask(found)
    if person is not None:
        found = found.with_person(None if person == "none" else person)
    found.write(output, overwrite=overwrite)
    if found.doubts.headless:
        click.echo(_HEADLESS, err=True)
    if found.malformed:
        lines = "1 malformed line was" if found.malformed == 1 else f"{found.malformed:,} malformed lines were"
        click.echo(f"castleguard: {lines} skipped: {_LINES}", err=True)
    click.echo(_summary(output, found))


def _ask(found: "Proposal") -> str | None:
    """Ask for the person; None: the question stays open."""
    click.echo("Which column identifies persons? A person with several rows must have the same value in all of them.")
    for candidate in found.doubts.persons:
        click.echo(f"  {candidate.column}: {candidate}")
    click.echo("  none: no person has more than one row")
    names = [*found.data.found.repeats, "none"]
    answer = click.prompt("Column", default="", show_default=False, type=click.Choice(["", *names]), show_choices=False)
    return str(answer) or None


def _summary(output: Path, found: "Proposal") -> str:
    """The columns by role; only their number if the names may be values."""
    lines = [f"{output}: guesses from {found.rows:,} rows and {len(found.guesses)} columns"]
    for role in ("person", "quasi-identifier", "sensitive", "dropped"):
        names = [guess.column for guess in found.guesses if guess.role == role]
        lines.append(f"  {role:<17} {', '.join(names) if names and not found.doubts.headless else len(names) or '-'}")
    if found.is_open:
        lines += ["", "No column is certain to identify persons: name it, or write null, where the file says OPEN."]
    lines += [
        "",
        "Check every line marked GUESS, correct it, and set `confirmed: true`. Then run:",
        f"  castleguard validate {output}",
    ]
    return "\n".join(lines)
