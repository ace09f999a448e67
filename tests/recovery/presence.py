"""The view of an observer of the sink, for a stream with and without one row.

The observer sees everything at the sink at any time: names, numbers, headers, offsets, sizes, contents, and when
each appeared by the clock of the job; but not the operator's side: checkpoint, dead letters, books, logs.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import castleguard as cg
from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Store
from castleguard.connectors.base import BadRow, Position, Read, Sink
from castleguard.connectors.manifest import Manifest
from castleguard.errors import UnavailableError
from castleguard.job import Job, Pace, Parts
from castleguard.testing.manual_clock import ManualClock

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)],
    sensitive=[cg.Sensitive("ward", values=["surgery", "medicine", "rare"])],
)
POLICY = cg.Sdgs(k=2, sample_rate=0.6, epsilon=1, window=60)
START = 6_000_000.0 - 7.0  # shortly before the end of a window
LASTS = 160.0  # seconds of arrivals: two whole windows and parts of two others
_ROWS = pa.schema([("pid", pa.string()), ("age", pa.int64()), ("ward", pa.string())])


class Arrival(NamedTuple):
    """An arrival at the source: a row, or a malformed message."""

    at: float
    row: dict[str, Any] | None


@dataclass
class Arrivals:
    """A source under a manual clock: a read advances the time to the next arrival."""

    clock: ManualClock
    arrivals: Sequence[Arrival]
    at: int = 0
    finished: bool = False

    def read(self, timeout: float) -> Read | None:
        due = self.clock.now() + timeout
        if self.at == len(self.arrivals) or self.arrivals[self.at].at > due:
            self.clock.advance(timeout)
            self.finished = self.at == len(self.arrivals) and self.clock.now() >= START + LASTS
            return None
        if self.arrivals[self.at].at > self.clock.now():
            self.clock.advance(self.arrivals[self.at].at - self.clock.now())
        here = [one for one in self.arrivals[self.at :] if one.at <= self.clock.now()]
        self.at += len(here)
        rows = pa.RecordBatch.from_pylist([one.row for one in here if one.row is not None], schema=_ROWS)
        return Read(rows, str, tuple(BadRow("here", "no row", b"?") for one in here if one.row is None))

    def position(self) -> Position:
        return {"at": self.at}

    def acknowledge(self, position: Position) -> None:
        pass

    def lag(self) -> int | None:
        return None

    def close(self) -> None:
        pass


class Seen(NamedTuple):
    """A delivery, and the whole sink after it."""

    begun: float
    ended: float
    number: int
    rows: int
    sink: object


@dataclass
class Watched:
    """A sink that is observed after every delivery."""

    sink: Sink
    clock: ManualClock
    look: Callable[[], object]
    seen: list[Seen]
    outages: list[int]
    exactly_once: bool = True

    def last(self) -> int:
        return self.sink.last()

    @property
    def longest_row(self) -> int | None:
        return self.sink.longest_row

    def check(self, columns: pa.Schema) -> None:
        self.sink.check(columns)

    def deliver(self, number: int, table: pa.Table) -> None:
        begun = self.clock.now()
        try:
            self.sink.deliver(number, table)
        except UnavailableError:
            self.outages.append(number)
            raise
        self.seen.append(Seen(begun, self.clock.now(), number, table.num_rows, self.look()))

    def close(self) -> None:
        self.sink.close()


def look_at(folder: Path) -> list[tuple[str, int, str]]:
    """Return name, size and content of every file below a folder."""
    return [
        (path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def make_arrivals(draw: random.Random, rows: int) -> list[Arrival]:
    """Rows of many persons at random times, some of them equal."""
    moments = sorted(START + draw.random() * LASTS for _ in range(rows))
    return [
        Arrival(
            moments[at - 1] if at and draw.random() < 0.4 else moments[at],
            {"pid": f"p{draw.randrange(60)}", "age": draw.randrange(101), "ward": draw.choice(["surgery", "medicine"])},
        )
        for at in range(rows)
    ]


EXTRA: dict[str, dict[str, Any] | None] = {
    "suppressed": {"pid": "extra", "age": 50, "ward": "rare"},  # alone in its cell, for any draw of the coin
    "rejected": {"pid": "extra", "age": None, "ward": "surgery"},
    "no row": None,
}
"""What is there or not, and is never released."""


def with_one_more(arrivals: Sequence[Arrival], draw: random.Random, kind: str) -> list[Arrival]:
    """The same arrivals, and one more at a random time."""
    more = Arrival(START + draw.random() * LASTS, EXTRA[kind])
    return sorted([*arrivals, more], key=lambda one: one.at)


@dataclass
class Stage:
    """Everything that outlives a process: arrivals, clock, checkpoint, and observations of the sink."""

    arrivals: Sequence[Arrival]
    sink: Callable[[], Sink]
    look: Callable[[], object]
    folder: Path
    policy: cg.Sdgs = POLICY
    with_store: bool = True
    described: Path | None = None
    """The folder of parts, if it gets a manifest."""
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    seen: list[Seen] = field(default_factory=list)
    outages: list[int] = field(default_factory=list)
    """Deliveries that fail at first."""

    def job(self, **more: Any) -> Job:
        """Start the next process."""
        parts = Parts(
            open_source=lambda position: Arrivals(self.clock, self.arrivals, (position or {"at": 0})["at"]),
            make_stream=self.stream,
            sink=Watched(self.sink(), self.clock, self.look, self.seen, self.outages),
            store=Store(self.folder / "state.db") if self.with_store else None,
            letters=DeadLetters(self.folder / "letters.jsonl"),
            manifest=None if self.described is None else Manifest(self.described),
        )
        try:
            return Job(parts, clock=self.clock, pace=Pace(every=5.0, poll=6.1), **more)
        except BaseException:
            if parts.store is not None:
                parts.store.close()
            raise

    def stream(self, snapshot: bytes | None) -> cg.Anonymiser:
        if snapshot is not None:
            return cg.Anonymiser.restore(SCHEMA, self.policy, snapshot)
        return cg.Anonymiser(SCHEMA, self.policy, seed=1)

    def play(self) -> list[Seen]:
        """Run a job to its end, and return the observations of the sink."""
        assert self.job().run() == "finished"
        return self.seen
