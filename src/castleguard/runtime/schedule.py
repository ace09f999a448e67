"""Delivery times of a stream that promises presence: set by the clock alone, independent of the rows.

Where presence is promised, nothing observable may depend on unreleased rows: neither the time of a delivery nor which
rows are delivered together. A job therefore delivers each window as a whole, at the end of the window plus a fixed lag.
During the lag it closes the window and stores the released rows; commits in between deliver nothing. The proof is in
docs/proofs/sdgs.md.
"""

from typing import Protocol


class Windowed(Protocol):
    """The properties of a stream that a schedule reads."""

    @property
    def edge(self) -> float | None:
        """End of the open window; None before the stream's first `now`."""

    @property
    def lag(self) -> float | None:
        """Seconds from the end of a window to its delivery; None if presence is not promised."""


class Schedule:
    """When to close and when to deliver each window. Depends only on the stream's time."""

    def __init__(self, stream: Windowed, lag: float) -> None:
        self._stream = stream
        self._lag = lag
        self._open_until = stream.edge

    @property
    def edge(self) -> float | None:
        """End of the open window; None if none is open yet."""
        return self._stream.edge

    def due(self) -> float | None:
        """Return when the rows released by the latest call of the stream are due; None if no window was open.

        Must be called after every call of the stream.
        """
        edge, self._open_until = self._open_until, self._stream.edge
        return None if edge is None else edge + self._lag

    def has_passed(self, now: float) -> bool:
        """Whether the stream needs a tick before the next read: its window has ended, or none is open yet."""
        return self.edge is None or now >= self.edge

    def patience(self, now: float, most: float) -> float:
        """Seconds that a read may wait, at `most`, if the window is to be closed at its end."""
        return most if self.edge is None else min(most, max(self.edge - now, 0.0))


def schedule_of(stream: Windowed) -> Schedule | None:
    """Return the schedule of a stream; None if presence is not promised and rows are delivered when released."""
    return None if stream.lag is None else Schedule(stream, stream.lag)
