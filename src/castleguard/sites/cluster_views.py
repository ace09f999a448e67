"""Views of other sites' open clusters, and the choice of a cluster to join."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from castleguard.algorithms.dcastle.engine import MemberEngine, OpenClusters
from castleguard.algorithms.facts import Joint
from castleguard.sites.site_messages import Bounds, Join, Retract, Share
from castleguard.sites.wire import Wire

_GROWTH = 1.5  # growth in persons after which a cluster is shared again
_WORTH = 0.5  # maximum loss after joining, as a share of the loss when staying here


@dataclass(frozen=True, eq=False)
class _View:
    """A cluster of another site, as it was last shared."""

    version: int
    persons: int
    lower: Bounds
    upper: Bounds


class Views:
    """The clusters that other sites have shared, and those shared with them."""

    def __init__(self, joint: Joint, engine: MemberEngine, wire: Wire) -> None:
        self._joint = joint
        self._engine = engine
        self._wire = wire
        self._known: dict[tuple[str, int], _View] = {}
        self._shared: dict[int, int] = {}
        """Per own cluster: its number of persons when it was shared."""
        self._asked: dict[int, tuple[str, int, int]] = {}
        """Per own cluster that asked to join another: owner and number of that cluster, and arrivals at that time."""

    # Clusters of other sites

    def learn(self, share: Share) -> None:
        """Update a cluster of another site; ignore an outdated message."""
        known = self._known.get((share.sender, share.cluster))
        if known is None or known.version < share.version:
            self._known[share.sender, share.cluster] = _View(share.version, share.persons, share.lower, share.upper)

    def forget(self, retract: Retract) -> None:
        """Remove retracted clusters."""
        for cluster in retract.clusters:
            self.remove(retract.sender, cluster)

    def remove(self, owner: str, cluster: int) -> None:
        """Remove a cluster that is retracted or being released."""
        self._known.pop((owner, cluster), None)

    def reset(self, site: str) -> None:
        """After a restart of a site: forget its clusters, and share ours again."""
        self._known = {key: view for key, view in self._known.items() if key[0] != site}
        self._shared.clear()

    def joining(self, owner: str, cluster: int, clusters: OpenClusters) -> Iterator[int]:
        """Yield the slots of own clusters that asked to join a cluster of another site."""
        for slot, number in zip(clusters.slot, clusters.number, strict=True):
            if self._asked.get(int(number), ("", 0, 0))[:2] == (owner, cluster):
                yield int(slot)

    # Clusters of this site

    def share(self, clusters: OpenClusters) -> None:
        """Share clusters with enough persons, and retract those that are gone."""
        open_now = set(clusters.number.tolist())
        gone = sorted(self._shared.keys() - open_now)
        if gone:
            for number in gone:
                del self._shared[number]
            self._wire.tell(None, Retract(**self._wire.me, clusters=gone))
        self._asked = {number: asked for number, asked in self._asked.items() if number in open_now}
        for at in np.flatnonzero(clusters.persons >= self._joint.threshold):
            number, persons = int(clusters.number[at]), int(clusters.persons[at])
            if persons < _GROWTH * self._shared.get(number, 0):
                continue
            lower, upper, _ = self._engine.as_published(clusters.lower[at], clusters.upper[at])
            self._shared[number] = persons
            version = self._engine.arrivals
            self._wire.tell(
                None,
                Share(**self._wire.me, cluster=number, version=version, persons=persons, lower=lower, upper=upper),
            )

    def withdraw(self, cluster: int) -> None:
        """Forget an own cluster that is being released: the other sites learn it from Prepare."""
        self._shared.pop(cluster, None)

    def ask_to_join(self, clusters: OpenClusters, at: int, *, again_after: int) -> None:
        """Ask another site to release the cluster that costs least together with one of ours.

        After `again_after` arrivals without a release, ask for another one.
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
