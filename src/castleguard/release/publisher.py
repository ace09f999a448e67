"""Publish the engine's decisions: gate, order, encode. Owns the rows between arrival and release.

Pending rows are kept apart from the engine's ring on purpose: the gate compares the engine's decisions with the decoded
rows, not with the engine's copy of them.

In input order (CASTLE, Theorem 3), a row that is decided early is held until every earlier row has been decided. It is
still published before its own expiry, so the delay holds. But the rows of a group may be published one by one, so k
holds only once the last of them is out.
"""

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.books import Tally
from castleguard.release.cell_gate import CellGate
from castleguard.release.encode import Encoder, PointEncoder
from castleguard.release.gate import Gate
from castleguard.release.point_gate import PointGate
from castleguard.schema.batch_reader import PayloadTypes
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions, SensitiveCodes
from castleguard.schema.roles import Schema
from castleguard.telemetry.logs import LOG


class Decided(NamedTuple):
    """What a call of the engine decided, the engine's state after it, and what it got."""

    decisions: Decisions
    oldest: int
    """The first position that stays pending."""
    longest_wait: int
    sensitive: SensitiveCodes | None = None
    """Codes of the rows that arrived; None if none did."""
    present: NDArray[np.bool_] | None = None
    """Flags of the rows that can be published; None: all."""


class Outgoing(NamedTuple):
    """Decided rows in order of output. Groups are indices into the boxes."""

    position: NDArray[np.int64]  # (rows,)
    group: NDArray[np.int64]  # (rows,)
    lower: NDArray[np.float64]  # (groups, columns)
    upper: NDArray[np.float64]
    loss: NDArray[np.float64]  # (groups,)
    kind: NDArray[np.int64]  # (groups,)


def no_outgoing(columns: int) -> Outgoing:
    """Outgoing without rows."""
    none = np.empty(0, dtype=np.int64)
    return Outgoing(none, none, np.empty((0, columns)), np.empty((0, columns)), np.empty(0), none)


def join(one: Outgoing, other: Outgoing) -> Outgoing:
    """Concatenate two sets of rows."""
    shifted = other._replace(group=other.group + one.loss.size)
    return Outgoing(*(np.concatenate(pair) for pair in zip(one, shifted, strict=True)))


def select(leaving: Outgoing, rows: NDArray[np.int64]) -> Outgoing:
    """Select these rows, in this order, with the boxes that they need."""
    groups, group = np.unique(leaving.group[rows], return_inverse=True)
    return Outgoing(
        position=leaving.position[rows],
        group=group.astype(np.int64),
        lower=leaving.lower[groups],
        upper=leaving.upper[groups],
        loss=leaving.loss[groups],
        kind=leaving.kind[groups],
    )


class InputOrder:
    """Holds rows back until all earlier ones have been decided."""

    def __init__(self, columns: int) -> None:
        self.held = no_outgoing(columns)

    def release(self, decided: Outgoing, oldest: int) -> Outgoing:
        """Add decided rows, and return those before `oldest`, the first undecided position, in input order."""
        waiting = join(self.held, decided)
        order = np.argsort(waiting.position, kind="stable")
        turn = np.searchsorted(waiting.position[order], oldest)
        self.held = select(waiting, order[turn:])
        return select(waiting, order[:turn])


_MOST_CHUNKS = 32


class Pending:
    """Decoded rows and their payload, from the oldest pending position on."""

    def __init__(self, columns: int, sensitive: int) -> None:
        self._first = 0  # position of the first row held
        self._start = 0  # its index in the arrays
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
        """Append rows at the next positions; a row that is not `present` counts as gone from the start."""
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
        """Mark rows as gone. A row that is gone already, or never arrived, is a bug: nothing may be published."""
        at = positions - self._first + self._start
        known = at.size == 0 or (at.min() >= self._start and at.max() < self._stop)
        before = int(np.count_nonzero(self._gone[self._start : self._stop]))
        if known:
            self._gone[at] = True
        if not known or int(np.count_nonzero(self._gone[self._start : self._stop])) != before + at.size:
            raise AssertionError("a row was decided twice, or never arrived: nothing of this release is published")

    def coded(self, positions: NDArray[np.int64]) -> CodedRows:
        """Decoded rows at these positions, in this order."""
        at = positions - self._first + self._start
        return self._rows.take(at)

    def payload(self, positions: NDArray[np.int64], schema: pa.Schema) -> pa.Table:
        """Payload at these positions, in this order, with these types."""
        if len(schema) == 0 or not self._payload:
            return schema.empty_table()
        if len(self._payload) > _MOST_CHUNKS:
            self._join_payload(schema)
        chunks = [chunk if chunk.schema.equals(schema) else chunk.cast(schema) for chunk in self._payload]
        table = chunks[0] if len(chunks) == 1 else pa.concat_tables(chunks)
        return table.take(pa.array(positions - self._starts[0]))

    def forget(self, before: int) -> None:
        """Drop all rows before this position: they are gone."""
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
        """First position, rows, flags of those that are gone, and payload of all rows held."""
        positions = np.arange(self._first, self.next)
        gone = self._gone[self._start : self._stop].copy()
        return self._first, self.coded(positions), gone, self.payload(positions, schema)

    def restore(self, first: int, rows: CodedRows, gone: NDArray[np.bool_], payload: pa.Table) -> None:
        """Restore from a snapshot."""
        self._first = first
        self._start = self._stop = 0
        self._payload, self._starts = [], []
        self.append(rows, payload)
        self._gone[: gone.size] = gone

    def _join_payload(self, schema: pa.Schema) -> None:
        """Merge many small chunks into one, without the rows dropped from the front."""
        table = pa.concat_tables([chunk.cast(schema) for chunk in self._payload])
        self._payload = [table.slice(self._first - self._starts[0]).combine_chunks()]
        self._starts = [self._first]

    def _make_room(self, count: int) -> None:
        """Move held rows to the front, into larger arrays if they would not fit twice, so that moving stays rare."""
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


