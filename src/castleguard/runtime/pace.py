"""How often a job does what, and when its next commit is due."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from castleguard.runtime.clock import Clock
from castleguard.runtime.segment import Segment

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
