"""Published boxes, one side per quasi-identifier, read back from the published columns alone.

The side of a number is [min, max]. On a public grid it covers half-open cells: the maximum belongs to it only at the
end of the domain. Paper mode publishes closed intervals. The side of a category is the range of leaf numbers under its
node, so one formula gives loss and containment for both kinds.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError, UsageError
from castleguard.judge.reading.values import Codes, Numbers, column_of, numbers_of, refine, texts_of
from castleguard.schema.cells import largest_inside
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema

_INTERVAL = re.compile(r"\*|\[[^\[\],]+, [^\[\],]+\]")


@dataclass(frozen=True)
class Side:
    """One quasi-identifier of all boxes."""

    low: Numbers
    high: Numbers
    node: Codes
    """Node number of a category; for a number, 1 at a root without bounds and 0 elsewhere."""
    domain: tuple[float, float]
    """The widest possible side."""
    cells: bool = False
    """True for ranges of half-open cells, false for closed intervals."""

    def losses(self) -> Numbers:
        """VInfoLoss (CASTLE 2.2): width as a share of the domain."""
        width = self.domain[1] - self.domain[0]
        return (self.high - self.low) / width if width > 0 else np.zeros_like(self.low)

    def contains(self, values: Numbers, rows: Codes) -> NDArray[np.bool_]:
        """True where the value lies inside the side of its row."""
        inside: NDArray[np.bool_] = (self.low[rows] <= values) & (values <= self.largest[rows])
        return inside

    @cached_property
    def largest(self) -> Numbers:
        """Largest value inside the side of each row."""
        return largest_inside(self.high, self.domain[1]) if self.cells else self.high

    def is_widest(self) -> NDArray[np.bool_]:
        """True where the side is the whole domain."""
        widest: NDArray[np.bool_] = (self.low == self.domain[0]) & (self.high == self.domain[1])
        return widest


def read_boxes(published: pa.Table, schema: Schema, *, closed: bool = False) -> tuple[Side, ...]:
    """Read one side per quasi-identifier. Raises InputError if a column is missing or holds impossible values.

    `closed`: numbers are closed intervals (paper mode) instead of ranges of half-open cells.
    """
    return tuple(_side(published, role, closed=closed) for role in schema.quasi_identifiers)


def group_numbers(sides: tuple[Side, ...]) -> Codes:
    """Group number of every row: equal boxes share a number. Numbers run from 0 without gaps."""
    groups: Codes = np.zeros(sides[0].low.size, dtype=np.int64)
    for side in sides:
        for values in (side.low, side.high, side.node):
            groups = refine(groups, values)
    return groups


def _side(published: pa.Table, role: QuasiIdentifier, *, closed: bool) -> Side:
    if isinstance(role, Categorical):
        return _category_side(published, role)
    low, high, unknown = _bounds(published, role)
    node = np.zeros(low.size, dtype=np.int64)
    domain = role.domain
    if (np.isnan(low) | np.isnan(high))[~unknown].any() or (domain is not None and unknown.any()):
        raise InputError(f"published column {role.name!r} has bounds that are missing or unreadable")
    if domain is not None:
        return Side(low, high, node, domain, cells=not closed)
    # An observed domain is known only through the published bounds. Its root has no bounds.
    known_low, known_high = low[~unknown], high[~unknown]
    domain = (float(known_low.min(initial=np.inf)), float(known_high.max(initial=-np.inf)))
    return Side(np.where(unknown, domain[0], low), np.where(unknown, domain[1], high), unknown.astype(np.int64), domain)


def _category_side(published: pa.Table, role: Categorical) -> Side:
    hierarchy = role.hierarchy
    labels, codes = texts_of(column_of(published, role.name))
    node_of = {label: node for node, label in enumerate(hierarchy.labels)}
    nodes = np.array([-1 if label is None else node_of.get(label, -1) for label in labels], dtype=np.int64)
    if (nodes < 0).any():
        raise InputError(f"published column {role.name!r} has a value that is not a node of its hierarchy")
    node: Codes = nodes[codes]
    low = hierarchy.first_leaf[node].astype(np.float64)
    high = hierarchy.last_leaf[node].astype(np.float64)
    return Side(low, high, node, (0.0, float(len(hierarchy.leaves) - 1)))


def _bounds(published: pa.Table, role: Numeric) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Bounds of every row, from two columns or one column of intervals, and which rows have no bounds."""
    lower, upper = f"{role.name}_min", f"{role.name}_max"
    if lower in published.column_names or upper in published.column_names:
        low, no_low = numbers_of(column_of(published, lower), role.kind)
        high, no_high = numbers_of(column_of(published, upper), role.kind)
        return low, high, no_low & no_high
    texts, codes = texts_of(column_of(published, role.name))
    if not all(text is not None and _INTERVAL.fullmatch(text) for text in texts):
        raise UsageError(
            f'published column {role.name!r} does not hold ranges: publish with numbers="bounds" or "interval"'
        )
    pairs = [str(text)[1:-1].partition(", ") for text in texts]
    low, _ = numbers_of(pa.chunked_array([[pair[0] for pair in pairs]], pa.string()), role.kind)
    high, _ = numbers_of(pa.chunked_array([[pair[2] for pair in pairs]], pa.string()), role.kind)
    return low[codes], high[codes], np.array([text == "*" for text in texts], dtype=np.bool_)[codes]
