"""Formats of rows: one module with one codec for each, used by files, pipes and messages.

A new format is one module with a `CODEC`, its name in `Format` and its file endings in `ENDINGS`.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa

from castleguard.connectors.base import Reader, Writer
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.csv_options import DEFAULT, CsvOutput
from castleguard.connectors.json_paths import Fields
from castleguard.errors import CastleguardError, InputError, OutputError

if TYPE_CHECKING:
    from castleguard.connectors.payloads import Payloads

Format = Literal["csv", "jsonl", "parquet", "arrow"]
"""Name of a format, and of the module in this package that has its codec."""

TEXT: frozenset[Format] = frozenset({"csv", "jsonl"})
"""Formats with one row per line: lines can be malformed, files can grow and be compressed, pipes can carry them."""

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass(frozen=True, kw_only=True)
class Codec:
    """Reads and writes one format. Every function that writes takes the options of CSV; other formats ignore them."""

    title: str
    """The format in error messages."""
    holds: Callable[[pa.DataType], bool]
    """Whether the format can hold a column of this type."""
    open_reader: Callable[..., Reader]
    """From path, declared columns and rows of a batch. Those of TEXT also take `keep_bad` and `stream`, which is read
    in place of the file, and that of CSV takes `csv`."""
    open_writer: Callable[[Path, CsvOutput], Writer]
    column_names: Callable[..., list[str]]
    """All columns of a file; for a format in which rows differ, those of its first rows. From path, number of rows and,
    for CSV, the options `csv`."""
    header: Callable[[Sequence[str], CsvOutput], bytes] | None = None
    """TEXT: the bytes before the first row."""
    render: Callable[[pa.Table, CsvOutput], "bytes | pa.Buffer"] | None = None
    """TEXT: rows as lines."""
    read_messages: Callable[..., "Payloads"] | None = None
    """From messages, declared columns, the order of the values in a line and, for JSON, the `fields`. None: it cannot
    be a message."""
    write_messages: Callable[[pa.Table, CsvOutput, int], list[bytes]] | None = None
    """From rows, options and the maximum number of rows per message. Raises OutputError."""


def codec(format: Format) -> Codec:
    """The codec of a format. Its module is imported here, so that one format does not load the others."""
    return cast(Codec, importlib.import_module(f"castleguard.connectors.{format}").CODEC)


def check_batch_rows(batch_rows: int) -> None:
    """Raise ValueError for batches without rows."""
    if batch_rows < 1:
        raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")


def open_reader(
    path: str | Path,
    columns: Sequence[str],
    *,
    batch_rows: int = 65536,
    format: Format | None = None,
    keep_bad: bool = False,
    csv: CsvInput = PLAIN,
    fields: Fields | None = None,
) -> Reader:
    """Open a file for reading its declared `columns`, in batches of at most `batch_rows` rows.

    With `keep_bad`, the reader of a text format keeps its malformed lines; call `take_bad` after every batch. `csv`
    describes CSV files, `fields` has the paths of columns inside nested JSON; other formats ignore them.
    Raises InputError if the file cannot be read, SchemaError if a column is missing.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} cannot be read: no such file")
    if path.is_dir():
        raise InputError(f"{path} cannot be read: it is a folder")
    format = format or format_of(path, InputError)
    more: dict[str, object] = {"keep_bad": keep_bad} if format in TEXT else {}
    if format == "csv":
        more["csv"] = csv
    if format == "jsonl" and fields:
        more["fields"] = fields
    return codec(format).open_reader(path, columns, batch_rows, **more)


def open_writer(path: str | Path, *, format: Format | None = None, csv: CsvOutput = DEFAULT) -> Writer:
    """Open a file for writing. It replaces an existing one only on `close`. Raises OutputError."""
    path = Path(path)
    if format is None and path.name.lower().removesuffix(".gz").endswith(".tsv"):
        raise OutputError(f"{path} cannot be written: files with tabs are only read; end its name in .csv")
    return codec(format or format_of(path, OutputError)).open_writer(path, csv)


def format_of(path: Path, error: type[CastleguardError]) -> Format:
    """The format of a file by its name; raises `error` if the ending is unknown."""
    found = known_format(path.name)
    if found is None:
        raise error(f"{path} has an unknown file extension; known: {', '.join(ENDINGS)}")
    return found


def known_format(name: str) -> Format | None:
    """The format of a file name by its ending; None if it is unknown."""
    # The longest ending first: .csv.gz is not .gz.
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.lower().endswith(ending):
            return ENDINGS[ending]
    return None
