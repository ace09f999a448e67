"""A source and a sink in memory: the smallest ones that keep the contract of `connectors/base.py`."""

from collections.abc import Iterable, Iterator

import pyarrow as pa


class MemoryReader:
    """Yields the batches of the given tables, one table after the other."""

    malformed = 0

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        """The tables may be generated while they are read."""
        self.closed = False
        self._tables = tables

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        for table in self._tables:
            yield from table.combine_chunks().to_batches()

    def fraction(self) -> float | None:
        """Nobody knows how many tables will come."""
        return None

    def close(self) -> None:
        """Remember that it was called."""
        self.closed = True


class MemoryWriter:
    """Keeps the tables that were written; forgets them when it is aborted."""

    def __init__(self) -> None:
        """Start empty."""
        self.tables: list[pa.Table] = []
        self.closed = False
        self.aborted = False

    def write(self, table: pa.Table) -> None:
        """Keep a table."""
        self.tables.append(table)

    def close(self) -> None:
        """Remember that it was called."""
        self.closed = True

    def abort(self) -> None:
        """Forget the tables, unless they were made visible already."""
        if not self.closed:
            self.aborted = True
            self.tables = []

    def table(self) -> pa.Table:
        """Everything that was written, in one table."""
        return pa.concat_tables(self.tables)
