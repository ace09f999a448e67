"""A source and a sink in memory for jobs: the smallest ones that keep the contract of `connectors/base.py`.

What they hold (`MemoryLog`, `MemoryParts`) outlives them, as a topic outlives the process that reads it: a test closes
a source, or drops it as a crash would, and opens the next one at a position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from castleguard.connectors.base import BadRow, Position, Read
from castleguard.errors import UnavailableError


@dataclass
class MemoryLog:
    """What there is to read: batches and bad rows, in the order in which they arrived. It may grow at any time."""

    schema: pa.Schema
    entries: list[pa.RecordBatch | BadRow] = field(default_factory=list)
    ended: bool = False
    """Whether no further row will ever come."""
    outages: int = 0
    """How many of the next reads find the log unavailable."""

    def add(self, *tables: pa.Table | pa.RecordBatch) -> None:
        """Append rows."""
        for table in tables:
            self.entries += [table] if isinstance(table, pa.RecordBatch) else table.combine_chunks().to_batches()

    def add_bad(self, raw: bytes, reason: str = "not a row") -> None:
        """Append something that is no row."""
        self.entries.append(BadRow(f"entry {len(self.entries)}", reason, raw))


class MemorySource:
    """Reads a log, an entry at a time, at most `batch_rows` rows of it. Never waits: a test has a clock of its own."""

    def __init__(self, log: MemoryLog, position: Position | None = None, *, batch_rows: int = 65536) -> None:
        self.acknowledged: list[Position] = []
        self.closed = False
        self._log = log
        self._batch_rows = batch_rows
        self._entry = position["entry"] if position else 0
        self._row = position["row"] if position else 0

    @property
    def finished(self) -> bool:
        """Whether the log has ended and all of it was read."""
        return self._log.ended and self._entry == len(self._log.entries)

    def read(self, timeout: float) -> Read | None:
        """The next entry, or the next rows of it."""
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
        """Entry and row within it."""
        return {"entry": self._entry, "row": self._row}

    def acknowledge(self, position: Position) -> None:
        """Remember it."""
        self.acknowledged.append(position)

    def lag(self) -> int | None:
        """Rows in the log that were not read."""
        batches = [entry for entry in self._log.entries[self._entry :] if isinstance(entry, pa.RecordBatch)]
        waiting: int = sum(batch.num_rows for batch in batches)
        return waiting - self._row

    def close(self) -> None:
        """Remember that it was called."""
        self.closed = True


def _place(entry: int, first: int, row: int) -> str:
    return f"entry {entry}, row {first + row + 1}"


@dataclass
class MemoryParts:
    """What has been delivered, with its numbers."""

    delivered: list[tuple[int, pa.Table]] = field(default_factory=list)

    def table(self) -> pa.Table:
        """All of it, in one table."""
        return pa.concat_tables(table for _, table in self.delivered)


def _nothing_happens(moment: str, number: int) -> None:
    """No crash."""


class MemorySink:
    """Keeps segments by their numbers. One that is not `exactly_once` keeps a segment as often as it is delivered."""

    def __init__(
        self,
        parts: MemoryParts,
        *,
        exactly_once: bool = True,
        happens: Callable[[str, int], None] = _nothing_happens,
    ) -> None:
        """`happens` is called with "before" and "after" a delivery and its number; what it raises, the delivery
        raises."""
        self.exactly_once = exactly_once
        self.longest_row: int | None = None
        self.closed = False
        self._parts = parts
        self._happens = happens

    def last(self) -> int:
        """The highest number; 0 if that cannot be trusted."""
        return max((number for number, _ in self._parts.delivered), default=0) if self.exactly_once else 0

    def check(self, columns: pa.Schema) -> None:
        """Memory holds everything."""

    def deliver(self, number: int, table: pa.Table) -> None:
        """Keep a segment."""
        self._happens("before", number)
        if self.exactly_once:
            self._parts.delivered = [part for part in self._parts.delivered if part[0] != number]
        self._parts.delivered.append((number, table))
        self._happens("after", number)

    def close(self) -> None:
        """Remember that it was called."""
        self.closed = True
