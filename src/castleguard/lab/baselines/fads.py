"""FADS (Guo and Zhang, Knowledge-Based Systems 46, 2013): a row that must leave takes its nearest neighbours along.

A published cluster is kept for a while, and a row that it covers may leave in it alone. docs/concepts/baselines.md
lists our readings of open points.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded, Codes, Values, node_bounds
from castleguard.lab.baselines.enough import Enough
from castleguard.privacy.parameters import check_count
from castleguard.schema.roles import Categorical

Reuse = Literal["smaller", "always"]
"""When a row leaves in an earlier cluster: if that loses less than a new one, or whenever possible."""

REUSE_SHARE = 10
"""Lifetime of a cluster in the paper, as a share of the delay (200 rows with a delay of 2,000)."""


def fads(
    coded: Coded, *, k: int, delay: int, l: int = 1, reuse: Reuse = "smaller", reuse_age: int | None = None
) -> Boxed:
    """Publish every row before `delay` others have arrived after it.

    A cluster is reused until `reuse_age` rows have arrived after its creation; None: a tenth of the delay.
    """
    check_count("delay", delay, least=0)
    age = delay // REUSE_SHARE if reuse_age is None else check_count("reuse_age", reuse_age, least=0)
    run = _Run(coded, Enough(coded, k, l), reuse, age)
    for newest in range(coded.count):
        if newest >= delay:
            run.expire(newest - delay, newest)
    for row in range(max(coded.count - delay, 0), coded.count):
        run.expire(row, coded.count - 1)
    columns = coded.rows.quasi.shape[1]
    lower, upper = (np.array(side).reshape(-1, columns) for side in (run.lower, run.upper))
    return Boxed(run.box, lower, upper, run.released)


@dataclass(eq=False)
class _Run:
    """One run: released rows, their clusters, and the reusable clusters."""

    coded: Coded
    enough: Enough
    reuse: Reuse
    reuse_age: int
    lower: list[Values] = field(default_factory=list)
    upper: list[Values] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    """Newest row at the creation of each cluster."""
    first: int = 0
    """Oldest cluster that is still reusable."""

    def __post_init__(self) -> None:
        self.box: Codes = np.full(self.coded.count, NOWHERE, dtype=np.int64)
        self.released: Codes = np.zeros(self.coded.count, dtype=np.int64)
        self.waiting = ~self.coded.rows.to_root
        self.near = Nearness(self.coded)

    def expire(self, row: int, newest: int) -> None:
        """Publish the row, if it is still pending, at its deadline. Rows expire in order, each once."""
        if not self.waiting[row]:
            return
        again = self._reusable(row, newest)
        taken = self._neighbours(row, newest) if again is None or self.reuse == "smaller" else None
        if taken is not None:
            lower, upper = self._bounds(taken)
            loss = self._loss(lower, upper)
            if again is None or loss <= self.losses[again]:
                self._leave(taken, self._new(lower, upper, loss, newest), newest)
                return
        if again is not None:
            self._leave(np.array([row]), again, newest)

    def _new(self, lower: Values, upper: Values, loss: float, newest: int) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.losses.append(loss)
        self.made.append(newest)
        return len(self.made) - 1

    def _leave(self, rows: Codes, cluster: int, newest: int) -> None:
        self.box[rows] = cluster
        self.released[rows] = newest + 1
        self.waiting[rows] = False

    def _reusable(self, row: int, newest: int) -> int | None:
        """The reusable cluster that covers the row with the smallest loss, the oldest among equals."""
        while self.first < len(self.made) and newest - self.made[self.first] >= self.reuse_age:
            self.first += 1
        if self.first == len(self.made):
            return None
        value = self.coded.rows.quasi[row]
        lower, upper = np.array(self.lower[self.first :]), np.array(self.upper[self.first :])
        covering = np.flatnonzero(((lower <= value) & (value <= upper)).all(axis=1))
        if not covering.size:
            return None
        losses = np.array(self.losses[self.first :])[covering]
        return self.first + int(covering[losses.argmin()])

    def _neighbours(self, row: int, newest: int) -> Codes | None:
        """The row with its nearest rows of k - 1 other persons, and further ones up to l values; None if there are too
        few."""
        held = row + 1 + np.flatnonzero(self.waiting[row + 1 : newest + 1])
        if held.size + 1 < self.enough.k:
            return None
        order = held[np.argsort(self.near(row, held), kind="stable")]
        others = order
        if not self.coded.is_one_row_each:
            persons = self.coded.persons
            _, first = np.unique(persons[order], return_index=True)
            others = order[np.sort(first)]
            others = others[persons[others] != persons[row]]
        if others.size + 1 < self.enough.k:
            return None
        taken: Codes = np.append(row, others[: self.enough.k - 1])
        for column in range(self.coded.rows.sensitive.shape[1] if self.enough.l > 1 else 0):
            taken = self._with_values(taken, order, column)
        return None if self.enough.lacks_values(taken) else taken

    def _with_values(self, taken: Codes, order: Codes, column: int) -> Codes:
        """Add the nearest rows that bring the missing values."""
        codes = self.coded.rows.sensitive[:, column]
        present = np.unique(codes[taken])
        _, first = np.unique(codes[order], return_index=True)
        fresh = order[np.sort(first)]
        fresh = fresh[~np.isin(codes[fresh], present)]
        return np.append(taken, fresh[: max(self.enough.l - present.size, 0)])

    def _bounds(self, rows: Codes) -> tuple[Values, Values]:
        """Published bounds of the rows: ranges, and nodes as the leaves below them."""
        values = self.coded.rows.quasi[rows]
        lower, upper = values.min(axis=0), values.max(axis=0)
        for at, role in enumerate(self.coded.schema.quasi_identifiers):
            if isinstance(role, Categorical):
                lower[at : at + 1], upper[at : at + 1] = node_bounds(role, lower[at : at + 1], upper[at : at + 1])
        return lower, upper

    def _loss(self, lower: Values, upper: Values) -> float:
        return float(((upper - lower) / self.near.widths).mean())


class Nearness:
    """Distance of rows: the loss if both are published in their common box, summed over the columns."""

    def __init__(self, coded: Coded) -> None:
        self.widths = coded.widths
        roles = coded.schema.quasi_identifiers
        self._numbers = [at for at, role in enumerate(roles) if not isinstance(role, Categorical)]
        self._shares = coded.rows.quasi[:, self._numbers] / self.widths[self._numbers]
        self._leaves = {
            at: (coded.rows.quasi[:, at].astype(np.int64), _losses_between_leaves(role))
            for at, role in enumerate(roles)
            if isinstance(role, Categorical)
        }

    def __call__(self, row: int, others: Codes) -> Values:
        """Distances of a row to others."""
        away: Values = np.abs(self._shares[others] - self._shares[row]).sum(axis=1)
        for leaves, losses in self._leaves.values():
            away += losses[leaves[row], leaves[others]]
        return away


def _losses_between_leaves(role: Categorical) -> Values:
    """(leaves, leaves) loss of the lowest node that covers both."""
    tree = role.hierarchy
    count = len(tree.leaves)
    losses = np.zeros((count, count))
    # From the root down, so that the lowest node is written last.
    for node in range(len(tree.labels)):
        under = slice(int(tree.first_leaf[node]), int(tree.last_leaf[node]) + 1)
        losses[under, under] = tree.losses[node]
    return losses
