"""A clock that moves when it is told to: hours of a job in no time."""


class ManualClock:
    """Keeps the contract of `clock.Clock`; sleeping moves it."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._elapsed = 0.0
        self.slept = 0.0
        """How many seconds were slept away in all."""

    def now(self) -> float:
        """The time that it was moved to."""
        return self._now

    def elapsed(self) -> float:
        """How many seconds have passed, wherever it was set to meanwhile."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Move on at once."""
        self.slept += seconds
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._elapsed += seconds

    def set(self, now: float) -> None:
        """Show another time, though none has passed: what people and time servers do."""
        self._now = now
