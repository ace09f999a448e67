"""What every command has that makes one file of another: its names on the command line, and a check of the output."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from castleguard.errors import OutputError

if TYPE_CHECKING:
    from castleguard.connectors.csv_options import CsvOutput

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path)
_OPTIONS = (
    click.argument("input", type=_FILE, metavar="IN"),
    click.option(
        "-o", "--output", type=_FILE, required=True, metavar="OUT", help="File to write; its ending is its format."
    ),
    click.option(
        "--schema", "schema_file", type=_FILE, required=True, help="YAML file that gives every column its role."
    ),
)


formulas_option = click.option(
    "--formulas",
    type=click.Choice(["escape", "refuse", "keep"]),
    help="In CSV, text that a spreadsheet would run: an apostrophe before it, reject its row, or keep it.  "
    "[default: escape]",
)
"""For commands that write CSV."""

published_formulas_option = click.option(
    "--formulas",
    type=click.Choice(["escape", "refuse", "keep"]),
    help="How PUBLISHED was written, if it is CSV: apostrophes before formulas are undone.  [default: escape]",
)
"""For commands that read published CSV."""


def csv_output(output: Path, formulas: str | None) -> "CsvOutput":
    """How OUT is written. Raises UsageError if it is not CSV, and something is said about formulas."""
    from castleguard.connectors.csv_options import DEFAULT, CsvOutput
    from castleguard.connectors.formats import format_of

    if formulas is None:
        return DEFAULT
    if format_of(output, OutputError) != "csv":
        raise click.UsageError("--formulas is for an OUT that is CSV")
    return CsvOutput(formulas=formulas)  # type: ignore[arg-type]  # one of the choices


def file_options(command: _Command) -> _Command:
    """Give a command IN, OUT and the schema."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_output(input: Path, output: Path, overwrite: bool) -> None:
    """Refuse to lose a file."""
    if not output.exists():
        return
    if input.exists() and os.path.samefile(input, output):
        raise OutputError(f"{output} is the input: choose another name for the output")
    if not overwrite and not output.is_dir():
        raise OutputError(f"{output} exists already: choose another name, or replace it with --overwrite")
