"""Telling a watcher how a job stands, about once a second."""

from collections.abc import Callable
from contextlib import suppress

from castleguard.runtime.clock import Clock
from castleguard.telemetry.metrics import Status

_EVERY = 1.0  # seconds


class Telling:
    """Calls `watch` with what `status` returns, when the state changes and about once a second."""

    def __init__(self, watch: Callable[[Status], None], status: Callable[[], Status], clock: Clock) -> None:
        self._watch = watch
        self._status = status
        self._clock = clock
        self._told_at = 0.0
        self.state = "starting"
        self.opened = False
        """Whether there is a status to tell."""

    def tell(self, state: str, *, at_once: bool = False) -> None:
        """Tell it, but not all the time."""
        now = self._clock.now()
        if at_once or state != self.state or not 0.0 <= now - self._told_at < _EVERY:
            self.state, self._told_at = state, now
            if self.opened:
                self._watch(self._status())

    def tell_waiting(self) -> None:
        """Tell that something is not available."""
        self.tell("waiting", at_once=True)

    def tell_failure(self) -> None:
        """The last word of a job that dies of an error. A failure of the watcher must not hide that error."""
        with suppress(Exception):
            self.tell("failed", at_once=True)
