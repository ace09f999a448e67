"""Intervals of a job, and retries with exponential backoff for sources and sinks that are unavailable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from castleguard.checkpoint.store import Checkpoint
from castleguard.connectors.base import Position, Read, Source
from castleguard.errors import UnavailableError
from castleguard.runtime.clock import Clock
from castleguard.runtime.stopping import Stop
from castleguard.telemetry.logs import LOG

NAP = 0.005
"""Seconds between two polls."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Intervals and limits of a job's loop."""

    every: float = 5.0  # maximum seconds between two commits while there is something to commit
    poll: float = 0.2  # seconds that a read waits for rows before the clock is checked
    most_bytes: int = 16 << 20  # of released rows and dead letters that trigger an early commit: bounds memory
    first_pause: float = 0.1  # seconds before the first retry; doubled after each failure
    longest_pause: float = 30.0
    urgent: float = 0.01  # minimum seconds between two urgent commits; commits also take at most half of the time


_Result = TypeVar("_Result")


class Retry:
    """Repeats a call until it succeeds, with exponential backoff; `waiting` is called before each pause."""

    def __init__(self, clock: Clock, pace: Pace, stop: Stop, waiting: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._pace = pace
        self._stop = stop
        self._waiting = waiting

    def until_available(self, call: Callable[[], _Result], what: str) -> _Result:
        """Return the result of `call`, retrying while `what` is unavailable.

        When the stop flag is set, the UnavailableError is raised: the next run restores the latest commit.
        """
        pause = self._pace.first_pause
        while True:
            try:
                return call()
            except UnavailableError as exc:
                self._waiting()
                if self._stop.asked:
                    raise
                LOG.warning("%s is unavailable, retrying in %.1f s: %s", what, pause, exc)
                left = pause
                while left > 0.0 and not self._stop.asked:
                    nap = min(left, self._pace.poll)
                    self._clock.sleep(nap)
                    left -= nap
                pause = min(2 * pause, self._pace.longest_pause)


class SourceReader:
    """Reads from a source that may be unavailable, without blocking: time must pass for pending rows."""

    def __init__(self, source: Source, latest: Checkpoint, clock: Clock, pace: Pace, *, stored: bool) -> None:
        """`latest`: the restored commit. `stored`: whether commits store the position."""
        self._source = source
        self._position = latest.position or None
        self._stored = stored
        self._clock = clock
        self._pace = pace
        self._pause = 0.0  # before the next retry; 0: the source is available
        self._pause_left = 0.0
        self._read_at = 0.0
        self._lag: int | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether the latest read failed."""
        return self._pause > 0.0

    def read(self, patience: float, holds_rows: Callable[[float], bool]) -> Read | None:
        """Return the next rows, or None if none arrive within `patience` seconds.

        An unavailable source is retried with exponential backoff. `holds_rows` gets the seconds since the latest rows
        and delays the next read while it returns true.
        """
        if self._pause_left > 0.0:
            nap = min(self._pause_left, patience)
            self._clock.sleep(nap)
            self._pause_left -= nap
            return None
        if holds_rows(self._clock.now() - self._read_at):
            self._clock.sleep(NAP)
            return None
        try:
            read = self._source.read(patience)
        except UnavailableError as exc:
            self._pause = self._pause_left = min(2 * self._pause or self._pace.first_pause, self._pace.longest_pause)
            LOG.warning("the source is unavailable, retrying in %.1f s: %s", self._pause, exc)
            return None
        self._pause = 0.0
        if read is not None:
            self._read_at = self._clock.now()
        return read

    def has_moved(self) -> bool:
        """Whether the source's position differs from the stored one.

        It can move without rows: the source may have resolved the offset of "now", or skipped messages that are not
        rows and will be deleted.
        """
        return self._stored and (self._source.position() or None) != self._position

    def lag(self) -> int | None:
        """Return the lag of the source; after closing, its last known value."""
        if not self._closed:
            self._lag = self._source.lag()
        return self._lag

    def close(self) -> None:
        """Close the source. May be called twice."""
        self._closed = True
        self._source.close()

    def committed(self, position: Position) -> None:
        """Note that a commit has stored this position."""
        self._position = position or None

    def acknowledge(self, position: Position) -> None:
        """Acknowledge a committed position to the source. A failure is harmless: the next commit acknowledges more."""
        try:
            self._source.acknowledge(position)
        except UnavailableError as exc:
            LOG.warning("cannot acknowledge the position to the source, the next commit will: %s", exc)
