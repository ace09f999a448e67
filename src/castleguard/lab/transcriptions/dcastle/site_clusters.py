"""Clusters of one site of dCASTLE (3.2, 3.6): its own, and the reusable generalisations.

Values compared over all clusters at once (boxes, losses, sizes) are in arrays; those of one cluster (rows, persons,
values, the shared part) in its object. Both are in the order of creation or arrival, which breaks ties.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from castleguard.lab.transcriptions.dcastle.paper_messages import ClusterId, Record
from castleguard.lab.transcriptions.dcastle.space import Bounds, Box, Losses, Space


@dataclass(frozen=True, eq=False)
class Shared:
    """Shared part of a cluster, without rows."""

    size: int
    lower: Bounds
    upper: Bounds
    values: frozenset[Hashable]

    def joined(self, other: "Shared") -> "Shared":
        """Join two shared parts: sizes add up, even if persons occur in both."""
        lower, upper = np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper)
        return Shared(self.size + other.size, lower, upper, self.values | other.values)


@dataclass(eq=False)
class Cluster:
    """Rows of this site, and the part shared by another one."""

    id: ClusterId
    rows: list[int] = field(default_factory=list)  # positions, ascending
    persons: Counter[Hashable] = field(default_factory=Counter)
    own_values: Counter[Hashable] = field(default_factory=Counter)
    shared: Shared | None = None

    def insert(self, position: int, person: Hashable, value: Hashable) -> None:
        """Add a row."""
        insort(self.rows, position)
        self.persons[person] += 1
        self.own_values[value] += 1

    def remove(self, position: int, person: Hashable, value: Hashable) -> None:
        """Remove a row."""
        del self.rows[bisect_left(self.rows, position)]
        for tally, key in ((self.persons, person), (self.own_values, value)):
            tally[key] -= 1
            if not tally[key]:
                del tally[key]

    def take(self, other: "Cluster") -> None:
        """Merge with another cluster."""
        self.rows = sorted(self.rows + other.rows)
        self.persons += other.persons
        self.own_values += other.own_values
        if self.shared is None:
            self.shared = other.shared
        elif other.shared is not None:
            self.shared = self.shared.joined(other.shared)

    @property
    def is_empty(self) -> bool:
        """Whether it has neither rows nor a shared part."""
        return not self.rows and self.shared is None

    @property
    def size(self) -> int:
        """Distinct persons here plus the shared size."""
        return len(self.persons) + (0 if self.shared is None else self.shared.size)

    @property
    def values(self) -> frozenset[Hashable]:
        """Distinct sensitive values, here and shared."""
        own = frozenset(self.own_values)
        return own if self.shared is None else own | self.shared.values

    @property
    def diversity(self) -> int:
        """Number of distinct sensitive values."""
        return len(self.own_values) if self.shared is None else len(self.shared.values | self.own_values.keys())


class Gamma:
    """Clusters of a site. Index i of every array, up to the number of clusters, is clusters[i]."""

    def __init__(self, space: Space, capacity: int) -> None:
        self.clusters: list[Cluster] = []
        self.most = 0  # most clusters at any time
        self._space = space
        self._lower, self._upper = np.empty((2, space.columns, capacity))
        self._loss = np.empty(capacity)
        self._size, self._diversity = np.empty((2, capacity), dtype=np.int64)
        self._unsent = np.empty(capacity, dtype=np.bool_)

    @property
    def lower(self) -> Bounds:
        """(columns, clusters): lower bounds of the smallest boxes around the rows and the shared parts."""
        return self._lower[:, : len(self.clusters)]

    @property
    def upper(self) -> Bounds:
        """(columns, clusters)."""
        return self._upper[:, : len(self.clusters)]

    @property
    def loss(self) -> Losses:
        """(clusters,): losses of their boxes."""
        return self._loss[: len(self.clusters)]

    @property
    def size(self) -> NDArray[np.int64]:
        """(clusters,)."""
        return self._size[: len(self.clusters)]

    @property
    def diversity(self) -> NDArray[np.int64]:
        """(clusters,)."""
        return self._diversity[: len(self.clusters)]

    @property
    def unsent(self) -> NDArray[np.bool_]:
        """(clusters,) created here, and not yet shared."""
        return self._unsent[: len(self.clusters)]

    def index(self, cluster: Cluster) -> int:
        """Index of a cluster."""
        return self.clusters.index(cluster)

    def find(self, id: ClusterId) -> Cluster | None:
        """The cluster of that name, or None."""
        return next((cluster for cluster in self.clusters if cluster.id == id), None)

    def append(self, cluster: Cluster, lower: Bounds, upper: Bounds, *, own: bool) -> None:
        """Add a cluster with its box."""
        at = len(self.clusters)
        if at == self._loss.size:
            self._grow()
        self.clusters.append(cluster)
        self.most = max(self.most, at + 1)
        self._unsent[at] = own
        self.place(at, lower, upper)
        self.count(at)

    def discard(self, cluster: Cluster) -> None:
        """Remove a cluster; those after it move up."""
        at, end = self.index(cluster), len(self.clusters)
        del self.clusters[at]
        for array in (self._lower, self._upper, self._loss, self._size, self._diversity, self._unsent):
            array[..., at : end - 1] = array[..., at + 1 : end]

    def place(self, at: int, lower: Bounds, upper: Bounds, loss: float | None = None) -> None:
        """Set a cluster's box; its loss may be known."""
        self._lower[:, at], self._upper[:, at] = lower, upper
        self._loss[at] = self._space.loss(lower, upper) if loss is None else loss

    def count(self, at: int) -> None:
        """Update sizes after persons and values of a cluster have changed."""
        cluster = self.clusters[at]
        self._size[at], self._diversity[at] = cluster.size, cluster.diversity

    def published(self, at: int) -> tuple[Bounds, Bounds]:
        """A cluster's generalisation."""
        return self._space.published(self._lower[:, at], self._upper[:, at])

    def record(self, at: int, *, size: int) -> Record:
        """The part of a cluster that others are sent."""
        cluster = self.clusters[at]
        return Record(cluster.id, size, self._space.box(*self.published(at)), cluster.values)

    def _grow(self) -> None:
        for name in ("_lower", "_upper", "_loss", "_size", "_diversity", "_unsent"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, array], axis=-1))


class Omega:
    """Reusable generalisations of a site, in order of admission, without duplicates."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._bounds = np.empty((2, space.columns, 64))
        self._boxes: list[Box] = []
        self._losses: list[float] = []
        self._known: set[Box] = set()

    def admit(self, box: Box, loss: float) -> None:
        """Add a reusable generalisation."""
        if box in self._known:
            return
        count = len(self._boxes)
        if count == self._bounds.shape[-1]:
            self._bounds = np.concatenate([self._bounds, self._bounds], axis=-1)
        self._bounds[:, :, count] = self._space.bounds(box)
        self._boxes.append(box)
        self._losses.append(loss)
        self._known.add(box)

    def containing(self, point: Bounds) -> NDArray[np.intp]:
        """Numbers of those that contain the point."""
        lower, upper = self._bounds[:, :, : len(self._boxes)]
        inside = (lower <= point[:, None]) & (point[:, None] <= upper)
        return np.flatnonzero(inside.all(axis=0))

    def __getitem__(self, number: int) -> tuple[Box, float]:
        """A generalisation and its loss."""
        return self._boxes[number], self._losses[number]
