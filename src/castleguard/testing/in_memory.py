"""Sources and sinks in memory: minimal implementations of the contracts in `connectors/base.py`.

The data of a job's source and sink (`MemoryLog`, `MemoryParts`) outlives them, as a topic outlives the process that
reads it: a test closes a source, or abandons it as a crash would, and opens the next one at a position.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from castleguard.connectors.base import BadRow, Position, Read
from castleguard.errors import UnavailableError


@dataclass
class MemoryLog:
    """Batches and bad rows in order of arrival. May grow at any time."""

    schema: pa.Schema
    entries: list[pa.RecordBatch | BadRow] = field(default_factory=list)
    ended: bool = False
    """Whether the log is complete."""
    outages: int = 0
    """Number of upcoming reads that fail as unavailable."""

    def add(self, *tables: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        for table in tables:
            self.entries += [table] if isinstance(table, pa.RecordBatch) else table.combine_chunks().to_batches()

    def add_bad(self, raw: bytes, reason: str = "not a row") -> None:
        """Append a malformed entry."""
        self.entries.append(BadRow(f"entry {len(self.entries)}", reason, raw))


class MemorySource:
    """Reads a log entry by entry, at most `batch_rows` rows at a time. Never waits: tests use a manual clock."""

    def __init__(self, log: MemoryLog, position: Position | None = None, *, batch_rows: int = 65536) -> None:
        self.acknowledged: list[Position] = []
        self.closed = False
        self._log = log
        self._batch_rows = batch_rows
        self._entry = position["entry"] if position else 0
        self._row = position["row"] if position else 0

    @property
    def finished(self) -> bool:
        """Whether the log has ended and was read completely."""
        return self._log.ended and self._entry == len(self._log.entries)

    def read(self, timeout: float) -> Read | None:
        """Return the next entry, or the next rows of it."""
        if self._log.outages:
            self._log.outages -= 1
            raise UnavailableError("the log cannot be reached")
        while self._entry < len(self._log.entries):
            entry, number, first = self._log.entries[self._entry], self._entry, self._row
            if isinstance(entry, BadRow):
                self._entry += 1
                return Read(pa.RecordBatch.from_pylist([], self._log.schema), str, (entry,))
            rows = entry.slice(first, self._batch_rows)
            self._row += rows.num_rows
            if self._row == entry.num_rows:
                self._entry, self._row = number + 1, 0
            if rows.num_rows:
                return Read(rows, partial(_place, number, first))
        return None

    def position(self) -> Position:
        """Return the next entry and the row within it."""
        return {"entry": self._entry, "row": self._row}

    def acknowledge(self, position: Position) -> None:
        """Record the position."""
        self.acknowledged.append(position)

    def lag(self) -> int | None:
        """Return the number of unread rows in the log."""
        batches = [entry for entry in self._log.entries[self._entry :] if isinstance(entry, pa.RecordBatch)]
        waiting: int = sum(batch.num_rows for batch in batches)
        return waiting - self._row

    def close(self) -> None:
        """Record the call."""
        self.closed = True


def _place(entry: int, first: int, row: int) -> str:
    return f"entry {entry}, row {first + row + 1}"


@dataclass
class MemoryParts:
    """Delivered segments with their numbers."""

    delivered: list[tuple[int, pa.Table]] = field(default_factory=list)

    def table(self) -> pa.Table:
        """Return all segments as one table."""
        return pa.concat_tables(table for _, table in self.delivered)


def _do_nothing(moment: str, number: int) -> None:
    """Let the delivery succeed."""


class MemorySink:
    """Stores segments by their numbers. Without `exactly_once`, a repeated delivery is stored again."""

    def __init__(
        self,
        parts: MemoryParts,
        *,
        exactly_once: bool = True,
        happens: Callable[[str, int], None] = _do_nothing,
    ) -> None:
        """`happens` is called with "before" or "after" and the number of each delivery; its errors propagate."""
        self.exactly_once = exactly_once
        self.longest_row: int | None = None
        self.closed = False
        self._parts = parts
        self._happens = happens

    def last(self) -> int:
        """Return the highest number; 0 without `exactly_once`."""
        return max((number for number, _ in self._parts.delivered), default=0) if self.exactly_once else 0

    def check(self, columns: pa.Schema) -> None:
        """Accept any columns."""

    def deliver(self, number: int, table: pa.Table) -> None:
        """Store a segment."""
        self._happens("before", number)
        if self.exactly_once:
            self._parts.delivered = [part for part in self._parts.delivered if part[0] != number]
        self._parts.delivered.append((number, table))
        self._happens("after", number)

    def close(self) -> None:
        """Record the call."""
        self.closed = True


class MemoryReader:
    """Yields the batches of the given tables, one after another."""

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
