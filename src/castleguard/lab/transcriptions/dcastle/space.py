"""The space of the quasi-identifiers as dCASTLE measures it (3.2): losses of many boxes in one expression.

Boxes are columns of two arrays (columns, boxes), numbers first and categories after them, so that either kind is one
slice. A loss is the sum over the attributes (equation 3), where the rest of castleguard has the mean; it is added up in
the order of the schema, which makes every loss equal, to the last bit, to one computed attribute by attribute.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.domain import common_nodes
from castleguard.schema.coded import Quasi
from castleguard.schema.roles import Categorical, Numeric, Schema

Bounds = NDArray[np.float64]  # (columns,) of one box, or (columns, boxes); numbers first
Losses = NDArray[np.float64]  # (boxes,)
Box = tuple[tuple[float, float], ...]  # (low, high) per quasi-identifier, in the order of the schema

EPS = 1e-12  # losses that differ by no more count as equal


class Space:
    """Public facts about the quasi-identifiers. Numbers have bounds."""

    def __init__(self, schema: Schema) -> None:
        numbers = [(at, role) for at, role in enumerate(schema.quasi_identifiers) if isinstance(role, Numeric)]
        categories = [(at, role) for at, role in enumerate(schema.quasi_identifiers) if isinstance(role, Categorical)]
        self.columns = len(schema.quasi_identifiers)
        self.numbers = len(numbers)
        self._from = np.array([at for at, _ in (*numbers, *categories)])  # inner column -> column of the schema
        self._order: list[int] = np.argsort(self._from).tolist()  # column of the schema -> inner column
        domains = np.array([role.domain or (0.0, 0.0) for _, role in numbers]).reshape(-1, 2)
        widths = domains[:, 1] - domains[:, 0]
        self._widths = np.where(widths > 0, widths, np.inf)[:, None]  # a domain of one point loses nothing
        trees = [role.hierarchy for _, role in categories]
        leaves = np.array([len(tree.leaves) for tree in trees], dtype=np.float64)
        self._leaves = leaves[:, None]
        self._tables = (np.cumsum(leaves**2) - leaves**2)[:, None]  # where the table of each category begins
        nodes = [common_nodes(tree).ravel() for tree in trees]
        pairs = list(zip(trees, nodes, strict=True))
        self._pair_losses = _joined([tree.losses[node] for tree, node in pairs])
        self._pair_firsts = _joined([tree.first_leaf[node] for tree, node in pairs])
        self._pair_lasts = _joined([tree.last_leaf[node] for tree, node in pairs])
        self.root = self.box(
            np.concatenate([domains[:, 0], np.zeros(len(trees))]), np.concatenate([domains[:, 1], leaves - 1])
        )
        self.root_loss = self.loss(*self.bounds(self.root))

    def points(self, quasi: Quasi) -> Bounds:
        """(columns, rows): coded rows as points of this space."""
        return np.ascontiguousarray(quasi[:, self._from].T)

    def losses(self, lower: Bounds, upper: Bounds) -> Losses:
        """Losses of boxes."""
        parts = np.empty(lower.shape)
        np.subtract(upper[: self.numbers], lower[: self.numbers], out=parts[: self.numbers])
        parts[: self.numbers] /= self._widths
        if self.numbers < self.columns:
            parts[self.numbers :] = self._pair_losses[self._pairs(lower, upper)]
        # Not parts.sum(axis=0), which may add in another order.
        total: Losses = parts[self._order[0]].copy()
        for column in self._order[1:]:
            total += parts[column]
        return total

    def loss(self, lower: Bounds, upper: Bounds) -> float:
        """Loss of one box."""
        return float(self.losses(lower[:, None], upper[:, None])[0])

    def published(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds]:
        """Generalisation of one box: numbers unchanged, categories as all leaves of their lowest node."""
        if self.numbers == self.columns:
            return lower.copy(), upper.copy()
        pairs = self._pairs(lower[:, None], upper[:, None])[:, 0]
        return (
            np.concatenate([lower[: self.numbers], self._pair_firsts[pairs]]),
            np.concatenate([upper[: self.numbers], self._pair_lasts[pairs]]),
        )

    def box(self, lower: Bounds, upper: Bounds) -> Box:
        """One box in the form of a message."""
        low, high = lower.tolist(), upper.tolist()
        return tuple((low[column], high[column]) for column in self._order)

    def bounds(self, box: Box) -> tuple[Bounds, Bounds]:
        """The inverse."""
        both = np.array(box)[self._from]
        return both[:, 0], both[:, 1]

    def _pairs(self, lower: Bounds, upper: Bounds) -> NDArray[np.intp]:
        """Indices of the pairs of lowest and highest leaf in the tables; (categories, boxes)."""
        categories = slice(self.numbers, None)
        places: NDArray[np.intp] = (lower[categories] * self._leaves + upper[categories] + self._tables).astype(np.intp)
        return places


def _joined(tables: Sequence[NDArray[np.floating] | NDArray[np.integer]]) -> NDArray[np.float64]:
    return np.concatenate([np.empty(0), *tables]).astype(np.float64)
