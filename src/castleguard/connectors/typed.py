"""What the sinks of typed files have in common: one schema, taken from the first table, and groups of rows."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from castleguard.connectors.columns import without_dictionaries
from castleguard.connectors.holding import Held, check_held
from castleguard.durable import AtomicFile
from castleguard.errors import OutputError


class TypedWriter(ABC):
    """Collects tables into groups of `group_rows` rows and hands them to the writer of the format."""

    format: ClassVar[Held]
    group_rows: ClassVar[int]

    def __init__(self, path: Path) -> None:
        self._part = AtomicFile(path)
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0

    @abstractmethod
    def _open(self, part: AtomicFile, schema: pa.Schema) -> Any:
        """The pyarrow writer, with `write_table` and `close`."""

    def write(self, table: pa.Table) -> None:
        """Take the rows; a group is written as soon as it is full."""
        table = without_dictionaries(table)  # an Arrow file takes one per column, and batches bring their own
        if self._schema is None:
            check_held(table.schema, self.format, str(self._part.path))
            self._schema = table.schema
        elif table.schema != self._schema:
            table = self._as_before(table)
        self._waiting.append(table)
        self._rows += table.num_rows
        if self._rows >= self.group_rows:
            self._write_group()

    def close(self) -> None:
        """Write what is left and give the file its name."""
        self._write_group()
        try:
            self._writer.close()
        except OSError as exc:
            raise self._part.failure(exc) from exc
        self._part.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._part.discard()

    def _write_group(self) -> None:
        schema = self._schema if self._schema is not None else pa.schema([])
        try:
            if self._writer is None:
                self._writer = self._open(self._part, schema)
            if self._rows:
                self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
        except OSError as exc:
            raise self._part.failure(exc) from exc
        self._waiting = []
        self._rows = 0

    def _as_before(self, table: pa.Table) -> pa.Table:
        try:
            return table.cast(self._schema)
        except (pa.ArrowException, ValueError) as exc:
            raise OutputError(f"{self._part.path}: the columns changed their names or types on the way") from exc
