"""dCASTLE (Mohamed, Ghanem, Nagi), sections 3 and 4, transcribed to be read beside the paper: one site.

Its defects are kept, for tests to show and an engine to be compared with; `dcastle_network` connects the sites. The
procedures keep their names. Readings, each with what the text says and what is taken here; C-ids are those gaps that
CASTLE leaves, D1 to D12 are gaps and errors of this paper, D13 and on are further gaps:

C3   tau before the first release: not said. 0.
C5   [L, U] of an attribute: given. A numeric attribute without bounds is refused.
C6   "tuples with positions less than p - delta have been output" (3.5), "a tuple with position p - delta ... expire"
     (4.3). The latter: row p - delta leaves while row p is processed.
C7   Whether a cluster shrinks when a row leaves: not said. It does, generalisations are minimal (3.2). Without rows
     and without a shared part it is deleted.
C8   "Clusters in Omega that contain t" (case 3). Those whose generalisation does; 3.2 has no other notion.
C10  Omega has no bound here (5.1 names N_c, 4 never uses it). It is a set of generalisations: equal ones are one.
C11  Outlier: "smaller in size than the majority of other clusters". CASTLE has the same words and prints its test: more
     than half of Gamma, C itself counted in Gamma, are strictly larger.
C12  "Suppress" (case 4): output at the most general values, at once and alone.
C14  Merge: the neighbour of least enlargement, computed again after each merge; ties as in dBestSelection.
D1   C.size = distinct persons here + the size that was shared (3.6). Added up, even if both count the same persons.
D2   A shared size is the one at the time of sending. It is never renewed.
D3   Type 2: "the cluster is updated and dOutputCluster(C) is called". Each site outputs its own rows under its own
     view of C: the box of its rows and of the shared part it has just received.
D4   dMergeClusters takes any cluster of Gamma, also one that holds rows of other sites only; its shared size counts.
D5   k is asked of C.size, not of the rows that a site outputs.
D6   The type is told by the size (4.2), which is ambiguous. A message names its type. A cluster is shared from a size
     of ceil(k/n) on ("at least" in 4.2, ">=" in 4.3; 4.4 has ">"); a receiver does not look at the size.
D7   Two sites may use one shared cluster at a time. Nothing prevents it.
D8   "No site fails". No message is lost, and those from one site to another arrive in order.
D9   A message has the exact generalisation and all sensitive values. As printed.
D10  Case 1: "a better cluster C' (has less IL)". Compared as they stand, before t moves; C' need not contain t.
D11  dBestSelection returns the smallest with IL <= tau, but "if no cluster with IL <= tau and size <= k ..." follows.
     Both conditions together. The loss is a sum (eq. 3). "Count of distinct values in local tuples and in the shared
     array" is the size of the union.
D12  "Guarantees that a released cluster will have size > k" (4.2). Not so, by D1 to D5, and size = k is enough in 4.6.
D13  Generalisation of a cluster with a shared part: not said. The smallest around its rows and the shared one.
D14  Who sends which cluster: "recent (not sent before) local" ones. A site sends what it created, once, and
     never a cluster that came from another site, even when its creator has withdrawn it.
D15  Size in a type 2 message: "at least k". The sender's C.size; the receiver's own rows may be in it.
D16  dOutputCluster called for a type 2 message ends by sending one (4.8), so each site passes the news on once (5.3
     counts only one message per k rows). A message about a cluster that is not in Gamma is ignored.
D17  Type 2 at a site that has no row of C: nothing is output, but tau, Omega and Gamma change as printed.
D18  Type 3: "the shared size is set to zero ... local tuples are kept" (4.4), "removal" (4.7, 4.9). The shared part
     goes whole: size, generalisation and values.
D19  Merging two shared parts: not said, though "from only one other site" (4.2). Sizes add up, the rest is united.
     The select-and-merge of Algorithm 2 stands inside its inner loop; CASTLE's one merge per round is meant.
D20  tau is updated after all of SC is output, then each C_i is compared with it (Algorithm 3). CASTLE updates it
     inside the loop. As printed here.
D21  Case 5 "will result in" a ready cluster: asked of all of Gamma merged, each person of this site counted once.
D22  Algorithm 4: k * |B_j| / sum is rounded up, sizes and sum are those at the head of the loop, the seed leaves its
     bucket and counts in its quota, "distance (C_sub, t_i)" is the enlargement of C_sub before T_j joins. A single
     sub-cluster with all rows of C is not C: type 3 was sent for it, and type 2 is not.
D23  No sensitive attribute: all rows have the same value, and l = 1. If several, the first counts (3.6: "a single").
D24  Cases 1, 3 and 4 take a row out of C without a message; others go on counting it. So does the creator that
     deletes its empty cluster.
D25  |Gamma| < beta counts shared clusters as well: "no new local cluster if |Gamma_x| reaches beta" (4.3).
D26  dBestSelection's "IL": with t inside, as in CASTLE.
D27  End of the stream: not said. The oldest row expires, again and again.
D28  The listening thread runs beside the main one (4.3). An arrival, an expiry and a message are each one step, and
     what a step sends leaves after it, in order.
D29  Ties. Equal sizes: drawn, like "any cluster with minimum size" of CASTLE; equal losses (case 1), equal
     enlargements (4.9): the first in Gamma, or of the sub-clusters, or by position. Losses that differ by 1e-12 or
     less are equal. Gamma is in the order of creation or arrival at the site.
D30  Rows with the same person at one site are one person; a sub-cluster takes the rows not selected, by person (4.9).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .measure import EPS, Attribute, Box, Domain, Numeric, Row, around, contains, persons, union

Chooser = Callable[[str, int, int], int]
"""Purpose, position of the row whose turn it is, n: a number in [0, n). Asked only with n >= 2.

