"""Arguments and options of the commands that turn one file into another."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from castleguard.errors import OutputError

if TYPE_CHECKING:
    from castleguard.connectors.csv_options import CsvOutput

_Command = TypeVar("_Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

schema_option = click.option(
    "--schema", "schema_file", type=FILE, required=True, help="YAML file that gives every column its role."
)
_OPTIONS = (
    click.argument("input", type=FILE, metavar="IN"),
    click.option(
        "-o", "--output", type=FILE, required=True, metavar="OUT", help="File to write; its extension sets the format."
    ),
    schema_option,
)


formulas_option = click.option(
    "--formulas",
    type=click.Choice(["escape", "refuse", "keep"]),
    help="Text in CSV that a spreadsheet would run as a formula: escape it with an apostrophe, reject its row, or keep "
    "it.  [default: escape]",
)
"""For commands that write CSV."""

published_formulas_option = click.option(
    "--formulas",
    type=click.Choice(["escape", "refuse", "keep"]),
    help="The --formulas that PUBLISHED was written with, if it is CSV; escaping is undone.  [default: escape]",
)
"""For commands that read published CSV."""


def csv_output(output: Path, formulas: str | None) -> "CsvOutput":
    """CSV options for OUT. Raises UsageError if --formulas is given and OUT is not CSV."""
    from castleguard.connectors.csv_options import DEFAULT, CsvOutput
    from castleguard.connectors.formats import format_of

    if formulas is None:
        return DEFAULT
    if format_of(output, OutputError) != "csv":
        raise click.UsageError("--formulas applies to CSV only: remove it, or write OUT as .csv")
    return CsvOutput(formulas=formulas)  # type: ignore[arg-type]  # one of the choices


def file_options(command: _Command) -> _Command:
    """Add IN, --output and --schema to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_output(input: Path, output: Path, overwrite: bool) -> None:
    """Refuse to overwrite the input, or an existing file without --overwrite."""
    if not output.exists():
        return
    if input.exists() and os.path.samefile(input, output):
        raise OutputError(f"{output} is also the input: choose another name for the output")
    if not overwrite and not output.is_dir():
        raise OutputError(f"{output} already exists: choose another name, or replace it with --overwrite")
