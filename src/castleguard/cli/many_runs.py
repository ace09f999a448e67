"""What commands share that publish one file many times over, in memory: the whole file, and each warning once."""

import logging
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Path, columns: tuple[str, ...]) -> "pa.Table":
    """These columns of a file, all rows."""
    import pyarrow as pa

    from castleguard.connectors.formats import open_reader

    with closing(open_reader(path, columns)) as reader:
        return pa.Table.from_batches(list(reader))


def warn_once(*, but: str | None = None) -> None:
    """Show each kind of warning once, and none that begins with `but`: every run has the same ones."""
    for handler in logging.getLogger("castleguard").handlers:
        handler.addFilter(_Once(but))


class _Once(logging.Filter):
    def __init__(self, but: str | None) -> None:
        super().__init__()
        self._but = but
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is news."""
        kind = str(record.msg)
        news = kind not in self._said and not (self._but is not None and kind.startswith(self._but))
        self._said.add(kind)
        return news
