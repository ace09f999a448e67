"""Files: the ending of the name says the format, unless the caller does."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from castleguard.connectors.base import Reader, Writer
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.errors import CastleguardError, InputError, OutputError

Format = Literal["csv", "jsonl", "parquet", "arrow"]
TEXT: frozenset[Format] = frozenset({"csv", "jsonl"})
"""The formats that have one row per line, and so can have malformed ones."""

ENDINGS: dict[str, Format] = {
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
_CLASSES: dict[Format, tuple[str, str]] = {
    "csv": ("csv", "Csv"),
    "jsonl": ("jsonl", "Jsonl"),
    "parquet": ("parquet", "Parquet"),
    "arrow": ("ipc", "Ipc"),
}


def open_reader(
    path: str | Path,
    columns: Sequence[str],
    *,
    batch_rows: int = 65536,
    format: Format | None = None,
    keep_bad: bool = False,
) -> Reader:
    """Open a file for reading its declared `columns`, in batches of at most `batch_rows` rows.

    With `keep_bad`, the reader of a text format keeps its malformed lines until `take_bad` is called, for every batch.
    Raises InputError if the file cannot be read, SchemaError if a column is missing.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} cannot be read: there is no such file")
    if path.is_dir():
        raise InputError(f"{path} cannot be read: it is a folder")
    format = format or format_of(path, InputError)
    kept = {"keep_bad": keep_bad} if format in TEXT else {}
    return cast(Reader, _class_of(format, "Reader")(path, columns, batch_rows, **kept))


def open_writer(path: str | Path, *, format: Format | None = None, csv: CsvOutput = DEFAULT) -> Writer:
    """Open a file for writing. It replaces an older one on `close`, and not before.

    `csv` says how CSV is written. Raises OutputError if the file cannot be written.
    """
    path = Path(path)
    format = format or format_of(path, OutputError)
    options = {"csv": csv} if format == "csv" else {}
    return cast(Writer, _class_of(format, "Writer")(path, **options))


def format_of(path: Path, error: type[CastleguardError]) -> Format:
    """The format that a file name says; raises `error` if it says none."""
    found = known_format(path.name)
    if found is None:
        raise error(f"{path} has no ending that says its format; known are {', '.join(ENDINGS)}")
    return found


def known_format(name: str) -> Format | None:
    """The format that the ending of a file name stands for; None if it stands for none."""
    # The longest ending first: .csv.gz is not .gz.
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.lower().endswith(ending):
            return ENDINGS[ending]
    return None


def _class_of(format: Format, direction: str) -> type:
    """The class for a format. Its module is imported here, so that one format does not load the others."""
    module, prefix = _CLASSES[format]
    return cast(type, getattr(importlib.import_module(f"castleguard.connectors.{module}"), prefix + direction))
