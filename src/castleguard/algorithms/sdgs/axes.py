"""The public domain as whole numbers: each quasi-identifier is an axis of cells, a box is a range on every axis.

A number's cells are those of its public grid, half-open but for the last one; a category's are the leaves of its
hierarchy. Everything here is a function of the schema and of nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from castleguard.schema.cells import Cells, Values, cell_count, cell_ends, cells_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema


@dataclass(frozen=True, eq=False)
class NumberAxis:
    """A number: the cells between the edges of its grid. A domain of one point is one cell."""

    edges: Values

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return cell_count(self.edges)

    def locate(self, values: Values) -> Cells:
        """The cell of every value: an edge belongs to the cell above it, the upper bound to the last cell."""
        return cells_of(self.edges, values)

    def bounds(self, first: Cells, last: Cells) -> tuple[Values, Values]:
        """What is published for the cells from `first` to `last`: the edges around them."""
        return self.edges[first], cell_ends(self.edges, last)

    def losses(self, first: Cells, last: Cells) -> Values:
        """VInfoLoss (CASTLE 2.2): the share of the domain."""
        low, high = self.bounds(first, last)
        width = self.edges[-1] - self.edges[0]
        return (high - low) / width if width > 0 else np.zeros(low.shape)

    def cut(self, first: int, last: int) -> tuple[int, ...]:
        """The first cells of the parts that a range falls into: its two halves. One part: it cannot be cut."""
        return (first,) if first == last else (first, (first + last + 1) // 2)


@dataclass(frozen=True, eq=False)
class CategoryAxis:
    """A category: the leaves of its hierarchy, in depth-first order."""

    hierarchy: Hierarchy

    @property
    def cells(self) -> int:
        """How many leaves there are."""
        return len(self.hierarchy.leaves)

    def locate(self, values: Values) -> Cells:
        """The leaf of every value, which is its code."""
        return values.astype(np.int64)

    def bounds(self, first: Cells, last: Cells) -> tuple[Values, Values]:
        """What is published for a node: its first and its last leaf."""
        return first.astype(np.float64), last.astype(np.float64)

    def losses(self, first: Cells, last: Cells) -> Values:
        """VInfoLoss (CASTLE 2.2) of the nodes with these leaves, as `Hierarchy.losses` has it."""
        return (last - first) / max(self.cells - 1, 1)

    def cut(self, first: int, last: int) -> tuple[int, ...]:
        """The first leaves of the node's children; of the lowest node where several have the same leaves."""
        children = self._children[self.hierarchy.node(first, last)]
        return children or (first,)

    @cached_property
    def _children(self) -> tuple[tuple[int, ...], ...]:
        """Per node: the first leaf of each child."""
        below: list[list[int]] = [[] for _ in self.hierarchy.labels]
        for node, parent in enumerate(self.hierarchy.parents.tolist()):
            if parent >= 0:
                below[parent].append(int(self.hierarchy.first_leaf[node]))
        return tuple(map(tuple, below))


Axis = NumberAxis | CategoryAxis


@dataclass(frozen=True, eq=False)
class Axes:
    """All quasi-identifiers, in the order of the schema. A box is two arrays: first and last cell on every axis."""

    axes: Sequence[Axis]

    @classmethod
    def of(cls, schema: Schema) -> "Axes":
        """The axes of a schema whose numbers all have bounds."""
        return cls(tuple(_axis(role) for role in schema.quasi_identifiers))

    def locate(self, quasi: Values) -> Cells:
        """(rows, columns): the cell of every value."""
        return np.stack([axis.locate(quasi[:, at]) for at, axis in enumerate(self.axes)], axis=1)

    def bounds(self, first: Cells, last: Cells) -> tuple[Values, Values]:
        """(boxes, columns): the published bounds of boxes."""
        sides = [axis.bounds(first[:, at], last[:, at]) for at, axis in enumerate(self.axes)]
        return np.stack([low for low, _ in sides], axis=1), np.stack([high for _, high in sides], axis=1)

    def losses(self, first: Cells, last: Cells) -> Values:
        """(boxes, columns): the information loss of boxes on every axis."""
        return np.stack([axis.losses(first[:, at], last[:, at]) for at, axis in enumerate(self.axes)], axis=1)


def mean_loss(losses: Values) -> Values:
    """InfoLoss of boxes: the mean over the attributes, summed in their order and divided once."""
    total: Values = np.zeros(len(losses))
    for column in losses.T:
        total += column
    mean: Values = total / losses.shape[1]
    return mean


def _axis(role: Numeric | Categorical) -> Axis:
    return NumberAxis(role.edges) if isinstance(role, Numeric) else CategoryAxis(role.hierarchy)
