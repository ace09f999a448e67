"""A source and a sink whose data outlives the process, like that on a broker."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.connectors.base import BadRow, Position, Read
from castleguard.errors import UnavailableError
from castleguard.job import Job
from castleguard.testing.crash import CrashError


@dataclass
class Topic:
    """Rows on a broker; None is a malformed message."""

    rows: list[dict[str, object] | None]
    endless: bool = False
    acknowledged: Position | None = None
    outages: list[bool] = field(default_factory=list)
    """Whether each upcoming call fails."""

    def source(self, position: Position | None, *, batch: int = 7) -> "TopicSource":
        return TopicSource(self, int((position or {"at": 0})["at"]), batch)

    def fails(self) -> bool:
        return bool(self.outages) and self.outages.pop(0)


class TopicSource:
    """Implements the contract of a source."""

    def __init__(self, topic: Topic, at: int, batch: int) -> None:
        self._topic, self._at, self._batch = topic, at, batch
        self.closed = False

    @property
    def finished(self) -> bool:
        return not self._topic.endless and self._at == len(self._topic.rows)

    def read(self, timeout: float) -> Read | None:
        if self._topic.fails():
            raise UnavailableError("the broker is away")
        first = self._at
        messages = self._topic.rows[first : first + self._batch]
        if not messages:
            return None
        self._at += len(messages)
        good = [at for at, row in enumerate(messages) if row is not None]
        rows = pa.RecordBatch.from_pylist([messages[at] for at in good], schema=SCHEMA)
        bad = tuple(BadRow(f"row {first + at}", "no row", b"?!") for at, row in enumerate(messages) if row is None)
        return Read(rows, lambda row: f"row {first + good[row]}", bad)

    def position(self) -> Position:
        return {"at": self._at}

    def acknowledge(self, position: Position) -> None:
        if self._topic.fails():
            raise UnavailableError("the broker is away")
        self._topic.acknowledged = position

    def lag(self) -> int | None:
        assert not self.closed
        return len(self._topic.rows) - self._at

    def close(self) -> None:
        self.closed = True


def stream_maker(schema: cg.Schema, policy: Policy) -> Callable[[bytes | None], cg.Anonymiser]:
    """How a job makes its stream: a new one, or one from a snapshot."""

    def make(snapshot: bytes | None) -> cg.Anonymiser:
        if snapshot is None:
            return cg.Anonymiser(schema, policy)
        return cg.Anonymiser.restore(schema, policy, snapshot)

    return make


def run_until_crash(job: Job) -> None:
    """Run a job, which may die by a scripted crash."""
    try:
        job.run()
    except CrashError:
        assert job._store is not None
        job._store.close()  # the system releases the locks of a dead process


SCHEMA = pa.schema([("pid", pa.int64()), ("age", pa.int64()), ("row", pa.int64())])


@dataclass
class Shelf:
    """Delivered segments by number. Implements the contract of a sink."""

    segments: dict[int, pa.Table] = field(default_factory=dict)
    outages: list[bool] = field(default_factory=list)
    exactly_once: bool = True
    longest_row: int | None = None

    def last(self) -> int:
        if self.outages and self.outages.pop(0):
            raise UnavailableError("the shelf is away")
        return max(self.segments, default=0)

    def check(self, columns: pa.Schema) -> None:
        """Accept any columns."""

    def deliver(self, number: int, table: pa.Table) -> None:
        if self.outages and self.outages.pop(0):
            raise UnavailableError("the shelf is away")
        assert number not in self.segments
        assert number > max(self.segments, default=0)
        self.segments[number] = table

    def close(self) -> None:
        pass

    def table(self) -> pa.Table:
        return pa.concat_tables([self.segments[number] for number in sorted(self.segments)])
