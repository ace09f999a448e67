"""CASTLE (Cao, Carminati, Ferrari, Tan), Algorithm 1 and its procedures, transcribed to be read beside the paper.

It is the slow twin of the compiled engine: same rows, same settings and same random choices must give the same
decisions in the same order. Section 4 names the procedures; the methods here keep those names. Readings taken where the
paper is silent are in the docstrings; `Settings` holds those that are a choice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Literal

from .chacha import Choices, Ratcheting, choose
from .measure import EPS, Attribute, Box, Cluster, Domain, Row, around, contains, matching, persons, union, values
from .shape import Pair, Shape
from .split import BucketRule, Event, split, split_diverse

__all__ = ["Castle", "Decision", "Reusable", "Row", "Settings"]


Kind = Literal["new", "reuse", "root", "drop"]


@dataclass(frozen=True)
class Decision:
    """Rows that leave, and their published form."""

    kind: Kind
    rows: list[int]  # positions, ascending
    box: Box | None  # as published; None for a drop
    loss: float  # of the published box at this moment; 1 at the root, nan for a drop


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The paper's parameters, and the choices it leaves open."""

    k: int
    delay: int  # delta
    max_clusters: int  # beta
    loss_window: int  # mu
    l: int = 1
    max_reusable: int = 1000  # bound of Omega: the least recently used generalisation is replaced
    tau_init: float = 0.0
    reuse: bool = True
    containment: Literal["interval", "generalisation"] = "interval"  # when a reusable cluster contains a row
    admission: Literal["lt", "le"] = "lt"  # how a loss compares with tau to enter Omega
    tie: Literal["random", "oldest"] = "random"
    buckets: BucketRule = "random"
    merge: Literal["paper", "diversity_aware"] = "paper"
    suppression: Literal["generalise", "drop", "root"] = "generalise"
    l_per: Literal["row", "person"] = "row"
    reusable_ttl: int | None = None  # arrivals after which a generalisation is no longer reused
    shape: Shape | None = None  # criteria on the distribution of sensitive values

    def __post_init__(self) -> None:
        for name in ("k", "l", "delay", "max_clusters", "loss_window", "max_reusable"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.l > self.k:
            raise ValueError(f"l must not exceed k, got l={self.l} and k={self.k} (split^l needs k >= l)")

    @classmethod
    def paper(cls, **given: Any) -> Settings:
        """Settings as printed in the paper."""
        choices = {
            "containment": "interval",
            "admission": "lt",
            "tie": "random",
            "buckets": "random",
            "merge": "paper",
            "suppression": "generalise",
        }
        return cls(**{**choices, **given})

    @classmethod
    def strict(cls, **given: Any) -> Settings:
        """Settings that keep the guarantee where the paper breaks it, and draw only where secrecy requires it."""
        choices = {
            "containment": "generalisation",
            "admission": "le",
            "tie": "oldest",
            "buckets": "balanced",
            "merge": "diversity_aware",
            "suppression": "root",
        }
        return cls(**{**choices, **given})


@dataclass
class Reusable:
    """A k_s-anonymised cluster in Omega: single expiring rows may reuse its generalisation."""

    interval: Box  # its range intervals, exact
    published: Box
    last_used: int  # number of the last admission or reuse, over all of Omega
    born: int  # arrivals when it was last admitted


class Castle:
    """One stream. Rows are pushed with positions 0, 1, 2, ...; every row ends in exactly one decision."""

    def __init__(self, attributes: Sequence[Attribute], settings: Settings, choices: Choices) -> None:
        self.settings = settings
        self.domain = Domain(attributes)
        self.choices = choices
        self._ratchet = choices.ratchet if isinstance(choices, Ratcheting) else None
        self.clusters: list[Cluster] = []  # Gamma, in order of creation
        self.omega: list[Reusable] = []
        self.threshold = settings.tau_init  # tau
        self.pending: dict[int, Row] = {}  # every row not yet decided, in order of position
        self.root_is_open = False
        self._arrivals = 0
        self._uses = 0
        self._losses: deque[float] = deque(maxlen=settings.loss_window)  # of the most recent released clusters
        self.history: list[Row] = []  # every row that has arrived
        self._shares: dict[int, list[float]] = {}  # of the history, by sensitive attribute; emptied at every arrival
        self.memory: dict[Box, list[set[Pair]]] = {}  # pairs published in a box, per sensitive attribute
        self.remembered = 0  # pairs ever remembered, including those of forgotten boxes

    # -- Algorithm 1 ---------------------------------------------------------------------------------------------------

    def push(self, row: Row) -> list[Decision]:
        """One arrival: assign the row, then expire the row that arrived `delay` earlier."""
        if row.position != self._arrivals:
            raise ValueError(f"positions are consecutive: expected {self._arrivals}, got {row.position}")
        self.next_position()
        self.assign(row)
        return self.expire(row.position - self.settings.delay)

    def next_position(self) -> int:
        """Advance the clock; return the position of the arriving row."""
        position = self._arrivals
        if self._ratchet is not None:
            self._ratchet(position)
        self._arrivals += 1
        return position

    def assign(self, row: Row) -> None:
        """The row waits from now on, in the cluster that best_selection names or in a new one.

        Where numbers have a public grid, nothing below sees more of them than their cells.
        """
        row = self.domain.in_cells(row)
        self.pending[row.position] = row
        self.history.append(row)
        self._shares.clear()
        if row.to_root:
            return
        self.domain.observe(row)
        cluster = self.best_selection(row)
        if cluster is None:
            self.clusters.append(Cluster([row]))
        else:
            cluster.add(row)

    def expire(self, position: int) -> list[Decision]:
        """Release the row at this position now, unless it has left already."""
        return self.delay_constraint(self.pending[position]) if position in self.pending else []

    def flush(self) -> list[Decision]:
        """The end of the stream (section 5.3); nothing is pending afterwards.

        The paper ends by publishing all that remains as one cluster, however small. Here that cluster must be ready
        like any other, and otherwise its rows are suppressed, with the rows that were for the root only.
        """
        decisions: list[Decision] = []
        # One by one: with criteria on distributions, a release may change which rows can leave next.
        while ready := [cluster for cluster in self.clusters if self._is_ready(cluster.rows)]:
            decisions += self.output_cluster(ready[0], ready[0].rows[0].position)
        if self.settings.reuse:
            for row in self._clustered_rows():
                decisions += self._reuse(row)
        rest = self._clustered_rows()
        if self._is_ready(rest):
            decisions += self.output_cluster(Cluster(rest), rest[0].position)
        for position in list(self.pending):
            if position in self.pending:  # an earlier row may have taken it along to the root
                decisions += self._suppress(self.pending[position])
        return decisions

    # -- the paper's functions and procedures --------------------------------------------------------------------------

    def best_selection(self, row: Row) -> Cluster | None:
        """Cluster that takes the row; None: a new one."""
        if not self.clusters:
            return None
        box = row.box
        enlargements = [self.domain.enlargement(cluster.box, box) for cluster in self.clusters]
        cheapest = _cheapest(self.clusters, enlargements)
        fitting = [c for c in cheapest if self.domain.loss(union(c.box, box)) <= self.threshold + EPS]
        if fitting:
            return self._smallest(fitting, "tie", row.position)
        if len(self.clusters) >= self.settings.max_clusters:
            return self._smallest(cheapest, "tie", row.position)
        return None

    def delay_constraint(self, row: Row) -> list[Decision]:
        """The row must leave now, alone or with others.

        Line 17 of the paper adds up sizes, which counts a person once per cluster; here the union of all clusters must
        be ready, so that the merge cannot run out of clusters.
        """
        if row.to_root:
            return self._suppress(row)
        cluster = self._home(row)
        if self._is_ready(cluster.rows):
            return self.output_cluster(cluster, row.position)
        if self.settings.reuse:
            reused = self._reuse(row)
            if reused:
                return reused
        larger = [other for other in self.clusters if cluster.size < other.size]
        if 2 * len(larger) > len(self.clusters):
            return self._suppress(row)
        if not self._is_ready(self._clustered_rows()):
            return self._suppress(row)
        return self.output_cluster(self.merge_clusters(cluster, row.position), row.position)

    def merge_clusters(self, cluster: Cluster, event: int) -> Cluster:
        """Merge the cluster with its nearest neighbours, one by one, until it is ready."""
        merged = cluster
        others = [other for other in self.clusters if other is not cluster]
        while not self._is_ready(merged.rows):
            candidates = others
            if self.settings.merge == "diversity_aware" and self._has_enough(merged.rows):
                candidates = self._helpful(merged, others) or others
            enlargements = [self.domain.enlargement(merged.box, other.box) for other in candidates]
            cheapest = _cheapest(candidates, enlargements)
            if self.settings.merge == "diversity_aware" and merged.size >= self.settings.k:
                cheapest = self._more_diverse(merged, cheapest) or cheapest
            neighbour = self._smallest(cheapest, "merge_tie", event)
            merged = Cluster(sorted(merged.rows + neighbour.rows, key=lambda row: row.position))
            others.remove(neighbour)
        return merged

    def output_cluster(self, cluster: Cluster, event: int) -> list[Decision]:
        """Publish a cluster that is ready, in parts if it can be split."""
        decisions: list[Decision] = []
        for part in self._parts(cluster, event):
            box = self.domain.published(part.box)
            loss = self.domain.loss(box)
            # tau is for open clusters, which are measured by range intervals: these end where the last cell begins.
            own = self.domain.loss(part.box)
            self._losses.append(own)
            self.threshold = _mean(self._losses)
            kept = self.settings.reuse and self._is_good(own)
            if kept or self._memory_of(box) is not None:
                self._make_room(len(part.rows))
            if kept:
                self._admit(part.box, box)
            self._remember(part.rows, box)
            decisions.append(self._leave("new", part.rows, box, loss))
        return decisions

    def _parts(self, cluster: Cluster, event: int) -> list[Cluster]:
        """The paper's SC: whole again if a part is not ready, which split^l cannot rule out for other attributes."""
        s = self.settings
        if cluster.size < 2 * s.k:
            return [cluster]
        sensitive = self._sensitive(cluster.rows)
        release = Event(event, self.choices, self.domain)
        if (s.l <= 1 and s.shape is None) or not sensitive:
            parts = split(cluster.rows, s.k, release)
        else:
            poorest = min(sensitive, key=lambda i: len(values(cluster.rows, i)))
            parts = split_diverse(cluster.rows, poorest, s.k, s.l, s.buckets, release)
        if s.shape is not None:
            parts = self._one_per_box(parts)
        if parts and all(self._is_ready(part.rows) for part in parts):
            return parts
        return [cluster]

    # -- ready, reuse, suppress ----------------------------------------------------------------------------------------

    def _is_ready(self, rows: Sequence[Row], box: Box | None = None) -> bool:
        """May these rows be published as one group? k persons, and every sensitive attribute l-diverse; and their
        distribution as it was promised, in this box (None: the smallest around them).
        """
        if persons(rows) < self.settings.k or not all(self._is_diverse(rows, i) for i in self._sensitive(rows)):
            return False
        return self._has_shape(rows, self.domain.published(around(rows)) if box is None else box)

    def _has_enough(self, rows: Sequence[Row]) -> bool:
        """Whether the rows have k persons and l values; their distribution is not checked."""
        diverse = all(len(values(rows, i)) >= self.settings.l for i in self._sensitive(rows))
        return persons(rows) >= self.settings.k and diverse

    def _is_diverse(self, rows: Sequence[Row], sensitive: int) -> bool:
        if self.settings.l <= 1:
            return True
        if self.settings.l_per == "person":
            return matching(rows, sensitive) >= self.settings.l
        return len(values(rows, sensitive)) >= self.settings.l

    def _reuse(self, row: Row) -> list[Decision]:
        """Release the row alone, under a random generalisation that contains it; None if no generalisation does."""
        containing = [entry for entry in self.omega if self._may_reuse(entry, row)]
        containing = [entry for entry in containing if self._may_join([row], entry.published)]
        if not containing:
            return []
        entry = containing[choose(self.choices, "reuse", row.position, len(containing))]
        self._uses += 1
        entry.last_used = self._uses
        self._make_room(1)
        self._remember([row], entry.published)
        return [self._leave("reuse", [row], entry.published, self.domain.loss(entry.published))]

    def _may_reuse(self, entry: Reusable, row: Row) -> bool:
        ttl = self.settings.reusable_ttl
        if ttl is not None and self._arrivals - entry.born > ttl:
            return False
        if self.settings.containment == "interval":
            return contains(entry.interval, row)
        return self.domain.holds(entry.published, row)

    def _is_good(self, loss: float) -> bool:
        if self.settings.admission == "lt":
            return loss < self.threshold - EPS
        return loss <= self.threshold + EPS

    def _admit(self, interval: Box, published: Box) -> None:
        """Add to Omega; an equal entry is only renewed."""
        self._uses += 1
        new = Reusable(interval, published, last_used=self._uses, born=self._arrivals)
        for entry in self.omega:
            same_interval = entry.interval == interval or self.settings.containment == "generalisation"
            if entry.published == published and same_interval:
                entry.last_used, entry.born = new.last_used, new.born
                return
        if len(self.omega) < self.settings.max_reusable:
            self.omega.append(new)
        else:
            stalest = min(range(len(self.omega)), key=lambda i: self.omega[i].last_used)
            gone = self.omega[stalest].published
            self.omega[stalest] = new
            if self._memory_of(gone) is None:
                self.memory.pop(gone, None)

    def _suppress(self, row: Row) -> list[Decision]:
        """Publish the row at the most general value, or not at all.

        The rows at the root are a group like any other. The paper publishes the first ones alone ("generalise"), below
        k; "root" opens the group once with enough pending rows, and drops the row as long as there are not enough.
        With reuse off nothing joins what was published before, at the root neither: each release needs its own company.
        """
        root = self.domain.root()
        if self.settings.suppression == "generalise":
            return [self._leave("root", [row], root, 1.0)]
        opening = not self.root_is_open or not self.settings.reuse
        company: list[Row] = []
        if self.settings.suppression == "root" and opening:
            company = self._root_company(row)
        elif self.settings.suppression == "root" and self._may_join([row], root):
            company = [row]
        if not company:
            return [self._leave("drop", [row], None, nan)]
        self._make_room(len(company))
        self.root_is_open |= opening
        self._remember(company, root)
        return [self._leave("root", company, root, 1.0)]

    def _root_company(self, row: Row) -> list[Row]:
        """The row and the oldest pending rows that make the root group ready; empty if all of them cannot.

        Only rows that help are taken; with reuse off no value is looked at for that, a person who is missing helps.
        Where l counts persons, or distributions are judged, or values are not looked at, that may not be enough, and
        then every row is, in order.
        """
        root = self.domain.root()
        others = [other for other in self.pending.values() if other is not row]
        if persons([row, *others]) < self.settings.k:
            return []
        company = [row]
        if self._is_ready(company, root):
            return company
        for other in others:
            if self._helps(company, other):
                company.append(other)
                if self._is_ready(company, root):
                    return company
        company = [row]
        for other in others:
            company.append(other)
            if self._is_ready(company, root):
                return company
        return []

    def _helps(self, company: Sequence[Row], other: Row) -> bool:
        """Whether it adds a person while fewer than k are taken, or a sensitive value while fewer than l are."""
        if other.person is None:
            return False
        if persons(company) < self.settings.k and other.person not in {row.person for row in company}:
            return True
        return self.settings.reuse and any(
            len(values(company, i)) < self.settings.l and other.sensitive[i] not in values(company, i)
            for i in self._sensitive(company)
        )

    # -- distributions -------------------------------------------------------------------------------------------------

    def _lack(self, rows: Sequence[Row]) -> float:
        """Shortfall of the rows alone, over all sensitive attributes."""
        shape = self.settings.shape
        if shape is None:
            return 0.0
        return sum(shape.lack(shape.pairs(rows, i), i, self._shares_of(shape, i)) for i in self._sensitive(rows))

    def _has_shape(self, rows: Sequence[Row], box: Box) -> bool:
        """Alone, and together with the rows published earlier in this box."""
        shape = self.settings.shape
        if shape is None:
            return True
        if len(self.history) < shape.burn_in or self._lack(rows) > 0:
            return False
        return self._memory_of(box) is None or self._may_join(rows, box)

    def _may_join(self, rows: Sequence[Row], box: Box) -> bool:
        """Whether the remembered rows of the box meet the criteria together with these rows."""
        shape, memory = self.settings.shape, self._memory_of(box)
        if shape is None or memory is None:
            return True
        joint = [known | shape.pairs(rows, i) for i, known in enumerate(memory)]
        return all(shape.lack(pairs, i, self._shares_of(shape, i)) == 0 for i, pairs in enumerate(joint))

    def _shares_of(self, shape: Shape, sensitive: int) -> list[float]:
        if sensitive not in self._shares:
            self._shares[sensitive] = shape.shares(self.history, sensitive)
        return self._shares[sensitive]

    def _memory_of(self, box: Box) -> list[set[Pair]] | None:
        """Remembered pairs of a box: always of the root, of others while they may be reused."""
        shape = self.settings.shape
        if shape is None or (box != self.domain.root() and all(entry.published != box for entry in self.omega)):
            return None
        return self.memory.setdefault(box, [set() for _ in shape.sizes])

    def _remember(self, rows: Sequence[Row], box: Box) -> None:
        shape, memory = self.settings.shape, self._memory_of(box)
        if shape is not None and memory is not None:
            for i, known in enumerate(memory):
                fresh = shape.pairs(rows, i) - known
                self.remembered += len(fresh)
                known.update(fresh)

    def _make_room(self, rows: int) -> None:
        """Forget everything if the pairs of these rows might not fit."""
        shape = self.settings.shape
        if shape is not None and self.remembered + rows * len(shape.sizes) > shape.room:
            self.omega = []
            self.memory = {}
            self.remembered = 0
            self.root_is_open = False

    def _helpful(self, merged: Cluster, others: Sequence[Cluster]) -> list[Cluster]:
        """Clusters that bring the distribution closer to the criteria."""
        own = self._lack(merged.rows)
        return [other for other in others if self._lack(merged.rows + other.rows) < own - EPS]

    def _one_per_box(self, parts: Sequence[Cluster]) -> list[Cluster]:
        """Merge parts published as the same box: to a reader they are one group."""
        by_box: dict[Box, list[Row]] = {}
        for part in parts:
            by_box.setdefault(self.domain.published(part.box), []).extend(part.rows)
        return [Cluster(sorted(rows, key=lambda row: row.position)) for rows in by_box.values()]

    # -- the small steps -----------------------------------------------------------------------------------------------

    def _leave(self, kind: Kind, rows: Sequence[Row], box: Box | None, loss: float) -> Decision:
        """Remove decided rows. A cluster that loses some of its rows shrinks; an empty one is deleted."""
        gone = {row.position for row in rows}
        for position in gone:
            del self.pending[position]
        for cluster in self.clusters:
            cluster.remove(gone)
        self.clusters = [cluster for cluster in self.clusters if cluster.rows]
        return Decision(kind, sorted(gone), box, loss)

    def _home(self, row: Row) -> Cluster:
        return next(cluster for cluster in self.clusters if row in cluster.rows)

    def _clustered_rows(self) -> list[Row]:
        """Every pending row that is in a cluster, by position."""
        return [row for row in self.pending.values() if not row.to_root]

    def _smallest(self, clusters: Sequence[Cluster], purpose: str, event: int) -> Cluster:
        """Return any cluster with minimum size: a drawn one, or the oldest. `clusters` are in order of creation."""
        size = min(cluster.size for cluster in clusters)
        smallest = [cluster for cluster in clusters if cluster.size == size]
        if self.settings.tie == "oldest":
            return smallest[0]
        return smallest[choose(self.choices, purpose, event, len(smallest))]

    def _more_diverse(self, merged: Cluster, clusters: Sequence[Cluster]) -> list[Cluster]:
        """Clusters that add a new value of an attribute that has fewer than l.

        Values are counted here even if l counts persons: a neighbour can add new values.
        """
        lacking = [i for i in self._sensitive(merged.rows) if len(values(merged.rows, i)) < self.settings.l]
        return [c for c in clusters if any(values(c.rows, i) - values(merged.rows, i) for i in lacking)]

    @staticmethod
    def _sensitive(rows: Sequence[Row]) -> range:
        """The numbers of the sensitive attributes."""
        return range(len(rows[0].sensitive)) if rows else range(0)


def _cheapest(clusters: Sequence[Cluster], enlargements: Sequence[float]) -> list[Cluster]:
    """SetCmin: the clusters of minimum enlargement, in the order given."""
    least = min(enlargements)
    return [c for c, enlargement in zip(clusters, enlargements, strict=True) if enlargement <= least + EPS]


def _mean(losses: Collection[float]) -> float:
    total = 0.0
    for loss in losses:
        total += loss
    return total / len(losses)
