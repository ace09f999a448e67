"""ManualClock: a clock that a test advances, so that hours of a job pass at once."""


class ManualClock:
    """Implements `runtime.clock.Clock`; sleeping advances it."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._elapsed = 0.0
        self.slept = 0.0
        """Total seconds slept."""

    def now(self) -> float:
        """Return the current time."""
        return self._now

    def elapsed(self) -> float:
        """Return the seconds that have passed, regardless of `set`."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Advance the clock at once."""
        self.slept += seconds
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds
        self._elapsed += seconds

    def set(self, now: float) -> None:
        """Jump to another time without elapsed seconds, as people and time servers do."""
        self._now = now
