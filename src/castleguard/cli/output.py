"""A check before a command writes a file."""

import os
from pathlib import Path

from castleguard.errors import OutputError


def check_output(input: Path, output: Path, overwrite: bool) -> None:
    """Refuse to lose a file."""
    if not output.exists():
        return
    if input.exists() and os.path.samefile(input, output):
        raise OutputError(f"{output} is the input: choose another name for the output")
    if not overwrite and not output.is_dir():
        raise OutputError(f"{output} exists already: choose another name, or replace it with --overwrite")