Groups = dict[str, dict[str, NDArray[Any]]]


class Publisher:
    """The last stages of one stream."""

    def __init__(
        self,
        schema: Schema,
        gate: Gate | CellGate | PointGate,
        encoder: Encoder | PointEncoder,
        tally: Tally,
        *,
        sealed: bool,
        in_order: bool,
    ) -> None:
        """`sealed`: sensitive columns are published as codes. `in_order`: rows are published in order of arrival."""
        self._columns = len(schema.quasi_identifiers)
        self._gate = gate
        self._encoder = encoder
        self._tally = tally
        self._order = InputOrder(self._columns) if in_order else None
        self.pending = Pending(self._columns, len(schema.sensitive))
        self.payload = PayloadTypes(schema, sealed=sealed)

    @property
    def held(self) -> int:
        """Decided rows that wait for earlier ones."""
        return 0 if self._order is None else self._order.held.position.size

    def publish(self, decided: Decided) -> pa.Table:
        """Gate, order and encode what the engine has decided."""
        decisions, oldest = decided.decisions, decided.oldest
        if decided.sensitive is not None:
            self._gate.observe(decided.sensitive, decided.present)
        self._tally.longest_wait = max(self._tally.longest_wait, decided.longest_wait)
        self.pending.leave(decisions.position)
        self.pending.leave(decisions.dropped)
        passed = self._gate.check(decisions, self.pending.coded(decisions.position))
        through = np.flatnonzero(passed[decisions.group])
        refused = decisions.position.size - through.size
        if refused:
            LOG.warning("the gate refused %d rows that the engine would have published", refused)
        self._tally.gate_refused += refused
        self._tally.suppressed += refused + decisions.dropped.size
        self._tally.groups += int(np.count_nonzero(passed & (decisions.kind == NEW)))
        leaving = Outgoing(
            decisions.position, decisions.group, decisions.lower, decisions.upper, decisions.loss, decisions.kind
        )
        leaving = select(leaving, through) if refused else leaving
        if self._order is not None:
            leaving = self._order.release(leaving, oldest)
        self._count(leaving)
        published = self.payload.published
        if leaving.position.size:  # the first published row fixes the types of the stream
            self.payload.settle()
        payload = self.pending.payload(leaving.position, published)
        self.pending.forget(oldest)
        if isinstance(self._encoder, Encoder):
            return self._encoder.encode(leaving.lower, leaving.upper, leaving.group, payload)
        return self._encoder.encode(decisions.points[through], payload)

    def _count(self, leaving: Outgoing) -> None:
        """Count the published rows in the books."""
        kind = leaving.kind[leaving.group]
        self._tally.published += leaving.position.size
        self._tally.at_root += int(np.count_nonzero(kind == ROOT))
        self._tally.reused += int(np.count_nonzero(kind == REUSED))
        self._tally.loss += float(np.sum(leaving.loss[leaving.group]))

    def snapshot(self) -> tuple[int, NDArray[np.bool_], Groups, pa.Table]:
        """First position held, flags of rows that are gone, state by group, and payload."""
        first, rows, gone, payload = self.pending.snapshot(self.payload.schema)
        held = no_outgoing(self._columns) if self._order is None else self._order.held
        return first, gone, {"gate": self._gate.snapshot(), "rows": rows._asdict(), "held": held._asdict()}, payload

    def restore(self, first: int, gone: NDArray[np.bool_], groups: Groups, payload: pa.Table) -> None:
        """Restore from a snapshot."""
        self._gate.restore(groups["gate"])
        self.payload.schema = payload.schema
        self.pending.restore(first, CodedRows(**groups["rows"]), gone, payload)
        if self._order is not None:
            self._order.held = Outgoing(**groups["held"])
