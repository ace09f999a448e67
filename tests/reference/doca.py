"""DOCA (Leal, Vidal, Machado), Algorithms 1 and 2, transcribed to be read beside the paper.

The numbers at the ends of lines are those of the paper's pseudo-code, and its names are kept. A row is a list of
numbers, one per column; with one column every formula is the printed one.

Readings taken where the paper is silent:

* GetEnlargement is not defined. Taken from CASTLE, which the paper varies: the growth of the information loss.
* Several columns: the loss and the enlargement are means over the columns, and min_t and max_t are kept per column. A
  column whose values were all equal so far has no range: it counts 0 (the paper divides 0 by 0).
* "A cluster of the smallest size" is the first such one in the order of creation.
* GetExpiringRecord: on arrival of row p, row p - delay, if it is still pending. It may have left with its cluster, or
  have been absent.
* Algorithm 2 prints `<` in its comparison with tau, the authors' program has `<=`: `admit_equal`.
* At the end of the stream (`flush`) the oldest pending row expires, again and again. The state stays: rows may follow.
* `max_wait`: a row also expires when so much time has passed since it arrived. Times never go back.
* An absent row (`None`) takes a position and lets row p - delay expire. Nothing else is changed by it.
* `rows_per_person` multiplies the sensitivity: so many rows of a group may be of one person.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Group(NamedTuple):
    """A cluster that was published: all its rows get the same numbers."""

    expiring: int  # the position whose time was up
    positions: list[int]  # of its rows, in order of arrival
    values: list[float]  # as published, one per column
    loss: float
    tau: float  # after it


@dataclass(eq=False)
class Cluster:
    """Rows that are not published yet, in order of arrival."""

    positions: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.positions)

    def column(self, i: int) -> list[float]:
        return [row[i] for row in self.rows]

    @property
    def content(self) -> bytes:
        """Positions and numbers of the rows: other rows must not get the same draw."""
        rows = zip(self.positions, self.rows, strict=True)
        return b"".join(struct.pack(f"<q{len(row)}d", position, *row) for position, row in rows)


class Doca:
    """One stream. Rows have positions 0, 1, 2, ...; every row that is not absent ends in exactly one group."""

    def __init__(
        self,
        *,
        columns: int,
        delay: int,
        max_clusters: int,  # beta
        loss_window: int,  # m
        epsilons: Sequence[float],
        sensitivities: Sequence[float],  # Delta f, per column
        laplace: Callable[[int, float, bytes], float],  # one draw: the expiring position, the scale, what it is for
        rows_per_person: int = 1,
        admit_equal: bool = False,
        max_wait: float = inf,
    ) -> None:
        if not columns == len(epsilons) == len(sensitivities):
            raise ValueError(f"{columns} columns, {len(epsilons)} epsilons and {len(sensitivities)} sensitivities")
        self.columns = columns
        self.delay = delay
        self.beta = max_clusters
        self.m = loss_window
        self.epsilons = epsilons
        self.sensitivities = sensitivities
        self.laplace = laplace
        self.rows_per_person = rows_per_person
        self.admit_equal = admit_equal
        self.max_wait = max_wait
        self.clusters: list[Cluster] = []  # 1: C, in order of creation
        self.losses: list[float] = []  # 1: I
        self.tau = 0.0  # 1
        self.min_t = [inf] * columns  # 1
        self.max_t = [-inf] * columns  # 1
        self.arrivals = 0
        self.arrived_at: dict[int, float] = {}

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def push(self, row: Sequence[float] | None, now: float = 0.0) -> list[Group]:
        """The next row. Rows that have waited too long leave before it is taken in."""
        groups = self.tick(now)
        position = self.arrivals
        self.arrivals += 1
        if row is not None:  # 2
            r = list(row)
            for i in range(self.columns):
                self.min_t[i] = min(r[i], self.min_t[i])  # 3
                self.max_t[i] = max(r[i], self.max_t[i])  # 3
            c = self.best_selection(r)  # 4
            c.positions.append(position)  # 5
            c.rows.append(r)  # 5
            self.arrived_at[position] = now
        r_e = position - self.delay  # 6
        if r_e in self.pending():  # 7
            groups.append(self.publish(r_e))
        return groups

    def publish(self, r_e: int) -> Group:
        """Lines 8 to 11, then section 3.2: the cluster of the expiring row leaves whole."""
        c_e = next(c for c in self.clusters if r_e in c.positions)  # 8
        i_loss = self.loss(c_e.rows)  # 9
        self.losses.append(i_loss)  # 10
        self.tau = mean(self.losses[-self.m :])  # 11
        values = []
        for i in range(self.columns):
            centroid = mean(c_e.column(i))  # chi
            delta_c = self.rows_per_person * self.sensitivities[i] / c_e.size
            noise = self.laplace(r_e, delta_c / self.epsilons[i], c_e.content)  # eta: one draw for the whole group
            values.append(centroid + noise)
        self.clusters.remove(c_e)
        return Group(r_e, c_e.positions, values, i_loss, self.tau)

    # -- Algorithm 2 -----------------------------------------------------------------------------------------------

    def best_selection(self, r: list[float]) -> Cluster:
        C_min: list[Cluster] = []  # 1
        C_best: list[Cluster] = []  # 1
        e_min = inf  # 1
        for c in self.clusters:  # 2
            e_i = self.enlargement(r, c)  # 3
            e_min = min(e_min, e_i)  # 4
        for c in self.clusters:  # 5
            if self.enlargement(r, c) == e_min:  # 6
                C_min.append(c)  # 7
                c_test = [*c.rows, r]  # 8
                i_loss_test = self.loss(c_test)  # 9
                if i_loss_test < self.tau or (self.admit_equal and i_loss_test == self.tau):  # 10
                    C_best.append(c)  # 10
        if not C_best:  # 11
            if len(self.clusters) < self.beta:  # 12
                c_new = Cluster()  # 13
                self.clusters.append(c_new)  # 13
                return c_new  # 14
            return smallest(C_min)  # 15
        return smallest(C_best)  # 16

    def loss(self, rows: list[list[float]]) -> float:
        """(max(c) - min(c)) / (max_t - min_t), the mean over the columns."""
        total = 0.0
        for i in range(self.columns):
            range_t = self.max_t[i] - self.min_t[i]
            if range_t > 0:
                total += width([row[i] for row in rows]) / range_t
        return total / self.columns

    def enlargement(self, r: list[float], c: Cluster) -> float:
        """How much the loss of c grows with r, the mean over the columns."""
        total = 0.0
        for i in range(self.columns):
            range_t = self.max_t[i] - self.min_t[i]
            if range_t > 0:
                total += (width([*c.column(i), r[i]]) - width(c.column(i))) / range_t
        return total / self.columns

    # -- What else makes a row expire ------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Group]:
        """Expire rows that have waited max_wait at `now`, oldest first."""
        groups = []
        for position in self.pending():
            overdue = self.arrived_at[position] + self.max_wait <= now
            if overdue and position in self.pending():  # an older row may have taken it along
                groups.append(self.publish(position))
        return groups

    def flush(self) -> list[Group]:
        """Expire the oldest pending row until none is left."""
        groups = []
        while self.pending():
            groups.append(self.publish(self.pending()[0]))
        return groups

    def pending(self) -> list[int]:
        """Positions of the unpublished rows, oldest first."""
        return sorted(position for c in self.clusters for position in c.positions)


def width(values: list[float]) -> float:
    return max(values) - min(values)


def mean(values: list[float]) -> float:
    """Sum in order, one addition each: Python's sum would compensate rounding errors."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def smallest(clusters: list[Cluster]) -> Cluster:
    """The first of those with the fewest rows."""
    found = clusters[0]
    for c in clusters:
        if c.size < found.size:
            found = c
    return found
