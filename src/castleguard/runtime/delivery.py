"""When a commit is due, the dead letters it takes along, and its delivery.

Dead letters are lines of JSON: malformed input and rejected rows. `Delivery` writes a stored segment to the sink and
its dead letters to their file, and marks both delivered.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.connectors.base import Read, Sink
from castleguard.errors import OutputError
from castleguard.runtime.clock import Clock, StreamTime
from castleguard.runtime.pace import Pace, Retry
from castleguard.runtime.segment import Segment, from_bytes


class Rhythm:
    """Time and duration of the latest commit, and whether the next one is due."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self.pace = pace
        self._clock = clock
        self.committed_at = clock.now()
        self.commit_seconds = 0.0

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Measure a commit."""
        started = time.monotonic()
        yield
        self.committed_at = self._clock.now()
        self.commit_seconds = time.monotonic() - started

    def is_due(self, segment: Segment, *, urgent: bool, has_moved: Callable[[], bool]) -> bool:
        """Whether to commit. `urgent`: the coordinator asks for a commit; `has_moved`: the position has changed."""
        since = self._clock.now() - self.committed_at
        if segment.due is not None:  # a window has ended: store it now, deliver it when it is due
            return True
        if segment.size >= self.pace.most_bytes:
            return True
        # A negative `since` counts as elapsed: a clock that was set back must not delay commits.
        if urgent and not 0.0 <= since < max(self.pace.urgent, self.commit_seconds):
            return True
        waited = not 0.0 <= since < self.pace.every
        return waited and (segment.dirty or has_moved())


def letters_of(read: Read, rejected: Iterable[tuple[int, str]]) -> Iterator[bytes]:
    """Yield a dead letter for each bad row in `read`, and for each rejected row with its reason."""
    for bad in read.bad:
        raw = bad.raw.decode(errors="backslashreplace")
        yield _letter({"place": bad.place, "reason": bad.reason, "raw": raw})
    for row, reason in rejected:
        values = {name: _json_value(read.rows.column(name)[row]) for name in read.rows.schema.names}
        yield _letter({"place": read.place(row), "reason": reason, "row": values})


def _letter(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode(errors="backslashreplace")


def _json_value(scalar: pa.Scalar) -> object:
    """Convert any value to JSON without failing: a dead letter must not stop a job."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return _cast_to_bytes(scalar, pa.binary()).decode(errors="backslashreplace")
    except (ValueError, OverflowError):  # a timestamp beyond Python's years
        return _cast_to_bytes(scalar, pa.string()).decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _cast_to_bytes(scalar: pa.Scalar, kind: pa.DataType) -> bytes:
    try:
        return bytes(scalar.cast(kind).as_buffer())
    except pa.ArrowException:
        return f"a value of type {scalar.type} that cannot be shown".encode()


class Delivery:
    """Steps 3 and 4 of `Job.commit`."""

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
        """`longest_wait`: maximum seconds to wait until a segment is due."""
        self._sink, self._letters, self._store = sink, letters, store
        self._clock, self._retry, self._step = clock, retry, step
        self._longest_wait = longest_wait
        self._undelivered: Checkpoint | None = None
        self.time = StreamTime(clock, -math.inf)
        """The time that due segments are compared with; the job replaces it by the stream's time."""
        self.number = self.segments = 0
        """Numbers of the latest delivered commit and of its segment."""
        self._arrived = 0  # the latest segment that the sink has stored

    def finish(self) -> None:
        """Deliver a stored commit whose delivery failed: it must not be overwritten. Skip a segment that arrived."""
        if self._undelivered is not None:
            self.deliver(self._undelivered, segment=self._arrived < self._undelivered.segments)

    def deliver(self, checkpoint: Checkpoint, *, segment: bool = True) -> Checkpoint:
        """Deliver a stored commit and return it marked as delivered; `segment=False`: the sink has the segment."""
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
        if checkpoint.delivered or self._store is None:  # nothing to mark
            return checkpoint
        return self._store.mark_delivered(checkpoint)

    def _wait_until(self, due: float | None) -> None:
        """Sleep until a segment is due. A late one (the process was down, or slow) is due at once."""
        left = 0.0 if due is None else due - self.time.now()
        if left > 0.0:
            self._clock.sleep(min(left, self._longest_wait))  # bounded: the clock may have been set back


def check_letters_have_a_place(latest: Checkpoint, *, has_letters: bool) -> None:
    """Refuse to restore a commit with dead letters if the job no longer has a place for them."""
    if latest.letters and not has_letters:
        raise OutputError(
            "the latest commit holds dead letters that have not been written: run the job once with its dead_letter "
            "section before you remove that section"
        )
