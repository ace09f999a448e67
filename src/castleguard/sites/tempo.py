"""How much a site takes part: as long as others agree faster than its own rows arrive, more and more; else hardly.

Locked rows are missing in the clusters of their site. While only few rows arrive before they are decided that does no
harm; where many do, the groups that are made of the others lose more than those that are made together gain.
"""

from typing import NamedTuple

_MOST = 128  # releases that are open at once
_PAUSE = 5.0  # seconds after which a pause ends, if too few rows arrive


class Moment(NamedTuple):
    """When something is."""

    arrivals: int
    seconds: float


class Tempo:
    """How long agreements take, in arrivals."""

    def __init__(self, *, delay: int, slow: int) -> None:
        """`slow`: arrivals that are too many for an agreement."""
        self._delay = delay
        self._slow = slow
        self._window = 1
        self._paused: Moment | None = None

    def took(self, began: int, now: Moment) -> None:
        """Rows were locked at so many arrivals, and have been decided now."""
        if now.arrivals - began > self._slow:
            self._window = 1
            self._paused = now
        else:
            self._window = min(2 * self._window, _MOST)

    def is_paused(self, now: Moment) -> bool:
        """Whether no rows should be locked."""
        since = self._paused
        if since is not None and (
            now.arrivals - since.arrivals >= self._delay // 4 or now.seconds - since.seconds >= _PAUSE
        ):
            self._paused = None
        return self._paused is not None

    def has_room(self, now: Moment, releases: int) -> bool:
        """Whether another release may be proposed, while so many are open."""
        return releases < self._window and not self.is_paused(now)
