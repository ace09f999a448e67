"""Arguments and options of the commands that read and write files."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from castleguard.errors import OutputError

if TYPE_CHECKING:
    from castleguard.connectors.csv_input import CsvInput
    from castleguard.connectors.csv_options import CsvOutput

_Command = TypeVar("_Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
_FORMULAS = click.Choice(["escape", "refuse", "keep"])

defaulted = partial(click.option, show_default=True)
"""An option whose help shows its default."""

schema_option = click.option(
    "--schema",
    "schema_file",
    type=FILE,
    required=True,
    help="YAML file that gives every column its role; or a job file, of which the schema and the csv options are used.",
)
csv_option = click.option(
    "--csv",
    "csv_pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="How IN is written, if it is not plain CSV, such as --csv separator=; --csv decimal=, --csv null_values=NA.",
)
link_option = click.option("--link", metavar="COLUMN", help="Row-number column that both files contain.")
seed_option = defaulted("--seed", type=int, default=0, help="Seed of the random choices.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")

formulas_option = click.option(
    "--formulas",
    type=_FORMULAS,
    help="Text in CSV that a spreadsheet would run as a formula: escape it with an apostrophe, reject its row, or keep "
    "it.  [default: escape]",
)
"""For commands that write CSV."""

published_formulas_option = click.option(
    "--formulas",
    type=_FORMULAS,
    help="The --formulas that PUBLISHED was written with, if it is CSV; escaping is undone.  [default: escape]",
)
"""For commands that read published CSV."""


def csv_input(path: Path, pairs: tuple[str, ...], default: "CsvInput") -> "CsvInput":
    """The options of --csv, or those of the job file. Raises UsageError, InputError."""
    from castleguard.connectors.csv_input import parse_csv_input
    from castleguard.connectors.formats import format_of
    from castleguard.errors import InputError

    if not pairs:
        return default
    if format_of(path, InputError) != "csv":
        raise click.UsageError("--csv applies to CSV only: remove it")
    return parse_csv_input(pairs)


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
    return _add(
        command,
        click.argument("input", type=FILE, metavar="IN"),
        click.option(
            "-o",
            "--output",
            type=FILE,
            required=True,
            metavar="OUT",
            help="File to write; its extension sets the format.",
        ),
        schema_option,
        csv_option,
    )


def writing_options(*, quiet: str) -> Callable[[_Command], _Command]:
    """Add --formulas, --seed, --overwrite and --quiet, with its help, to a command."""
    return lambda command: _add(
        command,
        formulas_option,
        click.option("--seed", type=int, help="Make the run repeatable; for tests and experiments only."),
        overwrite_option,
        click.option("-q", "--quiet", is_flag=True, help=quiet),
    )


def _add(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    """Add options to a command, in the order of its help."""
    for option in reversed(options):
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
