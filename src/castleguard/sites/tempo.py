"""How much a site takes part: as long as others agree faster than its own rows arrive, more and more; else hardly.

Locked rows are missing in the clusters of their site. While only few rows arrive before they are decided that does no
harm; where many do, the groups that are made of the others lose more than those that are made together gain.
"""

_MOST = 128  # releases that are open at once


class Tempo:
    """Measured in arrivals."""

    def __init__(self, *, delay: int, slow: int) -> None:
        """`slow`: arrivals that are too many for an agreement."""
        self._delay = delay
        self._slow = slow
        self._window = 1
        self._pause_until = 0

    def took(self, began: int, now: int) -> None:
        """Rows were locked at so many arrivals, and have been decided at so many."""
        if now - began > self._slow:
            self._window = 1
            self._pause_until = now + self._delay // 4
        else:
            self._window = min(2 * self._window, _MOST)

    def is_paused(self, now: int) -> bool:
        """Whether no rows should be locked."""
        return now < self._pause_until

    def has_room(self, now: int, releases: int) -> bool:
        """Whether another release may be proposed, while so many are open."""
        return releases < self._window and not self.is_paused(now)
