"""What a job publishes with a commit: the segment that it gathers, when the commit is due, and the delivery.

A segment has the rows that were released since the last commit, and dead letters as lines of JSON: what could not be
read as a row, and rows that were rejected. `Delivery` brings a stored segment to the sink and its letters to their
file, and marks that both arrived.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.connectors.base import Read, Sink
from castleguard.errors import OutputError
from castleguard.runtime.clock import Clock, StreamTime
from castleguard.runtime.pace import Pace, Retry


@dataclass(kw_only=True)
class Segment:
    """What has been released and rejected since the last commit."""

    tables: list[pa.Table] = field(default_factory=list, repr=False)
    letters: list[bytes] = field(default_factory=list, repr=False)
    rows: int = 0
    due: float | None = None
    """When the rows may be delivered, where presence is promised."""
    dirty: bool = False
    """Whether anything has happened that a restart would have to repeat."""

    def add(self, released: pa.Table, due: float | None) -> None:
        """Gather a table."""
        if not released.num_rows:
            return
        if due is not None:
            # One piece, however the rows that closed the window were cut: pieces show in some formats.
            self.due, released = due, released.combine_chunks()
        self.tables.append(released)
        self.rows += released.num_rows
        self.dirty = True

    def to_bytes(self) -> bytes:
        """The released rows as one Arrow stream; empty if there are none."""
        return _to_bytes(self.tables) if self.tables else b""

    @property
    def size(self) -> int:
        """Released and rejected rows."""
        return self.rows + len(self.letters)


def _to_bytes(tables: list[pa.Table]) -> bytes:
    """Released tables as one Arrow stream, with the types of the last one: a column may have been all null before."""
    schema = tables[-1].schema
    out = pa.BufferOutputStream()
    # Compressed: what is published repeats itself, and a store that wipes what it forgets writes all of it three times.
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for table in tables:
            writer.write_table(table if table.schema == schema else table.cast(schema))
    return bytes(out.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """The table that `Segment.to_bytes` wrote."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


class Rhythm:
    """When the latest commit of a job was, how long it took, and when the next one is due."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self.pace = pace
        self._clock = clock
        self.committed_at = clock.now()
        self.commit_seconds = 0.0

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Note a commit."""
        started = time.monotonic()
        yield
        self.committed_at = self._clock.now()
        self.commit_seconds = time.monotonic() - started

    def is_due(self, segment: Segment, *, urgent: bool, has_moved: Callable[[], bool]) -> bool:
        """Whether to commit. `urgent`: a commit is asked for; `has_moved`: whether there is a position to commit."""
        since = self._clock.now() - self.committed_at
        if segment.due is not None:  # a window has ended: it is stored now, and delivered when it is due
            return True
        if segment.size >= self.pace.most_rows:
            return True
        # A clock that was put back would otherwise hold up commits until it is where it was.
        if urgent and not 0.0 <= since < max(self.pace.urgent, self.commit_seconds):
            return True
        waited = not 0.0 <= since < self.pace.every
        return waited and (segment.dirty or has_moved())


def letters_of(read: Read, rejected: Iterable[tuple[int, str]]) -> Iterator[bytes]:
    """A line for everything in `read` that is not a row, and for each rejected row, given with its reason."""
    for bad in read.bad:
        raw = bad.raw.decode(errors="backslashreplace")
        yield _letter({"place": bad.place, "reason": bad.reason, "raw": raw})
    for row, reason in rejected:
        values = {name: _plain(read.rows.column(name)[row]) for name in read.rows.schema.names}
        yield _letter({"place": read.place(row), "reason": reason, "row": values})


def _letter(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode(errors="backslashreplace")


def _plain(scalar: pa.Scalar) -> object:
    """A value as JSON can hold it, whatever it is: a letter must not stop a job."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return _as(scalar, pa.binary()).decode(errors="backslashreplace")
    except (ValueError, OverflowError):  # a time that Python has no year for
        return _as(scalar, pa.string()).decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _as(scalar: pa.Scalar, kind: pa.DataType) -> bytes:
    try:
        return bytes(scalar.cast(kind).as_buffer())
    except pa.ArrowException:
        return f"a value of type {scalar.type} that cannot be shown".encode()


class Delivery:
    """Steps 3 and 4 of a commit (`job.py`)."""

    def __init__(
        self,
        sink: Sink,
        letters: DeadLetters | None,
        store: Store | None,
        clock: Clock,
        retry: Retry,
        step: Callable[[int], None],
        longest_wait: float,
    ) -> None:
        """`longest_wait`: seconds for which a segment that is not due yet can be held up."""
        self._sink = sink
        self._letters = letters
        self._store = store
        self._clock = clock
        self._longest_wait = longest_wait
        self._undelivered: Checkpoint | None = None
        self.time = StreamTime(clock, -math.inf)
        """By which segments are due: that of the stream, once it has told."""
        self.number = self.segments = 0
        """Of the latest commit that was delivered."""
        self._arrived = 0  # the latest segment that the sink has taken
        self._step = step
        self._retry = retry

    def finish(self) -> None:
        """Deliver a commit that was stored and failed after that: it must not be replaced. A segment that has arrived
        is not delivered again.
        """
        if self._undelivered is not None:
            self.deliver(self._undelivered, segment=self._arrived < self._undelivered.segments)

    def deliver(self, checkpoint: Checkpoint, *, segment: bool = True) -> Checkpoint:
        """Deliver a stored commit, and mark it; without its `segment` if the sink has that. The commit as it is now."""
        self._undelivered = checkpoint
        done = self._deliver(checkpoint, segment=segment)
        self._undelivered, self.number, self.segments = None, done.number, done.segments
        return done

    def _deliver(self, checkpoint: Checkpoint, *, segment: bool) -> Checkpoint:
        check_letters_have_a_place(checkpoint, has_letters=self._letters is not None)
        self._step(3)
        if segment and checkpoint.segment:
            table = from_bytes(checkpoint.segment)
            self._wait_until(checkpoint.due)
            self._retry.until_available(lambda: self._sink.deliver(checkpoint.segments, table), "the sink")
            self._arrived = checkpoint.segments
        if self._letters is not None and checkpoint.letters:
            self._letters.append(checkpoint.letters, checkpoint.letters_at)
        self._step(4)
        if checkpoint.delivered or self._store is None:  # nothing had to be delivered
            return checkpoint
        return self._store.mark_delivered(checkpoint)

    def _wait_until(self, due: float | None) -> None:
        """Let time pass until a segment is due. What is late (the process was down, or slow) is due at once."""
        left = 0.0 if due is None else due - self.time.now()
        if left > 0.0:
            self._clock.sleep(min(left, self._longest_wait))  # a clock that was put back must not hold it up for longer


def check_letters_have_a_place(latest: Checkpoint, *, has_letters: bool) -> None:
    """Refuse to go on from a commit with dead letters if the job has no section for them any more."""
    if latest.letters and not has_letters:
        raise OutputError(
            "the latest commit holds dead letters that have not been written: run the job once more with its "
            "dead_letter section before it goes without"
        )
