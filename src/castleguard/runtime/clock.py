"""The clock of a job, and the time that it passes to its stream."""

import math
import time
from typing import Protocol

from castleguard.errors import UsageError
from castleguard.privacy.parameters import is_number
from castleguard.schema.arguments import kind_of
from castleguard.telemetry.logs import LOG


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Seconds since an origin that survives restarts. May jump forwards or backwards: people set clocks."""

    def elapsed(self) -> float:
        """Seconds since an arbitrary moment before this process started. Never jumps."""

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class WallClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds on the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class StreamTime:
    """The `now` of a stream: the clock, made monotonic.

    A clock that once ran far ahead leaves the stream's time ahead too, even after a restart: the time is part of the
    snapshot and cannot go back, because ledgers and windows have used it. While the clock is behind, the stream's time
    advances by the elapsed time, which keeps `max_wait`. It never advances faster: a ledger's window that ended too
    early would let a person spend the budget twice. Once the clock has caught up, the stream follows it again.
    """

    def __init__(self, clock: Clock, latest: float) -> None:
        """`latest`: the latest time that the stream has; minus infinity if none."""
        self._clock = clock
        self._now = latest
        self._read_at = clock.elapsed()
        self._behind = False
        self.now()

    def now(self) -> float:
        """Read the clock and return the stream's time."""
        shown, read_at = self._clock.now(), self._clock.elapsed()
        self._now = max(shown, self._now + (read_at - self._read_at))
        self._read_at = read_at
        self._warn(self._now - shown)
        return self._now

    def _warn(self, behind: float) -> None:
        """Warn once each time that the clock falls behind."""
        if behind > _TOLERATED and not self._behind:
            LOG.warning(
                "the clock is %s behind the stream's time: it ran ahead earlier, or it is slow now. Until it catches "
                "up, the stream's time and max_wait advance only while the job runs. To return to the clock's time, "
                "drain the job; this does not help if rows per person are counted in windows of seconds",
                _format_duration(behind),
            )
        self._behind = behind > _TOLERATED


_TOLERATED = 60.0  # seconds


def _format_duration(seconds: float) -> str:
    """Format a duration for a log line.

    >>> _format_duration(90), _format_duration(7200), _format_duration(90 * 86400)
    ('90 seconds', '2 hours', '90 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * length:
            return f"{math.floor(seconds / length):,} {unit}"
    return f"{seconds:.0f} seconds"


def advance(before: float, now: float | None, *, needed: bool) -> float:
    """Return the time of a stream after a call with `now`, which must not decrease; `needed`: `now` is required."""
    if now is None:
        if needed and before == -math.inf:
            raise UsageError(
                "the policy counts seconds (max_wait or a window): pass the arrival time, push(batch, now=seconds)"
            )
        return before
    if not is_number(now):
        raise UsageError(f"now must be a number of seconds, got {kind_of(now)}")
    if not math.isfinite(now):
        raise UsageError(f"now must be a finite number of seconds, got {now}")
    if now < before:
        raise UsageError(f"now must not go back: it was {before}, got {now}")
    return float(now)
