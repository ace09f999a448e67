"""How often a job does what, and how it tries again what is not available now, with growing pauses."""

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
"""Seconds between two looks at what is awaited."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a job does what."""

    every: float = 5.0
    """Seconds between two commits, at most, while there is something to commit."""
    poll: float = 0.2
    """Seconds to wait for rows before the clock is looked at."""
    most_rows: int = 500_000
    """Released and rejected rows at which a commit comes early: what bounds the memory of a segment."""
    first_pause: float = 0.1
    """Seconds before something unavailable is tried again; doubled each time."""
    longest_pause: float = 30.0
    urgent: float = 0.01
    """Seconds between two commits, at least, when one is asked for; and not more than half of the time."""


_Result = TypeVar("_Result")


class Retry:
    """Calls until it works, with growing pauses; `tell` is called before each of them."""

    def __init__(self, clock: Clock, pace: Pace, stop: Stop, tell: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._pace = pace
        self._stop = stop
        self._tell = tell

    def until_available(self, call: Callable[[], _Result], what: str) -> _Result:
        """What `call` returns when it works. A job that is told to stop does not wait for ever: it leaves, and
        continues where it stands.
        """
        pause = self._pace.first_pause
        while True:
            try:
                return call()
            except UnavailableError as exc:
                self._tell()
                if self._stop.asked:
                    raise
                LOG.warning("%s is not available, trying again in %.1f s: %s", what, pause, exc)
                left = pause
                while left > 0.0 and not self._stop.asked:
                    nap = min(left, self._pace.poll)
                    self._clock.sleep(nap)
                    left -= nap
                pause = min(2 * pause, self._pace.longest_pause)


class SourceReader:
    """Reads from a source that may be away: then it returns no rows, so that the clock goes on for pending ones."""

    def __init__(self, source: Source, latest: Checkpoint, clock: Clock, pace: Pace, *, stored: bool) -> None:
        """`latest`: the commit to go on from. `stored`: whether commits are stored, and positions with them."""
        self._source = source
        self._position = latest.position or None
        self._stored = stored
        self._clock = clock
        self._pace = pace
        self._pause = 0.0  # between two attempts at a source that is away; 0: it is not
        self._pause_left = 0.0
        self._read_at = 0.0
        self._lag: int | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether the latest attempt failed."""
        return self._pause > 0.0

    def read(self, patience: float, holds_rows: Callable[[float], bool]) -> Read | None:
        """The next rows, or None if none came within `patience` seconds. A source that is away is tried again after
        growing pauses; `holds_rows`, asked with the seconds since the latest rows, puts off the next ones.
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
            LOG.warning("the source is not available, trying again in %.1f s: %s", self._pause, exc)
            return None
        self._pause = 0.0
        if read is not None:
            self._read_at = self._clock.now()
        return read

    def has_moved(self) -> bool:
        """Whether the source stands elsewhere than the latest stored commit says, also without any row: it may have
        found out where "now" is, or stepped over what is not for it and will be deleted.
        """
        return self._stored and (self._source.position() or None) != self._position

    def lag(self) -> int | None:
        """What the source says; once it is closed, what it said last."""
        if not self._closed:
            self._lag = self._source.lag()
        return self._lag

    def close(self) -> None:
        """Close the source. May be called twice."""
        self._closed = True
        self._source.close()

    def committed(self, position: Position) -> None:
        """A commit has stored this position."""
        self._position = position or None

    def acknowledge(self, position: Position) -> None:
        """Tell the source what is safe. A failure costs nothing: the next commit acknowledges more."""
        try:
            self._source.acknowledge(position)
        except UnavailableError as exc:
            LOG.warning("the source was not told what is safe, the next commit tells it: %s", exc)
