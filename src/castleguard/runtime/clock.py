"""The time of a job: the clock that it looks at, and the time that it tells its stream."""

import math
import time
from typing import Protocol

from castleguard.errors import UsageError
from castleguard.privacy.parameters import is_number
from castleguard.schema.arguments import kind_of
from castleguard.telemetry.logs import LOG


class Clock(Protocol):
    """The time, and how to let it pass."""

    def now(self) -> float:
        """Seconds since some origin that is the same after a restart. May leap, ahead and back: people set clocks."""

    def elapsed(self) -> float:
        """Seconds that have passed since some moment before this process did anything. Never leaps."""

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""


class WallClock:
    """The time of the machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the machine was started, or so."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class StreamTime:
    """What a stream is told as `now`: what the clock shows, and never less than before.

    A clock that was far ahead once has taken the stream's time with it, also over a restart: that is in the snapshot,
    and cannot be taken back, because ledgers and windows have seen it. Where the clock shows less than that, the time
    goes on by what really passes, so that `max_wait` is kept. It never goes on faster: a window of a ledger that were
    over too early would let a person spend twice. When the clock has caught up, it leads again.
    """

    def __init__(self, clock: Clock, latest: float) -> None:
        """`latest` is what the stream was told last; minus infinity if nothing."""
        self._clock = clock
        self._now = latest
        self._looked_at = clock.elapsed()
        self._behind = False
        self.now()

    def now(self) -> float:
        """Look at the clock."""
        shown, looked_at = self._clock.now(), self._clock.elapsed()
        self._now = max(shown, self._now + (looked_at - self._looked_at))
        self._looked_at = looked_at
        self._warn(self._now - shown)
        return self._now

    def _warn(self, behind: float) -> None:
        """Say once that the clock is behind; again if it has been right meanwhile."""
        if behind > _WORTH_A_WORD and not self._behind:
            LOG.warning(
                "the clock shows %s less than the stream has been told before: it was ahead then, or it is behind now. "
                "The stream's time goes on by what passes while the job runs, and max_wait with it; draining the job "
                "begins a stream with the time of the clock, unless rows of a person are counted in windows of seconds",
                _spelt(behind),
            )
        self._behind = behind > _WORTH_A_WORD


_WORTH_A_WORD = 60.0  # seconds


def _spelt(seconds: float) -> str:
    """A length of time in the unit that people would use.

    >>> _spelt(90), _spelt(7200), _spelt(90 * 86400)
    ('90 seconds', '2 hours', '90 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * length:
            return f"{math.floor(seconds / length):,} {unit}"
    return f"{seconds:.0f} seconds"


def advanced(before: float, now: float | None, *, needed: bool) -> float:
    """The time of a stream after it was told `now`, which never goes back; `needed`: its policy counts seconds."""
    if now is None:
        if needed and before == -math.inf:
            raise UsageError(
                "the policy counts seconds (max_wait, a window): say when the rows arrive, push(batch, now=seconds)"
            )
        return before
    if not is_number(now):
        raise UsageError(f"now must be a number of seconds, got {kind_of(now)}")
    if not math.isfinite(now):
        raise UsageError(f"now must be a finite number of seconds, got {now}")
    if now < before:
        raise UsageError(f"now must not go back: it was {before}, got {now}")
    return float(now)
