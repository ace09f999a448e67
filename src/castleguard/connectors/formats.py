"""Files: the ending of the name says the format."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from castleguard.connectors.base import Reader, Writer
from castleguard.errors import CastleguardError, InputError, OutputError

_FORMATS = {
    ".csv": ("csv", "Csv"),
    ".csv.gz": ("csv", "Csv"),
    ".jsonl": ("jsonl", "Jsonl"),
    ".jsonl.gz": ("jsonl", "Jsonl"),
    ".ndjson": ("jsonl", "Jsonl"),
    ".parquet": ("parquet", "Parquet"),
    ".arrow": ("ipc", "Ipc"),
    ".feather": ("ipc", "Ipc"),
    ".ipc": ("ipc", "Ipc"),
}


def open_reader(path: str | Path, columns: Sequence[str], *, batch_rows: int = 65536) -> Reader:
    """Open a file for reading its declared `columns`, in batches of at most `batch_rows` rows.

    Raises InputError if it cannot be read, SchemaError if a column is missing.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} cannot be read: there is no such file")
    if path.is_dir():
        raise InputError(f"{path} cannot be read: it is a folder")
    return cast(Reader, _class_of(path, "Reader", InputError)(path, columns, batch_rows))


def open_writer(path: str | Path) -> Writer:
    """Open a file for writing. It replaces an older one on `close`, and not before.

    Raises OutputError if it cannot be written.
    """
    path = Path(path)
    return cast(Writer, _class_of(path, "Writer", OutputError)(path))


def _class_of(path: Path, direction: str, error: type[CastleguardError]) -> type:
    """The class for a file name. Its module is imported here, so that one format does not load the others."""
    name = path.name.lower()
    # The longest ending first: .csv.gz is not .gz.
    for ending in sorted(_FORMATS, key=len, reverse=True):
        if name.endswith(ending):
            module, prefix = _FORMATS[ending]
            found = getattr(importlib.import_module(f"castleguard.connectors.{module}"), prefix + direction)
            return cast(type, found)
    raise error(f"{path} has no ending that says its format; known are {', '.join(_FORMATS)}")
