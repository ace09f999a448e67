"""`castleguard init DATA`: a job file proposed from a sample of the data, with every guess marked as one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from castleguard.jobs.propose.proposal import Proposal

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
    from castleguard.jobs.propose.proposal import check_new, propose

    check_new(output, overwrite=overwrite)  # before the data is read
    found = propose(data)
    found.write(output, overwrite=overwrite)
    if found.doubts.headless:
        click.echo(_HEADLESS, err=True)
    if found.malformed:
        lines = (
            "1 line is no row, and was" if found.malformed == 1 else f"{found.malformed:,} lines are no rows, and were"
        )
        click.echo(f"castleguard: {lines} left out: {_LINES}", err=True)
    click.echo(_summary(output, found))


def _summary(output: Path, found: "Proposal") -> str:
    """The columns by role: by their names, or only how many if the names may be values."""
    lines = [f"{output}: guesses from {found.rows:,} rows and {len(found.guesses)} columns"]
    for role in ("person", "quasi-identifier", "sensitive", "dropped"):
        names = [guess.column for guess in found.guesses if guess.role == role]
        lines.append(f"  {role:<17} {', '.join(names) if names and not found.doubts.headless else len(names) or '-'}")
    lines += [
        "",
        "Look at every line marked GUESS, correct it, and set `confirmed: true`. Then:",
        f"  castleguard validate {output}",
    ]
    return "\n".join(lines)
