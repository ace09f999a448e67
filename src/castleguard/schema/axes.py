"""Quasi-identifiers as axes of public cells; a box is a range of cells on every axis.

The cells of a number are those of its public grid, half-open except for the last one; the cells of a category are the
leaves of its hierarchy, in depth-first order. Everything here depends on the schema alone. SDGS builds its grid
on axes, and shards place their cut points on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from castleguard.schema.cells import Cells, Values, cell_count, cell_ends, cells_of
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema


@dataclass(frozen=True)
class Axis:
    """One quasi-identifier. A number must have a declared domain; a domain of one point is one cell."""

    role: QuasiIdentifier

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.role.name

    @property
    def cells(self) -> int:
        """Number of cells; at least 1."""
        if isinstance(self.role, Categorical):
            return len(self.role.hierarchy.leaves)
        return cell_count(self.role.edges)

    def locate(self, values: Values) -> Cells:
        """Cell of every value: an edge belongs to the cell above it, the upper bound of the domain to the last cell."""
        if isinstance(self.role, Categorical):
            return values.astype(np.int64)
        return cells_of(self.role.edges, values)

    def bounds(self, first: Cells, last: Cells) -> tuple[Values, Values]:
        """Published bounds of the cells from `first` to `last`: the edges around them, or the leaves themselves."""
        if isinstance(self.role, Categorical):
            return first.astype(np.float64), last.astype(np.float64)
        return self.role.edges[first], cell_ends(self.role.edges, last)

    def losses(self, first: Cells, last: Cells) -> Values:
        """VInfoLoss (CASTLE 2.2): share of the domain, or of the leaves as in `Hierarchy.losses`."""
        if isinstance(self.role, Categorical):
            return (last - first) / max(self.cells - 1, 1)
        low, high = self.bounds(first, last)
        width = self.role.edges[-1] - self.role.edges[0]
        return (high - low) / width if width > 0 else np.zeros(low.shape)

    def start(self, cell: int) -> float:
        """Start of a cell, in coded units."""
        return float(cell) if isinstance(self.role, Categorical) else float(self.role.edges[cell])

    def cell_at(self, start: float) -> int | None:
        """Cell that starts at a cut point; None if no cell does, or if it is the first cell."""
        if isinstance(self.role, Categorical):
            return int(start) if start == int(start) and 0 < start < self.cells else None
        cell = int(np.searchsorted(self.role.edges, start))
        return cell if 0 < cell < self.cells and self.role.edges[cell] == start else None

    def places(self, first: int, last: int) -> Cells:
        """Cells before which the range from `first` to `last` may be cut, ascending.

        A category is cut between two children of the lowest node that covers the range: both sides are unions of
        whole children, and can be published as such.
        """
        if isinstance(self.role, Numeric):
            return np.arange(first + 1, last + 1, dtype=np.int64)
        children = self._children[self.role.hierarchy.node(first, last)]
        return np.array([leaf for leaf in children if first < leaf <= last], dtype=np.int64)

    def parts(self, first: int, last: int) -> tuple[int, ...]:
        """First cells of the parts of a range: two halves of a number, or the children of a node; one if uncut."""
        if isinstance(self.role, Categorical):
            return (first, *self.places(first, last).tolist())
        return (first,) if first == last else (first, (first + last + 1) // 2)

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        """First leaf of each child, per node of the hierarchy."""
        assert isinstance(self.role, Categorical)
        tree = self.role.hierarchy
        below: list[list[int]] = [[] for _ in tree.labels]
        for node, parent in enumerate(tree.parents.tolist()):
            if parent >= 0:
                below[parent].append(int(tree.first_leaf[node]))
        return tuple(map(tuple, below))


@dataclass(frozen=True, eq=False)
class Axes:
    """All quasi-identifiers, in schema order. A box is two arrays: first and last cell on every axis."""

    axes: Sequence[Axis]

    @classmethod
    def of(cls, schema: Schema) -> "Axes":
        """Axes of a schema whose numbers all have a declared domain."""
        return cls(tuple(map(Axis, schema.quasi_identifiers)))

    def locate(self, quasi: Values) -> Cells:
        """(rows, columns): cell of every value."""
        return np.stack([axis.locate(quasi[:, at]) for at, axis in enumerate(self.axes)], axis=1)

    def bounds(self, first: Cells, last: Cells) -> tuple[Values, Values]:
        """(boxes, columns): published bounds of boxes."""
        sides = [axis.bounds(first[:, at], last[:, at]) for at, axis in enumerate(self.axes)]
        return np.stack([low for low, _ in sides], axis=1), np.stack([high for _, high in sides], axis=1)

    def losses(self, first: Cells, last: Cells) -> Values:
        """(boxes, columns): information loss of boxes on every axis."""
        return np.stack([axis.losses(first[:, at], last[:, at]) for at, axis in enumerate(self.axes)], axis=1)


def mean_loss(losses: Values) -> Values:
    """InfoLoss of boxes: the mean over the attributes, summed in order and divided once."""
    total: Values = np.zeros(len(losses))
    for column in losses.T:
        total += column
    mean: Values = total / losses.shape[1]
    return mean
