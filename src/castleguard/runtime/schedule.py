"""The moments at which a stream that promises presence is delivered: by the clock, whatever rows there are.

Where presence is promised, nothing that shows may depend on rows that are not released: neither the moment of a
delivery, nor what is delivered together. So a job delivers a window as a whole, at its edge plus a fixed lag. Within
the lag it closes the window and stores what that released; commits in between deliver nothing. docs/proofs/sdgs.md has
the proof.
"""

from typing import Protocol


class Windowed(Protocol):
    """What a schedule asks of a stream."""

    @property
    def edge(self) -> float | None:
        """The end of the open window; None before the stream was told the time."""

    @property
    def lag(self) -> float | None:
        """Seconds from the end of a window to its delivery; None where presence is not promised."""


class Schedule:
    """When to close windows and when to deliver them. Reads nothing but the stream's time."""

    def __init__(self, stream: Windowed, lag: float) -> None:
        self._stream = stream
        self._lag = lag
        self._open_until = stream.edge

    @property
    def edge(self) -> float | None:
        """The end of the open window; None if none is open yet."""
        return self._stream.edge

    def due(self) -> float | None:
        """Ask after every call of the stream: when what that call released is delivered. None if no window was open."""
        edge, self._open_until = self._open_until, self._stream.edge
        return None if edge is None else edge + self._lag

    def has_passed(self, now: float) -> bool:
        """Whether the stream must be told the time before more is read: a window has ended, or none is open yet."""
        return self.edge is None or now >= self.edge

    def patience(self, now: float, most: float) -> float:
        """Seconds for which a read may wait, so that the window is closed at its edge."""
        return most if self.edge is None else min(most, max(self.edge - now, 0.0))


def schedule_of(stream: Windowed) -> Schedule | None:
    """The schedule of a stream; None where presence is not promised, and rows are delivered as they are released."""
    return None if stream.lag is None else Schedule(stream, stream.lag)
