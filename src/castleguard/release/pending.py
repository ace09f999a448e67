"""Rows between arrival and release: what the gate re-checks and what the encoder publishes, by position.

Kept apart from the engine's ring on purpose: the gate compares the engine's decisions with what was decoded, not with
what the engine remembers.
"""

from bisect import bisect_right

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.schema.coded import CodedRows

_MOST_CHUNKS = 32


class Pending:
    """Decoded rows and their payload, from the oldest pending position on."""

    def __init__(self, columns: int, sensitive: int) -> None:
        self._first = 0  # position of the first row held
        self._start = 0  # where it stands in the arrays
        self._stop = 0
        self._rows = _room(0, columns, sensitive)
        self._gone = np.zeros(0, dtype=np.bool_)  # the row has left
        self._payload: list[pa.Table] = []
        self._starts: list[int] = []  # position of the first row of each payload chunk

    @property
    def next(self) -> int:
        """The position that the next row will get."""
        return self._first + self._stop - self._start

    def begin_at(self, position: int) -> None:
        """Give the first row this position, in place of 0."""
        self._first = position

    def append(self, rows: CodedRows, payload: pa.Table, present: NDArray[np.bool_] | None = None) -> None:
        """Take over rows that get the next positions; one that is not `present` counts as gone from the start."""
        count = rows.person.size
        if count == 0:
            return
        self._payload.append(payload)
        self._starts.append(self.next)
        if self._stop + count > self._rows.person.size:
            self._make_room(count)
        for mine, theirs in zip(self._rows, rows, strict=True):
            mine[self._stop : self._stop + count] = theirs
        self._gone[self._stop : self._stop + count] = False if present is None else ~present
        self._stop += count

    def leave(self, positions: NDArray[np.int64]) -> None:
        """Note that rows leave. A row that left before, or never came, is a bug that must not publish anything."""
        at = positions - self._first + self._start
        known = at.size == 0 or (at.min() >= self._start and at.max() < self._stop)
        before = int(np.count_nonzero(self._gone[self._start : self._stop]))
        if known:
            self._gone[at] = True
        if not known or int(np.count_nonzero(self._gone[self._start : self._stop])) != before + at.size:
            raise AssertionError("a row was decided twice, or never arrived: nothing of this release is published")

    def coded(self, positions: NDArray[np.int64]) -> CodedRows:
        """The decoded rows at these positions, in this order."""
        at = positions - self._first + self._start
        return self._rows.take(at)

    def payload(self, positions: NDArray[np.int64], schema: pa.Schema) -> pa.Table:
        """The payload of these positions, in this order, with these types."""
        if len(schema) == 0 or not self._payload:
            return schema.empty_table()
        if len(self._payload) > _MOST_CHUNKS:
            self._join_payload(schema)
        chunks = [chunk if chunk.schema.equals(schema) else chunk.cast(schema) for chunk in self._payload]
        table = chunks[0] if len(chunks) == 1 else pa.concat_tables(chunks)
        return table.take(pa.array(positions - self._starts[0]))

    def forget(self, before: int) -> None:
        """All rows before this position have left."""
        gone = before - self._first
        if gone <= 0:
            return
        self._first += gone
        self._start += gone
        dead = bisect_right(self._starts, before) - 1
        if self._first == self.next:
            dead = len(self._starts)
        if dead > 0:
            del self._payload[:dead], self._starts[:dead]

    def snapshot(self, schema: pa.Schema) -> tuple[int, CodedRows, NDArray[np.bool_], pa.Table]:
        """First position, rows, which of them have left, and payload of everything that is held."""
        positions = np.arange(self._first, self.next)
        gone = self._gone[self._start : self._stop].copy()
        return self._first, self.coded(positions), gone, self.payload(positions, schema)

    def restore(self, first: int, rows: CodedRows, gone: NDArray[np.bool_], payload: pa.Table) -> None:
        """Continue from a snapshot."""
        self._first = first
        self._start = self._stop = 0
        self._payload, self._starts = [], []
        self.append(rows, payload)
        self._gone[: gone.size] = gone

    def _join_payload(self, schema: pa.Schema) -> None:
        """Make one chunk of many small ones, without the rows that have left."""
        table = pa.concat_tables([chunk.cast(schema) for chunk in self._payload])
        self._payload = [table.slice(self._first - self._starts[0]).combine_chunks()]
        self._starts = [self._first]

    def _make_room(self, count: int) -> None:
        """Move what is held to the front, into larger arrays if it would not fit twice: moving stays rare."""
        held = self._stop - self._start
        size = max(self._rows.person.size, 2 * (held + count))
        fresh = _room(size, self._rows.quasi.shape[1], self._rows.sensitive.shape[1])
        for old, new in zip(self._rows, fresh, strict=True):
            new[:held] = old[self._start : self._stop]
        gone = np.zeros(size, dtype=np.bool_)
        gone[:held] = self._gone[self._start : self._stop]
        self._rows, self._gone = fresh, gone
        self._start, self._stop = 0, held


def _room(size: int, columns: int, sensitive: int) -> CodedRows:
    return CodedRows(
        quasi=np.empty((size, columns)),
        person=np.empty(size, dtype=np.uint64),
        sensitive=np.empty((size, sensitive), dtype=np.int64),
        to_root=np.empty(size, dtype=np.bool_),
    )
