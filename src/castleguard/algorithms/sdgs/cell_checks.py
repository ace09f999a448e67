"""Criteria beyond k on the released values of a box: post-processing of released counts, so they cost no privacy.

Every row of a window belongs to a different person (or counts as one), so counts of rows are counts of pairs. The
reference of t-closeness is public, or is computed from the cells of at least k rows of this and earlier windows.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.closeness import Closeness, Shares, distance_between, tree_with_missing
from castleguard.privacy.criteria import Criteria
from castleguard.privacy.diversity import is_entropy_diverse, is_recursive_diverse
from castleguard.schema.roles import Schema

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SLACK = 1e-12


class Check(Protocol):
    """A criterion on the released values of a box, beyond k. It may only use the counts and public information."""

    def __call__(self, column: int, counts: Ints) -> Flags:
        """Flag the boxes that pass; `counts[box, value]` are the released rows, for one sensitive column."""
        ...


def checks_of(criteria: Criteria) -> tuple[Check, ...]:
    """Checks that need a single box only."""
    found: list[Check] = []
    if criteria.l > 1:
        found.append(distinct_values(criteria.l))
    if criteria.diversity == "entropy":
        found.append(_each(lambda counts: is_entropy_diverse(counts, criteria.l)))
    if criteria.diversity == "recursive":
        assert criteria.c is not None
        most = criteria.c
        found.append(_each(lambda counts: is_recursive_diverse(counts, most, criteria.l)))
    return tuple(found)


def distinct_values(least: int) -> Check:
    """Distinct l-diversity."""

    def check(column: int, counts: Ints) -> Flags:
        enough: Flags = np.count_nonzero(counts, axis=1) >= least
        return enough

    return check


def _each(passes: Callable[[Ints], bool]) -> Check:
    """Apply a check of one box to each box."""

    def check(column: int, counts: Ints) -> Flags:
        return np.array([passes(box) for box in counts], dtype=np.bool_)

    return check


class CloseCells:
    """t-closeness of boxes to the rows released so far, or to public shares."""

    def __init__(self, schema: Schema, closeness: Closeness) -> None:
        self._closeness = closeness
        sizes = [len(role.labels or ()) + 1 for role in schema.sensitive]
        self.released = np.zeros((len(sizes), max(sizes)), dtype=np.int64)
        """Rows of cells of at least k rows, by column and value, over all windows."""
        self._sizes = sizes
        self._trees = [
            None if role.hierarchy is None else tree_with_missing(role.hierarchy.parents, role.hierarchy.leaf_nodes)
            for role in schema.sensitive
        ]
        self._public: list[Shares] = []
        if closeness.reference == "public":
            self._public = [closeness.public_shares(role.name, role.labels or ()) for role in schema.sensitive]

    def count(self, column: int, rows: Ints) -> None:
        """Add the released rows of a window to the reference."""
        self.released[column, : rows.size] += rows

    def __call__(self, column: int, counts: Ints) -> Flags:
        """Flag the boxes that are close; none before the burn-in."""
        if self.released[column].sum() < self._closeness.chosen_burn_in():
            return np.zeros(len(counts), dtype=np.bool_)
        reference = self._reference(column)
        kind, tree = self._closeness.distance, self._trees[column]
        far = [distance_between(kind, box / box.sum(), reference, tree) for box in counts]
        return np.array(far, dtype=np.float64) <= self._closeness.t + _SLACK

    def _reference(self, column: int) -> Shares:
        if self._public:
            return self._public[column]
        counts = self.released[column, : self._sizes[column]].astype(np.float64) + self._closeness.alpha
        shares: Shares = counts / counts.sum()
        return shares
