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
from .measure import EPS, Attribute, Box, Cluster, Domain, Row, contains, matching, persons, union, values
from .split import BucketRule, Event, split, split_diverse

__all__ = ["Castle", "Decision", "Reusable", "Row", "Settings"]


Kind = Literal["new", "reuse", "root", "drop"]


@dataclass(frozen=True)
class Decision:
    """What leaves, and how it is published."""

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
    max_reusable: int = 1000  # bounds Omega: the least recently used generalisation makes room
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

    def __post_init__(self) -> None:
        for name in ("k", "l", "delay", "max_clusters", "loss_window", "max_reusable"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.l > self.k:
            raise ValueError(f"l must not exceed k, got l={self.l} and k={self.k} (split^l needs k >= l)")

    @classmethod
    def paper(cls, **given: Any) -> Settings:
        """What the paper prints."""
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
        """What keeps the guarantee where the paper loses it, and draws only where secrecy needs it."""
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
    """A k_s-anonymised cluster in Omega: its generalisation may be given to single expiring rows."""

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

    # -- Algorithm 1 ---------------------------------------------------------------------------------------------------

    def push(self, row: Row) -> list[Decision]:
        """One arrival: assign the row, then let the row that arrived `delay` earlier expire."""
        if row.position != self._arrivals:
            raise ValueError(f"positions are consecutive: expected {self._arrivals}, got {row.position}")
        self.next_position()
        self.assign(row)
        return self.expire(row.position - self.settings.delay)

    def next_position(self) -> int:
        """The clock moves on: the position of the row that arrives now."""
        position = self._arrivals
        if self._ratchet is not None:
            self._ratchet(position)
        self._arrivals += 1
        return position

    def assign(self, row: Row) -> None:
        """The row waits from now on, in the cluster that best_selection names or in a new one."""
        self.pending[row.position] = row
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
        for cluster in [cluster for cluster in self.clusters if self._is_ready(cluster.rows)]:
            decisions += self.output_cluster(cluster, cluster.rows[0].position)
        if self.settings.reuse:
            for row in self._clustered_rows():
                decisions += self._reuse(row)
        rest = self._clustered_rows()
        if self._is_ready(rest):
            decisions += self.output_cluster(Cluster(rest), rest[0].position)
        for position in list(self.pending):
            if position in self.pending:  # an earlier one may have taken it along to the root
                decisions += self._suppress(self.pending[position])
        return decisions

    # -- the paper's functions and procedures --------------------------------------------------------------------------

    def best_selection(self, row: Row) -> Cluster | None:
        """The cluster to push the row to; None asks for a new one."""
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
        """The cluster with its nearest neighbours, one after the other, until it is ready."""
        merged = cluster
        others = [other for other in self.clusters if other is not cluster]
        while not self._is_ready(merged.rows):
            enlargements = [self.domain.enlargement(merged.box, other.box) for other in others]
            cheapest = _cheapest(others, enlargements)
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
            self._losses.append(loss)
            self.threshold = _mean(self._losses)
            if self._is_good(loss):
                self._admit(part.box, box)
            decisions.append(self._leave("new", part.rows, box, loss))
        return decisions

    def _parts(self, cluster: Cluster, event: int) -> list[Cluster]:
        """The paper's SC: whole again if a part is not ready, which split^l cannot rule out for other attributes."""
        s = self.settings
        if cluster.size < 2 * s.k:
            return [cluster]
        sensitive = self._sensitive(cluster.rows)
        release = Event(event, self.choices, self.domain)
        if s.l <= 1 or not sensitive:
            parts = split(cluster.rows, s.k, release)
        else:
            poorest = min(sensitive, key=lambda i: len(values(cluster.rows, i)))
            parts = split_diverse(cluster.rows, poorest, s.k, s.l, s.buckets, release)
        if parts and all(self._is_ready(part.rows) for part in parts):
            return parts
        return [cluster]

    # -- ready, reuse, suppress ----------------------------------------------------------------------------------------

    def _is_ready(self, rows: Sequence[Row]) -> bool:
        """May these rows be published as one group? k persons, and every sensitive attribute l-diverse."""
        return persons(rows) >= self.settings.k and all(self._is_diverse(rows, i) for i in self._sensitive(rows))

    def _is_diverse(self, rows: Sequence[Row], sensitive: int) -> bool:
        if self.settings.l <= 1:
            return True
        if self.settings.l_per == "person":
            return matching(rows, sensitive) >= self.settings.l
        return len(values(rows, sensitive)) >= self.settings.l

    def _reuse(self, row: Row) -> list[Decision]:
        """The row alone, under a random one of the generalisations that contain it; nothing if there is none."""
        containing = [entry for entry in self.omega if self._may_reuse(entry, row)]
        if not containing:
            return []
        entry = containing[choose(self.choices, "reuse", row.position, len(containing))]
        self._uses += 1
        entry.last_used = self._uses
        return [self._leave("reuse", [row], entry.published, self.domain.loss(entry.published))]

    def _may_reuse(self, entry: Reusable, row: Row) -> bool:
        ttl = self.settings.reusable_ttl
        if ttl is not None and self._arrivals - entry.born > ttl:
            return False
        return contains(entry.interval if self.settings.containment == "interval" else entry.published, row)

    def _is_good(self, loss: float) -> bool:
        if self.settings.admission == "lt":
            return loss < self.threshold - EPS
        return loss <= self.threshold + EPS

    def _admit(self, interval: Box, published: Box) -> None:
        """Into Omega; one that is there already is only renewed."""
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
            self.omega[stalest] = new

    def _suppress(self, row: Row) -> list[Decision]:
        """Publish the row at the most general value, or not at all.

        The rows at the root are a group like any other. The paper publishes the first ones alone ("generalise"), below
        k; "root" opens the group once with enough pending rows, and drops the row as long as there are not enough.
        """
        if self.settings.suppression == "drop":
            return [self._leave("drop", [row], None, nan)]
        if self.settings.suppression == "generalise" or self.root_is_open:
            return [self._leave("root", [row], self.domain.root(), 1.0)]
        company = self._root_company(row)
        if not company:
            return [self._leave("drop", [row], None, nan)]
        self.root_is_open = True
        return [self._leave("root", company, self.domain.root(), 1.0)]

    def _root_company(self, row: Row) -> list[Row]:
        """The row and the oldest pending rows that make the root group ready; nobody if all of them cannot.

        Only rows that help are taken. Where l counts persons that may not be enough, and then every row is, in order.
        """
        others = [other for other in self.pending.values() if other is not row]
        if not self._is_ready([row, *others]):
            return []
        company = [row]
        for other in others:
            if not self._is_ready(company) and self._helps(company, other):
                company.append(other)
        if self._is_ready(company):
            return company
        company = [row]
        for other in others:
            if not self._is_ready(company):
                company.append(other)
        return company

    def _helps(self, company: Sequence[Row], other: Row) -> bool:
        """Does it bring a person while there are fewer than k, or a sensitive value while there are fewer than l?"""
        if persons(company) < self.settings.k and other.person not in {row.person for row in company}:
            return True
        return any(
            len(values(company, i)) < self.settings.l and other.sensitive[i] not in values(company, i)
            for i in self._sensitive(company)
        )

    # -- the small steps -----------------------------------------------------------------------------------------------

    def _leave(self, kind: Kind, rows: Sequence[Row], box: Box | None, loss: float) -> Decision:
        """These rows are decided. A cluster that loses some of them shrinks; one that loses all of them is gone."""
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
        """Those that bring a new value of an attribute that has fewer than l.

        Values are counted here even where l counts persons: a new value is what a neighbour can bring.
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
