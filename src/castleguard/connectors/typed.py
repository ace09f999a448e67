"""Files of typed columns: one schema, read in validated batches, written in groups of rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from castleguard.connectors.column_checks import without_dictionaries
from castleguard.connectors.formats import Format
from castleguard.connectors.holding import check_held
from castleguard.durable import AtomicFile
from castleguard.errors import CastleguardError, InputError, OutputError
from castleguard.intact import DAMAGE, validated


class TypedReader(ABC):
    """Reader of the declared columns of a file. Such a file has no malformed rows: it is intact or damaged."""

    malformed = 0
    names: list[str]
    """All columns of the file."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._columns = list(columns)

    @classmethod
    def names_in(cls, path: Path, rows: int) -> list[str]:
        """All columns of a file."""
        with closing(cls(path, [], rows)) as reader:  # type: ignore[call-arg]
            return reader.names

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def _validated(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The declared columns of every batch. Raises InputError at the first damaged one."""
        remaining = iter(batches)
        while True:
            try:
                batch = next(remaining, None)
                chosen = None if batch is None else validated(batch.select(self._columns), str(self._path))
            except CastleguardError:
                raise
            except DAMAGE as exc:
                raise InputError(f"{self._path} cannot be read any further: it is damaged") from exc
            if chosen is None:
                return
            yield chosen


class TypedWriter(ABC):
    """Collects tables into groups of `group_rows` rows, with the schema of the first table."""

    format: ClassVar[Format]
    group_rows: ClassVar[int]

    def __init__(self, path: Path) -> None:
        self._file = AtomicFile(path)
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0

    @abstractmethod
    def _open(self, file: AtomicFile, schema: pa.Schema) -> Any:
        """The pyarrow writer, with `write_table` and `close`."""

    def write(self, table: pa.Table) -> None:
        """Take the rows; a group is written as soon as it is full."""
        table = without_dictionaries(table)  # an Arrow file takes one per column, and batches bring their own
        if self._schema is None:
            check_held(table.schema, self.format, str(self._file.path))
            self._schema = table.schema
        elif table.schema != self._schema:
            table = self._as_before(table)
        self._waiting.append(table)
        self._rows += table.num_rows
        if self._rows >= self.group_rows:
            self._write_group()

    def close(self) -> None:
        """Write the remaining rows and give the file its name."""
        self._write_group()
        try:
            self._writer.close()
        except OSError as exc:
            raise self._file.failure(exc) from exc
        self._file.commit()

    def abort(self) -> None:
        """Remove the file."""
        self._file.discard()

    def _write_group(self) -> None:
        schema = self._schema if self._schema is not None else pa.schema([])
        try:
            if self._writer is None:
                self._writer = self._open(self._file, schema)
            if self._rows:
                self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
        except OSError as exc:
            raise self._file.failure(exc) from exc
        self._waiting = []
        self._rows = 0

    def _as_before(self, table: pa.Table) -> pa.Table:
        try:
            return table.cast(self._schema)
        except (pa.ArrowException, ValueError) as exc:
            raise OutputError(
                f"{self._file.path}: the columns changed their names or types between two tables"
            ) from exc
