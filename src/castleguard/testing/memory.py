"""A source and a sink in memory: the smallest ones that keep the contract of `connectors/base.py`."""

from collections.abc import Iterable, Iterator

import pyarrow as pa


class MemoryReader:
    """Yields the batches of the given tables, one table after the other."""

    malformed = 0

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        """`tables` may be a generator."""
        self.closed = False
        self._tables = tables

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        for table in self._tables:
            yield from table.combine_chunks().to_batches()

    def fraction(self) -> float | None:
        """Return None: the number of tables is unknown."""
        return None

    def close(self) -> None:
        """Record the call."""
        self.closed = True


class MemoryWriter:
    """Stores written tables; discards them when aborted."""

    def __init__(self) -> None:
        """Start empty."""
        self.tables: list[pa.Table] = []
        self.closed = False
        self.aborted = False

    def write(self, table: pa.Table) -> None:
        """Store a table."""
        self.tables.append(table)

    def close(self) -> None:
        """Record the call."""
        self.closed = True

    def abort(self) -> None:
        """Discard the tables, unless the writer is closed."""
        if not self.closed:
            self.aborted = True
            self.tables = []

    def table(self) -> pa.Table:
        """Return all written rows as one table."""
        return pa.concat_tables(self.tables)
