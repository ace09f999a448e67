"""Shared by the commands that publish one file many times in memory: read it whole, print each warning once."""

import logging
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from castleguard.connectors.csv_input import CsvInput


def read_table(path: Path, columns: tuple[str, ...], csv: "CsvInput") -> "pa.Table":
    """All rows of a file, with these columns."""
    import pyarrow as pa

    from castleguard.connectors.formats import open_reader

    with closing(open_reader(path, columns, csv=csv)) as reader:
        return pa.Table.from_batches(list(reader))


def warn_once(*, but: str | None = None) -> None:
    """Print each kind of warning once, and none that begins with `but`: all runs log the same warnings."""
    for handler in logging.getLogger("castleguard").handlers:
        handler.addFilter(_Once(but))


class _Once(logging.Filter):
    def __init__(self, but: str | None) -> None:
        super().__init__()
        self._but = but
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to print the record."""
        kind = str(record.msg)
        is_new = kind not in self._seen and not (self._but is not None and kind.startswith(self._but))
        self._seen.add(kind)
        return is_new
