"""What sites know of one another's open clusters, and which of them a cluster that cannot leave alone wants to join."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from castleguard.algorithms.dcastle.engine import MemberEngine, OpenClusters
from castleguard.algorithms.facts import Joint
from castleguard.sites.messages import Bounds, Join, Message, Retract, Share
from castleguard.sites.wire import Wire

_GROWTH = 1.5  # a cluster is told of again when it has so many times the persons
_WORTH = 0.5  # of what a cluster would lose from here: at most so much, or it does not join another one


@dataclass(frozen=True, eq=False)
class _View:
    """A cluster of another site, as it told."""

    version: int
    persons: int
    lower: Bounds
    upper: Bounds


class Views:
    """The clusters that others told of, and those they were told of."""

    def __init__(self, joint: Joint, engine: MemberEngine, wire: Wire) -> None:
        self._joint = joint
        self._engine = engine
        self._wire = wire
        self._known: dict[tuple[str, int], _View] = {}
        self._told: dict[int, int] = {}
        """By own cluster: with how many persons."""
        self._asked: dict[int, tuple[str, int, int]] = {}
        """By own cluster: whose cluster it asked to join, which, and at how many arrivals."""

    # What others say

    def learn(self, told: Share) -> None:
        """A cluster of another site; what is older than what is known is not heard."""
        known = self._known.get((told.sender, told.cluster))
        if known is None or known.version < told.version:
            self._known[told.sender, told.cluster] = _View(told.version, told.persons, told.lower, told.upper)

    def forget(self, told: Retract) -> None:
        """Clusters that are gone."""
        for cluster in told.clusters:
            self.leave(told.sender, cluster)

    def leave(self, owner: str, cluster: int) -> None:
        """A cluster that is being released."""
        self._known.pop((owner, cluster), None)

    def begin_anew(self, site: str) -> None:
        """A site has started: its clusters are others, and it knows nothing of ours."""
        self._known = {key: view for key, view in self._known.items() if key[0] != site}
        self._told.clear()

    def who_joins(self, owner: str, cluster: int, clusters: OpenClusters) -> Iterator[int]:
        """The slots of own clusters that asked to join a cluster of another site."""
        for slot, number in zip(clusters.slot, clusters.number, strict=True):
            if self._asked.get(int(number), ("", 0, 0))[:2] == (owner, cluster):
                yield int(slot)

    # What this site says

    def share(self, clusters: OpenClusters) -> None:
        """Tell of clusters that have enough persons, and of those that are gone."""
        open_now = set(clusters.number.tolist())
        gone = sorted(self._told.keys() - open_now)
        if gone:
            for number in gone:
                del self._told[number]
            self._tell(Retract(**self._wire.me, clusters=gone))
        self._asked = {number: asked for number, asked in self._asked.items() if number in open_now}
        for at in np.flatnonzero(clusters.persons >= self._joint.threshold):
            number, persons = int(clusters.number[at]), int(clusters.persons[at])
            if persons < _GROWTH * self._told.get(number, 0):
                continue
            lower, upper, _ = self._engine.as_published(clusters.lower[at], clusters.upper[at])
            self._told[number] = persons
            version = self._engine.arrivals
            self._tell(
                Share(**self._wire.me, cluster=number, version=version, persons=persons, lower=lower, upper=upper)
            )

    def take_back(self, cluster: int) -> None:
        """An own cluster is being released: whoever takes part learns that from the question."""
        self._told.pop(cluster, None)

    def ask_to_join(self, clusters: OpenClusters, at: int, *, again_after: int) -> None:
        """Ask for the release of the cluster of another site that costs least together with one of ours; another one
        than before, after so many arrivals.
        """
        number = int(clusters.number[at])
        before = self._asked.get(number)
        if before is not None and self._engine.arrivals - before[2] < again_after:
            return
        keys = [key for key, view in self._known.items() if view.persons + clusters.persons[at] >= self._joint.k]
        if before is not None:
            keys = [key for key in keys if key != before[:2]]
        if not keys:
            return
        bounds = tuple(np.array([getattr(self._known[key], side) for key in keys]) for side in ("lower", "upper"))
        lower, upper, _ = self._engine.as_published(clusters.lower[at], clusters.upper[at])
        losses = self._engine.union_losses(lower, upper, (bounds[0], bounds[1]))
        best = int(np.argmin(losses))
        if losses[best] > _WORTH * self._engine.loss_from_here(int(clusters.slot[at])):
            return
        owner, cluster = keys[best]
        self._asked[number] = (owner, cluster, self._engine.arrivals)
        self._wire.tell(owner, Join(**self._wire.me, cluster=cluster, version=self._known[keys[best]].version))

    def _tell(self, message: Message) -> None:
        self._wire.tell(None, message)
