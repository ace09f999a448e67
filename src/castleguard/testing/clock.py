"""A clock that moves when it is told to: hours of a job in no time."""


class ManualClock:
    """Keeps the contract of `pipeline.Clock`; sleeping moves it."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self.slept = 0.0
        """How many seconds were slept away in all."""

    def now(self) -> float:
        """The time that it was moved to."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move on at once."""
        self.slept += seconds
        self._now += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
