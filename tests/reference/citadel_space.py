"""The space in which Citadel measures rows and boxes: one axis per quasi-identifier, all arithmetic in float32.

Numbers come first, in schema order, then categories. A number lies in [0, 1] of its domain; a category lies at its leaf
number, and an interval of leaves is as wide as the loss of the lowest node above both ends. Every sum starts at 0 and
runs over the axes in order, so that a compiled twin gets the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .measure import Attribute, Categorical, Numeric, Row, Tree

F = np.float32
Values = tuple[float, ...]  # of a row, one per quasi-identifier
Point = tuple[np.float32, ...]  # one coordinate per axis
Span = tuple[np.float32, np.float32]  # lowest and highest coordinate on one axis
Bounds = tuple[Span, ...]  # one span per axis

ZERO = F(0)


class Axis(Protocol):
    """One quasi-identifier."""

    @property
    def column(self) -> int:
        """Its place in the schema."""

    @property
    def scale(self) -> np.float32:
        """What makes coordinates of all axes comparable."""

    def coordinate(self, value: float) -> np.float32: ...

    def width(self, span: Span) -> np.float32: ...

    def enlargement(self, span: Span, x: np.float32) -> np.float32:
        """How much wider the span becomes when it takes in `x`."""


@dataclass(frozen=True)
class NumberAxis:
    """A number, as a share of its domain."""

    column: int
    lower: float
    upper: float

    @property
    def scale(self) -> np.float32:
        return F(1)

    def coordinate(self, value: float) -> np.float32:
        if self.upper == self.lower:
            return ZERO
        return F((value - self.lower) * (1 / (self.upper - self.lower)))

    def width(self, span: Span) -> np.float32:
        return span[1] - span[0]

    def enlargement(self, span: Span, x: np.float32) -> np.float32:
        return max(span[0] - x, x - span[1], ZERO)


@dataclass(frozen=True)
class CategoryAxis:
    """A category, by its leaf number."""

    column: int
    tree: Tree

    @property
    def scale(self) -> np.float32:
        return F(1 / max(len(self.tree.leaf_nodes) - 1, 1))

    def coordinate(self, value: float) -> np.float32:
        return F(value)

    def width(self, span: Span) -> np.float32:
        return self._widths[span]

    @cached_property
    def _widths(self) -> dict[Span, np.float32]:
        leaves = range(len(self.tree.leaf_nodes))
        return {
            (F(low), F(high)): F(self.tree.losses[self.tree.common_ancestor(low, high)])
            for low in leaves
            for high in leaves[low:]
        }

    def enlargement(self, span: Span, x: np.float32) -> np.float32:
        return self.width((min(span[0], x), max(span[1], x))) - self.width(span)


class Space:
    """All axes of a schema."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        numbers: list[Axis] = []
        categories: list[Axis] = []
        for column, attribute in enumerate(attributes):
            if isinstance(attribute, Categorical):
                categories.append(CategoryAxis(column, attribute.tree))
            else:
                numbers.append(NumberAxis(column, *_domain_of(attribute)))
        self.axes = numbers + categories
        self._points: dict[Values, Point] = {}
        self._distances: dict[tuple[Values, Values], np.float32] = {}

    def point(self, row: Row) -> Point:
        if row.quasi not in self._points:
            self._points[row.quasi] = tuple(axis.coordinate(row.quasi[axis.column]) for axis in self.axes)
        return self._points[row.quasi]

    def bounds(self, rows: Iterable[Row]) -> Bounds:
        """Minima and maxima of the rows' coordinates."""
        return tuple((min(line), max(line)) for line in zip(*(self.point(row) for row in rows), strict=True))

    def width(self, bounds: Bounds) -> np.float32:
        total = ZERO
        for axis, span in zip(self.axes, bounds, strict=True):
            total = total + axis.width(span)
        return total

    def enlargement(self, bounds: Bounds, point: Point) -> np.float32:
        total = ZERO
        for axis, span, x in zip(self.axes, bounds, point, strict=True):
            total = total + axis.enlargement(span, x)
        return total

    def distance(self, row: Row, other: Row) -> np.float32:
        """The enlargement of the other's point."""
        pair = row.quasi, other.quasi
        if pair not in self._distances:
            self._distances[pair] = self.enlargement(self.bounds([other]), self.point(row))
        return self._distances[pair]

    def spread(self, bounds: Bounds) -> np.float32:
        """Scaled extent of bounds, in coordinates for categories too."""
        total = ZERO
        for extent in self.extents(bounds):
            total = total + extent
        return total

    def extents(self, bounds: Bounds) -> list[np.float32]:
        """Scaled extent of each axis."""
        return [axis.scale * (high - low) for axis, (low, high) in zip(self.axes, bounds, strict=True)]

    def centre(self, bounds: Bounds) -> Point:
        """Scaled middle of bounds."""
        return tuple(F(0.5) * (low + high) * axis.scale for axis, (low, high) in zip(self.axes, bounds, strict=True))


def widest(extents: Sequence[np.float32]) -> int:
    """The axis of the largest extent, the first of equals."""
    return extents.index(max(extents))


def _domain_of(attribute: Numeric) -> tuple[float, float]:
    if attribute.lower is None or attribute.upper is None:
        raise ValueError("Citadel needs the domain of every number")
    return attribute.lower, attribute.upper
