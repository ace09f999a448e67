"""Deadlines of one site: which rows are due, how long answers may take, and what the log may have dropped."""

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import MemberEngine, OpenClusters
from castleguard.algorithms.facts import Joint
from castleguard.connectors.base import LOG_KEPT_DAYS
from castleguard.sites.joint_releases import Moment, Positions, Throttle

_ANSWER_SECONDS = 2.0  # maximum wait for answers
_KEPT_SECONDS = (LOG_KEPT_DAYS - 1) * 86_400.0


class Deadlines:
    """Time of one site, in arrivals and in seconds."""

    def __init__(self, joint: Joint, engine: MemberEngine) -> None:
        self._joint = joint
        self._engine = engine
        self._throttle = Throttle(delay=joint.delay, slow=2 * joint.step)
        self.ending = False
        """Whether the stream is about to end: every row must leave soon."""
        self.now = 0.0
        self.knows_time = True
        """False after a restore until a turn gives the time: the snapshot may be old."""

    def advance(self, now: float) -> None:
        """Set the time, unless it is unknown."""
        if np.isfinite(now):
            self.now = max(self.now, now)
            self.knows_time = True

    def record(self, began: int) -> None:
        """Record a decision about rows that were locked at arrival `began`."""
        self._throttle.record(began, self._moment)

    def in_time(self, positions: Positions) -> NDArray[np.bool_]:
        """Mask of the rows that are not due before others can answer."""
        left = positions + self._joint.delay - self._engine.arrivals >= self.patience
        if self._joint.max_wait is not None:
            due = self._engine.arrived(positions) + self._joint.max_wait
            left &= due - self.now >= self.patience_seconds
        return left

    def is_due(self, positions: Positions, arriving: int) -> bool:
        """Whether one of the rows would be due before the next turn, after `arriving` more rows."""
        oldest = int(positions.min())
        if oldest + self._joint.delay < self._engine.arrivals + arriving + 1:
            return True
        if self._joint.max_wait is None:
            return False
        return float(self._engine.arrived(np.array([oldest]))[0]) + self._joint.max_wait <= self.now

    def must_leave(self, clusters: OpenClusters) -> list[int]:
        """Return the clusters with a row that must leave soon; all of them at the end of the stream."""
        waited = self._engine.arrivals - clusters.oldest >= (1.0 - self._joint.reserve) * self._joint.delay
        if self._joint.max_wait is not None:
            since = self.now - self._engine.arrived(clusters.oldest)
            waited |= since >= (1.0 - self._joint.reserve) * self._joint.max_wait
        return [int(at) for at in np.flatnonzero(waited | self.ending)]

    def may_be_expired(self, made: float) -> bool:
        """Whether the log may have dropped the record of a release of that time, as far as is known.

        Writing a second record could publish rows twice, so the outcome of such old rows stays unknown.
        """
        return not self.knows_time or self.now - made > _KEPT_SECONDS

    @property
    def _moment(self) -> Moment:
        return Moment(self._engine.arrivals, self.now)

    @property
    def is_paused(self) -> bool:
        """Whether locking rows for others is paused; never at the end, where no more rows arrive."""
        return not self.ending and self._throttle.is_paused(self._moment)

    def has_room(self, releases: int) -> bool:
        """Whether another release may be proposed while `releases` are open.

        At the end one at a time: several would lock each other's rows.
        """
        return not releases if self.ending else self._throttle.has_room(self._moment, releases)

    @property
    def pace(self) -> int:
        """Arrivals between two scans of the clusters."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 16)

    @property
    def patience(self) -> int:
        """Arrivals to wait for answers."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 2)

    @property
    def patience_seconds(self) -> float:
        """Seconds to wait for answers."""
        wait = self._joint.max_wait
        return _ANSWER_SECONDS if wait is None else min(_ANSWER_SECONDS, self._joint.reserve * wait / 4)
