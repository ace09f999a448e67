"""What every command has that makes one file of another: its names on the command line, and a check of the output."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from castleguard.errors import OutputError

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
