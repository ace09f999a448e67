"""One site of dCASTLE as printed (section 4), fast enough for experiments. Its methods are the paper's procedures.

Where the paper is silent or contradicts itself, this follows the readings that its transcription in `tests/reference`
lists and explains; the two agree event by event. The paper's defects are kept: a site counts persons of other sites
that are never published with its own, so groups below k are published. Not for real data.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from castleguard.lab.transcriptions.dcastle.arrived_rows import Rows
from castleguard.lab.transcriptions.dcastle.cluster_split import Part, Split
from castleguard.lab.transcriptions.dcastle.paper_messages import Case, Message, Record, Release
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.site_clusters import Cluster, Gamma, Omega, Shared
from castleguard.lab.transcriptions.dcastle.space import EPS, Bounds, Box, Losses, Space

Chooser = Callable[[str, int, int], int]
"""Purpose, position of the row whose turn it is, n: a number in [0, n). Asked only where n is at least 2.

Purposes are "tie", "merge_tie", "reuse", "person_row", "seed_bucket" and "row_in_bucket". For a cluster that is output
because of a message the position is that of its oldest row here.
"""

Indices = NDArray[np.intp]  # of clusters, ascending


class Site:
    """Site `number`, initially empty. Every row that arrives is released exactly once."""

    def __init__(self, number: int, space: Space, policy: PaperPolicy, choose: Chooser) -> None:
        self.number = number
        self.rows = Rows(space.columns)
        self.gamma = Gamma(space, 2 * policy.max_clusters)
        self.omega = Omega(space)
        self.threshold = 0.0  # tau
        self.outbox: list[Message] = []  # sent messages, until the network takes them
        self.space = space
        self._policy = policy
        self._choose = choose
        self._split = Split(space, self.rows, policy.k, policy.l)
        self._home: dict[int, Cluster] = {}  # of every pending row
        self._persons: Counter[Hashable] = Counter()  # of all pending rows
        self._oldest = 0  # no row before it is pending
        self._created = 0
        self._losses: deque[float] = deque(maxlen=policy.loss_window)

    @property
    def pending(self) -> int:
        """Pending rows."""
        return len(self._home)

    # 4.3: dCASTLE

    def receive(self, point: Bounds, person: Hashable, value: Hashable) -> list[Release]:
        """Handle an arriving row."""
        self._send_recent_clusters()
        position = self.rows.append(point, person, value)
        self._insert_best(position)
        expiring = position - self._policy.delay
        return self._expire(expiring) if expiring in self._home else []

    def expire_oldest(self) -> list[Release]:
        """Release the oldest row."""
        while self._oldest not in self._home:
            self._oldest += 1
        return self._expire(self._oldest)

    def _send_recent_clusters(self) -> None:
        """One message with all of this site's clusters that are large enough and not yet shared."""
        recent = np.flatnonzero(self.gamma.unsent & (self.gamma.size >= self._policy.share_from))
        if recent.size:
            records = [self.gamma.record(int(at), size=int(self.gamma.size[at])) for at in recent]
            self.outbox.append(Message("create", self.number, tuple(records)))
            self.gamma.unsent[recent] = False

    # 4.4: dUpdateClusters

    def update(self, message: Message) -> list[Release]:
        """Handle an arriving message."""
        if message.kind == "create":
            for record in message.clusters:
                shared = self._shared(record)
                self.gamma.append(Cluster(record.id, shared=shared), shared.lower, shared.upper, own=False)
            return []
        (record,) = message.clusters
        cluster = self.gamma.find(record.id)
        if cluster is None:
            return []
        if message.kind == "output":
            cluster.shared = self._shared(record)
            self._measure(cluster)
            event = cluster.rows[0] if cluster.rows else len(self.rows)
            return self._output_cluster(cluster, event, "message")
        cluster.shared = None
        self._measure_or_drop(cluster)
        return []

    # 4.5: Algorithm 1, dBestSelection

    def _insert_best(self, position: int) -> None:
        """Put the row into the best cluster, or open a new one."""
        gamma = self.gamma
        point = self.rows.points[:, position, None]
        lower, upper = np.minimum(gamma.lower, point), np.maximum(gamma.upper, point)
        losses = self.space.losses(lower, upper)
        at = self._best(losses, position) if gamma.clusters else None
        person, value = self.rows.persons[position], self.rows.values[position]
        if at is None:
            cluster = Cluster((self.number, self._created))
            self._created += 1
            cluster.insert(position, person, value)
            gamma.append(cluster, point[:, 0], point[:, 0], own=True)
        else:
            cluster = gamma.clusters[at]
            cluster.insert(position, person, value)
            gamma.place(at, lower[:, at], upper[:, at], float(losses[at]))
            gamma.count(at)
        self._home[position] = cluster
        self._persons[person] += 1

    def _best(self, losses: Losses, position: int) -> int | None:
        """Choose a cluster by the losses with the row inside; None asks for a new one."""
        cheapest = _least(losses - self.gamma.loss)
        good = cheapest[(losses[cheapest] <= self.threshold + EPS) & (self.gamma.size[cheapest] <= self._policy.k)]
        if good.size:
            return self._smallest(good, "tie", position)
        if len(self.gamma.clusters) < self._policy.max_clusters:
            return None
        return self._smallest(cheapest, "tie", position)

    # 4.6: dDelayConstraint

    def _expire(self, position: int) -> list[Release]:
        """Output the row: five cases, checked in order."""
        gamma = self.gamma
        cluster = self._home[position]
        own = gamma.index(cluster)
        ready = (gamma.size >= self._policy.k) & (gamma.diversity >= self._policy.l)

        better = np.flatnonzero(ready & (gamma.loss < gamma.loss[own] - EPS))
        if better.size:  # case 1
            best = gamma.clusters[int(better[_least(gamma.loss[better])[0]])]
            self._move(position, cluster, best)
            return self._output_cluster(best, position, 1)

        if ready[own]:  # case 2
            return self._output_cluster(cluster, position, 2)

        containing = self.omega.containing(self.rows.points[:, position])
        if containing.size:  # case 3
            chosen = int(containing[self._pick("reuse", position, containing.size)])
            return self._output_alone(position, cluster, 3, *self.omega[chosen])

        larger = np.count_nonzero(gamma.size > gamma.size[own])
        if 2 * larger > len(gamma.clusters):  # case 4
            return self._output_alone(position, cluster, 4, self.space.root, self.space.root_loss)

        if self._would_be_ready():  # case 5
            self._merge(cluster, position)
            return self._output_cluster(cluster, position, 5)
        return self._output_alone(position, cluster, 5, self.space.root, self.space.root_loss)

    # 4.7: Algorithm 2, dMergeClusters

    def _merge(self, cluster: Cluster, event: int) -> None:
        """Merge the cluster with its nearest neighbours, whichever site their rows are at, until it is ready."""
        gamma = self.gamma
        while not (cluster.size >= self._policy.k and cluster.diversity >= self._policy.l):
            own = gamma.index(cluster)
            lower = np.minimum(gamma.lower, gamma.lower[:, own, None])
            upper = np.maximum(gamma.upper, gamma.upper[:, own, None])
            enlargements = self.space.losses(lower, upper) - gamma.loss[own]
            others = np.delete(np.arange(enlargements.size), own)
            nearest = self._smallest(others[_least(enlargements[others])], "merge_tie", event)
            neighbour = gamma.clusters[nearest]
            withdrawn = gamma.record(nearest, size=0)
            cluster.take(neighbour)
            for row in neighbour.rows:
                self._home[row] = cluster
            gamma.place(own, lower[:, nearest], upper[:, nearest])
            gamma.count(own)
            gamma.discard(neighbour)
            self.outbox.append(Message("withdraw", self.number, (withdrawn,)))

    # 4.8: Algorithm 3, dOutputCluster

    def _output_cluster(self, cluster: Cluster, event: int, case: Case) -> list[Release]:
        """Output the rows of this site in the cluster, in parts if they are enough."""
        gamma, policy = self.gamma, self._policy
        at = gamma.index(cluster)
        parts: list[Part] | None = None
        if len(cluster.persons) >= 2 * policy.k and len(cluster.own_values) >= policy.l:
            parts = self._split(cluster.rows, lambda purpose, n: self._pick(purpose, event, n))
        if parts is None:
            message = Message("output", self.number, (gamma.record(at, size=cluster.size),))
            parts = [Part(cluster.rows, gamma.lower[:, at].copy(), gamma.upper[:, at].copy())]
        else:
            message = Message("withdraw", self.number, (gamma.record(at, size=0),))
        losses = [self.space.loss(part.lower, part.upper) for part in parts]
        self._losses.extend(losses)
        self.threshold = _mean(self._losses)
        releases: list[Release] = []
        for part, loss in zip(parts, losses, strict=True):
            lower, upper = self.space.published(part.lower, part.upper)
            box = self.space.box(lower, upper)
            if part.rows:
                self._forget(part.rows)
                releases.append(Release(self.number, case, "new", cluster.id, part.rows, box, loss))
            if loss < self.threshold - EPS:
                self.omega.admit(box, loss)
        gamma.discard(cluster)
        self.outbox.append(message)
        return releases

    # Small steps

    def _would_be_ready(self) -> bool:
        """Whether all clusters together have k persons, each of this site counted once, and l values."""
        size = len(self._persons)
        values: set[Hashable] = set()
        for cluster in self.gamma.clusters:
            size += 0 if cluster.shared is None else cluster.shared.size
            values |= cluster.values
        return size >= self._policy.k and len(values) >= self._policy.l

    def _move(self, position: int, origin: Cluster, target: Cluster) -> None:
        """Move a row to another cluster."""
        self._leave(position, origin)
        target.insert(position, self.rows.persons[position], self.rows.values[position])
        self._home[position] = target
        at, point = self.gamma.index(target), self.rows.points[:, position]
        lower, upper = np.minimum(self.gamma.lower[:, at], point), np.maximum(self.gamma.upper[:, at], point)
        self.gamma.place(at, lower, upper)
        self.gamma.count(at)

    def _output_alone(
        self, position: int, cluster: Cluster, case: Literal[3, 4, 5], generalisation: Box, loss: float
    ) -> list[Release]:
        """Remove a row from its cluster without a message."""
        self._leave(position, cluster)
        self._forget([position])
        return [Release(self.number, case, "reuse" if case == 3 else "root", None, [position], generalisation, loss)]

    def _leave(self, position: int, cluster: Cluster) -> None:
        """Remove a row from its cluster, which shrinks."""
        cluster.remove(position, self.rows.persons[position], self.rows.values[position])
        at, point = self.gamma.index(cluster), self.rows.points[:, position]
        if np.any((point == self.gamma.lower[:, at]) | (point == self.gamma.upper[:, at])):
            self._measure_or_drop(cluster)
        else:  # strictly inside: the row touched no side of the box
            self.gamma.count(at)

    def _measure_or_drop(self, cluster: Cluster) -> None:
        if cluster.is_empty:
            self.gamma.discard(cluster)
        else:
            self._measure(cluster)

    def _measure(self, cluster: Cluster) -> None:
        """Smallest box around the rows and the shared part, which must not be empty."""
        at = self.gamma.index(cluster)
        points = self.rows.points[:, cluster.rows]
        lower, upper = points.min(axis=1, initial=np.inf), points.max(axis=1, initial=-np.inf)
        if cluster.shared is not None:
            lower, upper = np.minimum(lower, cluster.shared.lower), np.maximum(upper, cluster.shared.upper)
        self.gamma.place(at, lower, upper)
        self.gamma.count(at)

    def _forget(self, rows: list[int]) -> None:
        """Mark rows as released."""
        for row in rows:
            del self._home[row]
            self._persons[self.rows.persons[row]] -= 1
            if not self._persons[self.rows.persons[row]]:
                del self._persons[self.rows.persons[row]]

    def _smallest(self, among: Indices, purpose: str, event: int) -> int:
        """Draw one of minimum size."""
        sizes = self.gamma.size[among]
        smallest = among[sizes == sizes.min()]
        return int(smallest[self._pick(purpose, event, smallest.size)])

    def _pick(self, purpose: str, event: int, n: int) -> int:
        return 0 if n == 1 else self._choose(purpose, event, n)

    def _shared(self, record: Record) -> Shared:
        return Shared(record.size, *self.space.bounds(record.generalisation), record.values)


def _least(losses: Losses) -> Indices:
    """Indices of the minimum and of values equal to it within the tolerance."""
    return np.flatnonzero(losses <= losses.min() + EPS)


def _mean(losses: deque[float]) -> float:
    """Add in order, one addition each: Python's sum would compensate for rounding."""
    total = 0.0
    for loss in losses:
        total += loss
    return total / len(losses)