Purposes are "tie", "merge_tie", "reuse", "person_row", "seed_bucket" and "row_in_bucket". The position is that of the
row that arrives or expires; for a cluster that is output because of a message, of its oldest row here.
"""

ClusterId = tuple[int, int]  # the site that created it, and its number there
Case = Literal[1, 2, 3, 4, 5, "message"]  # of dDelayConstraint, or a type 2 message


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of the main algorithm, the same at every site."""

    k: int
    delay: int  # delta, in rows of the site
    max_clusters: int  # beta
    loss_window: int  # mu
    sites: int  # n
    l: int = 1

    def __post_init__(self) -> None:
        for name in ("k", "l", "delay", "max_clusters", "loss_window", "sites"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.l > self.k:
            raise ValueError(f"l must not exceed k, got l={self.l} and k={self.k} (4.9 assumes k >= l)")

    @property
    def share_from(self) -> int:
        """ceil(k / n), D6."""
        return -(-self.k // self.sites)


# -- Messages (4.2) ------------------------------------------------------------------------------------------------


class Record(NamedTuple):
    """One row of Figure 3."""

    id: ClusterId
    size: int
    generalisation: Box
    values: frozenset[Hashable]  # of the sensitive attribute


class Message(NamedTuple):
    """A list of newly shared clusters (type 1), or an update of one cluster: it was output (2), merged or split (3)."""

    kind: Literal["create", "output", "withdraw"]
    sender: int
    clusters: tuple[Record, ...]


class Release(NamedTuple):
    """Rows that a site outputs under one generalisation."""

    site: int
    case: Case
    kind: Literal["new", "reuse", "root"]
    cluster: ClusterId | None  # the one that was output; None where a row leaves alone
    rows: list[int]  # positions at the site, ascending
    box: Box  # as published
    loss: float


# -- Clusters (3.2, 3.6) -------------------------------------------------------------------------------------------


class Space(Domain):
    """The space of the quasi-identifiers, with this paper's loss."""

    def loss(self, box: Box) -> float:
        """Equation 3: a sum, where CASTLE has the mean. Enlargement (3.3) and distance (3.4) follow."""
        total = 0.0
        for i, (low, high) in enumerate(box):
            total += self._value_loss(i, low, high)
        return total


@dataclass(frozen=True)
class Shared:
    """A cluster as shared by another site, without rows."""

    size: int
    generalisation: Box
    values: frozenset[Hashable]


@dataclass(eq=False)
class WorkingCluster:
    """A non-anonymised cluster in Gamma: rows of this site, by position, and the part shared by another site."""

    id: ClusterId
    rows: list[Row]
    shared: Shared | None = None
    sent: bool = False
    box: Box = field(init=False)

    def __post_init__(self) -> None:
        self.measure()

    def measure(self) -> None:
        """The smallest box around the rows and the shared generalisation (D13, C7)."""
        self.box = around(self.rows)
        if self.shared is not None:
            self.box = union(self.box, self.shared.generalisation) if self.rows else self.shared.generalisation

    def insert(self, t: Row) -> None:
        insort(self.rows, t, key=lambda row: row.position)
        self.box = union(self.box, t.box)

    def remove(self, t: Row) -> None:
        self.rows.remove(t)
        self.measure()

    def take(self, other: WorkingCluster) -> None:
        """Merge with another one (D19)."""
        for t in other.rows:
            insort(self.rows, t, key=lambda row: row.position)
        if self.shared is None:
            self.shared = other.shared
        elif other.shared is not None:
            self.shared = Shared(
                self.shared.size + other.shared.size,
                union(self.shared.generalisation, other.shared.generalisation),
                self.shared.values | other.shared.values,
            )
        self.measure()

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.shared is None

    @property
    def localsize(self) -> int:
        return persons(self.rows)

    @property
    def localvalues(self) -> frozenset[Hashable]:
        return frozenset(sensitive(t) for t in self.rows)

    @property
    def localdiversity(self) -> int:
        return len(self.localvalues)

    @property
    def size(self) -> int:
        """D1."""
        return self.localsize + (0 if self.shared is None else self.shared.size)

    @property
    def values(self) -> frozenset[Hashable]:
        return self.localvalues if self.shared is None else self.localvalues | self.shared.values

    @property
    def diversity(self) -> int:
        """D11."""
        return len(self.values)


def sensitive(t: Row) -> Hashable:
    """t.a_s (D23)."""
    return t.sensitive[0] if t.sensitive else None


# -- The site (4.3 to 4.9) -----------------------------------------------------------------------------------------


class Site:
    """Site x. Its rows have positions 0, 1, 2, ...; every row is released exactly once."""

    def __init__(self, x: int, attributes: Sequence[Attribute], settings: Settings, choose: Chooser) -> None:
        if any(isinstance(a, Numeric) and (a.lower is None or a.upper is None) for a in attributes):
            raise ValueError("every numeric attribute needs lower and upper: the sites must measure losses alike")
        self.x = x
        self.settings = settings
        self.space = Space(attributes)
        self.clusters: list[WorkingCluster] = []  # Gamma_x
        self.omega: list[Box] = []  # Omega_x, in order of admission
        self.tau = 0.0
        self.losses: deque[float] = deque(maxlen=settings.loss_window)  # the "mu sized queue"
        self.pending: dict[int, Row] = {}  # the buffer, by position
        self.outbox: list[Message] = []  # what was sent, until the network takes it
        self.arrivals = 0
        self._choose = choose
        self._created = 0

    # 4.3: dCASTLE

    def receive(self, t: Row) -> list[Release]:
        """A new tuple arrives."""
        if t.position != self.arrivals:
            raise ValueError(f"positions are consecutive: expected {self.arrivals}, got {t.position}")
        if t.to_root:
            raise ValueError("dCASTLE has no rows for the root only")
        self.arrivals += 1
        self.send_recent_clusters()
        C = self.d_best_selection(t)
        if C is None:
            self.clusters.append(WorkingCluster((self.x, self._created), [t]))
            self._created += 1
        else:
            C.insert(t)
        self.pending[t.position] = t
        expiring = self.pending.get(t.position - self.settings.delay)
        return [] if expiring is None else self.d_delay_constraint(expiring)

    def send_recent_clusters(self) -> None:
        """One message with all of this site's clusters that are large enough and were not sent before (D6, D14)."""
        recent = [C for C in self.clusters if C.id[0] == self.x and not C.sent and C.size >= self.settings.share_from]
        if recent:
            self.outbox.append(Message("create", self.x, tuple(self._record(C, C.size) for C in recent)))
        for C in recent:
            C.sent = True

    def expire_oldest(self) -> list[Release]:
        """The oldest row must leave now (D27)."""
        return self.d_delay_constraint(self.pending[min(self.pending)])

    # 4.4

    def d_update_clusters(self, msg: Message) -> list[Release]:
        """A message was received."""
        if msg.kind == "create":  # type 1
            for record in msg.clusters:
                self.clusters.append(WorkingCluster(record.id, [], shared=_shared(record)))
            return []
        (record,) = msg.clusters
        C = next((C for C in self.clusters if C.id == record.id), None)
        if C is None:  # D16
            return []
        if msg.kind == "output":  # type 2
            C.shared = _shared(record)
            C.measure()
            event = C.rows[0].position if C.rows else self.arrivals
            return self.d_output_cluster(C, event, "message")
        C.shared = None  # type 3, D18
        C.measure()
        self._drop_if_empty(C)
        return []

    # 4.5: Algorithm 1

    def d_best_selection(self, t: Row) -> WorkingCluster | None:
        """The best cluster to host t; None asks for a new one."""
        if not self.clusters:
            return None
        cheapest = self._cheapest(self.clusters, t.box)
        good = [
            C
            for C in cheapest
            if self.space.loss(union(C.box, t.box)) <= self.tau + EPS and C.size <= self.settings.k  # D26, D11
        ]
        if good:
            return self._smallest(good, "tie", t.position)
        if len(self.clusters) < self.settings.max_clusters:  # D25
            return None
        return self._smallest(cheapest, "tie", t.position)

    # 4.6

    def d_delay_constraint(self, t: Row) -> list[Release]:
        """Output t: five cases, checked in order."""
        C = next(C for C in self.clusters if t in C.rows)

        own_loss = self.space.loss(C.box)
        better = [
            other
            for other in self.clusters
            if other is not C and self._is_ready([other]) and self.space.loss(other.box) < own_loss - EPS  # D10
        ]
        if better:  # case 1
            best = self._least_loss(better)
            C.remove(t)
            self._drop_if_empty(C)
            best.insert(t)
            return self.d_output_cluster(best, t.position, 1)

        if self._is_ready([C]):  # case 2
            return self.d_output_cluster(C, t.position, 2)

        containing = [generalisation for generalisation in self.omega if contains(generalisation, t)]
        if containing:  # case 3
            return self._output_alone(t, C, 3, containing[self._pick("reuse", t.position, len(containing))])

        larger = [other for other in self.clusters if C.size < other.size]
        if 2 * len(larger) > len(self.clusters):  # case 4, C11
            return self._output_alone(t, C, 4, self.space.root())

        if self._is_ready(self.clusters):  # case 5, D21
            self.d_merge_clusters(C, t.position)
            return self.d_output_cluster(C, t.position, 5)
        return self._output_alone(t, C, 5, self.space.root())

    # 4.7: Algorithm 2

    def d_merge_clusters(self, C: WorkingCluster, event: int) -> None:
        """Merge C with its nearest neighbours, including clusters of other sites, until it is ready."""
        while not self._is_ready([C]):
            others = [other for other in self.clusters if other is not C]
            C_min = self._smallest(self._cheapest(others, C.box, reverse=True), "merge_tie", event)
            C.take(C_min)
            self.clusters.remove(C_min)
            self._send("withdraw", C_min, size=0)

    # 4.8: Algorithm 3

    def d_output_cluster(self, C: WorkingCluster, event: int, case: Case) -> list[Release]:
        """Output the rows of this site that are in C, in parts if there are enough of them."""
        SC = [C]
        if C.localsize >= 2 * self.settings.k and C.localdiversity >= self.settings.l:
            SC = self.d_split_cluster(C, event)
        releases: list[Release] = []
        for C_i in SC:
            if C_i.rows:  # D17
                releases.append(self._output("new", C_i.rows, self.space.published(C_i.box), case, C.id))
        for C_i in SC:
            self.losses.append(self.space.loss(C_i.box))
        self.tau = _mean(self.losses)  # D20
        for C_i in SC:
            generalisation = self.space.published(C_i.box)
            if self.space.loss(C_i.box) < self.tau - EPS and generalisation not in self.omega:
                self.omega.append(generalisation)
        self.clusters.remove(C)
        if SC == [C]:
            self._send("output", C, size=C.size)
        return releases

    # 4.9: Algorithm 4

    def d_split_cluster(self, C: WorkingCluster, event: int) -> list[WorkingCluster]:
        """Sub-clusters of the rows of this site, with k persons and l values each; [C] if there is none."""
        k, l = self.settings.k, self.settings.l
        BS = self._generate_buckets(C, event)
        if len(BS) < l:
            return [C]
        SC: list[WorkingCluster] = []
        while len(BS) >= l and (total := sum(len(B) for B in BS)) >= k:
            quotas = [-(-k * len(B_j) // total) for B_j in BS]  # D22: rounded up
            chosen = self._pick("seed_bucket", event, len(BS))
            seed = BS[chosen].pop(self._pick("row_in_bucket", event, len(BS[chosen])))
            quotas[chosen] -= 1
            C_sub = WorkingCluster(C.id, [seed])
            for B_j, quota in zip(BS, quotas, strict=True):
                B_sorted = sorted(B_j, key=lambda t: (self.space.enlargement(C_sub.box, t.box), t.position))
                for t in B_sorted[:quota]:
                    C_sub.insert(t)
                    B_j.remove(t)
            BS = [B_j for B_j in BS if B_j]
            SC.append(C_sub)
        for B_j in BS:
            for t in B_j:
                self._nearest(SC, t).insert(t)
        home = {t.person: C_sub for C_sub in SC for t in C_sub.rows}
        placed = {t.position for C_sub in SC for t in C_sub.rows}
        for t in C.rows:
            if t.position not in placed:
                home[t.person].insert(t)
        self._send("withdraw", C, size=0)
        return SC

    def _generate_buckets(self, C: WorkingCluster, event: int) -> list[list[Row]]:
        """One row for each person, drawn; by sensitive value. Buckets in order of their oldest row."""
        by_person: dict[Hashable, list[Row]] = {}
        for t in C.rows:
            by_person.setdefault(t.person, []).append(t)
        selected = [own[self._pick("person_row", event, len(own))] for own in by_person.values()]
        buckets: dict[Hashable, list[Row]] = {}
        for t in sorted(selected, key=lambda t: t.position):
            buckets.setdefault(sensitive(t), []).append(t)
        return list(buckets.values())

    # -- the small steps -------------------------------------------------------------------------------------------

    def _is_ready(self, clusters: Iterable[WorkingCluster]) -> bool:
        """size >= k and diversity >= l, of the clusters as one."""
        rows: list[Row] = []
        size = 0
        found: frozenset[Hashable] = frozenset()
        for C in clusters:
            rows += C.rows
            size += 0 if C.shared is None else C.shared.size
            found |= C.values
        return size + persons(rows) >= self.settings.k and len(found) >= self.settings.l

    def _output_alone(self, t: Row, C: WorkingCluster, case: Literal[3, 4, 5], generalisation: Box) -> list[Release]:
        """Remove t from C without a message (D24)."""
        C.remove(t)
        self._drop_if_empty(C)
        return [self._output("reuse" if case == 3 else "root", [t], generalisation, case, None)]

    def _output(
        self, kind: Literal["new", "reuse", "root"], rows: Sequence[Row], box: Box, case: Case, C: ClusterId | None
    ) -> Release:
        for t in rows:
            del self.pending[t.position]
        return Release(self.x, case, kind, C, [t.position for t in rows], box, self.space.loss(box))

    def _send(self, kind: Literal["output", "withdraw"], C: WorkingCluster, *, size: int) -> None:
        self.outbox.append(Message(kind, self.x, (self._record(C, size),)))

    def _record(self, C: WorkingCluster, size: int) -> Record:
        return Record(C.id, size, self.space.published(C.box), C.values)

    def _drop_if_empty(self, C: WorkingCluster) -> None:
        if C.is_empty:
            self.clusters.remove(C)

    def _cheapest(self, clusters: Sequence[WorkingCluster], box: Box, *, reverse: bool = False) -> list[WorkingCluster]:
        """The clusters that need the least enlargement to take in the box; reverse: that the box needs for them."""
        if reverse:
            enlargements = [self.space.enlargement(box, C.box) for C in clusters]
        else:
            enlargements = [self.space.enlargement(C.box, box) for C in clusters]
        least = min(enlargements)
        return [C for C, enlargement in zip(clusters, enlargements, strict=True) if enlargement <= least + EPS]

    def _smallest(self, clusters: Sequence[WorkingCluster], purpose: str, event: int) -> WorkingCluster:
        """One of minimum size, drawn (D29)."""
        least = min(C.size for C in clusters)
        smallest = [C for C in clusters if C.size == least]
        return smallest[self._pick(purpose, event, len(smallest))]

    def _least_loss(self, clusters: Sequence[WorkingCluster]) -> WorkingCluster:
        """The first one of minimum loss (D29)."""
        least = min(self.space.loss(C.box) for C in clusters)
        return next(C for C in clusters if self.space.loss(C.box) <= least + EPS)

    def _nearest(self, clusters: Sequence[WorkingCluster], t: Row) -> WorkingCluster:
        """The first one that t enlarges least (D29)."""
        return self._cheapest(clusters, t.box)[0]

    def _pick(self, purpose: str, event: int, n: int) -> int:
        return 0 if n == 1 else self._choose(purpose, event, n)


def _shared(record: Record) -> Shared:
    return Shared(record.size, record.generalisation, record.values)


def _mean(losses: deque[float]) -> float:
    """Sum in order, one addition each: Python's sum would compensate rounding errors."""
    total = 0.0
    for loss in losses:
        total += loss
    return total / len(losses)
