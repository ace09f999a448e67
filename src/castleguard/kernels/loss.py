"""Information loss of intervals and categories (CASTLE, section 2.2), and the published form of a box.

A box is a closed interval per quasi-identifier: of numbers, or of leaf numbers in the hierarchy's depth-first order.
Numbers with a public grid arrive as the lower edges of their half-open cells (`schema/cells.py`), and the interval from
one cell to another is published as all values of these cells: up to the edge above the last one. Losses are summed over
the attributes in order and divided once, so that every caller gets the same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Floats, Floats2, Ints2
from castleguard.kernels.compile import Bool, Int, kernel

Point = NDArray[np.float64]  # (columns,)


# Elements of a row of `Domain.layout`, one row per attribute. Offsets are indices into `Domain.pool`.
NUMERIC = 0  # 1 for a number, 0 for a category
OBSERVED = 1  # 1 if the domain of a number is the range seen so far
EDGES = 2  # offset of the published grid
EDGE_COUNT = 3  # 0 = published without a grid
LEAVES = 4  # number of leaves of a category
PARENTS = 5  # offset of the nodes' parents
FIRST_LEAVES = 6  # offset of the nodes' first leaves
LAST_LEAVES = 7  # offset of the nodes' last leaves
LOSSES = 8  # offset of the nodes' losses
LEAF_NODES = 9  # offset of the leaves' own nodes
PAIR_NODES = 10  # offset of the lowest common ancestor of every pair of leaves, -1 = climb the tree
PAIR_LOSSES = 11  # offset of its loss
LAYOUT = 12


class Domain(NamedTuple):
    """Public domains of the quasi-identifiers, in three arrays: fewer arguments compile faster.

    A small hierarchy has a table of the lowest common ancestor of every pair of leaves; a large one is climbed.
    """

    layout: Ints2  # (columns, LAYOUT)
    bounds: Floats2  # (2, columns) the domain of a number; changes where it is observed
    pool: Floats  # grids, nodes and tables


@kernel
def common_node(domain: Domain, column: Int, low: Int, high: Int) -> Int:
    """Lowest common ancestor of two leaves."""
    layout = domain.layout[column]
    if layout[PAIR_NODES] >= 0:
        return np.int64(domain.pool[layout[PAIR_NODES] + low * layout[LEAVES] + high])
    node = np.int64(domain.pool[layout[LEAF_NODES] + low])
    while domain.pool[layout[LAST_LEAVES] + node] < high:
        node = np.int64(domain.pool[layout[PARENTS] + node])
    return node


@kernel
def value_loss(domain: Domain, column: Int, low: float, high: float) -> float:
    """VInfoLoss of one interval: 0 for a point, 1 for the whole domain; 0 where the domain is a single point."""
    layout = domain.layout[column]
    if layout[NUMERIC] == 1:
        width = domain.bounds[1, column] - domain.bounds[0, column]
        return (high - low) / width if width > 0.0 else 0.0
    if layout[PAIR_LOSSES] >= 0:
        return domain.pool[layout[PAIR_LOSSES] + np.int64(low) * layout[LEAVES] + np.int64(high)]
    return domain.pool[layout[LOSSES] + common_node(domain, column, np.int64(low), np.int64(high))]


@kernel
def box_loss(domain: Domain, lower: Point, upper: Point) -> float:
    """InfoLoss of a box."""
    total = 0.0
    for column in range(lower.size):
        total += value_loss(domain, column, lower[column], upper[column])
    return total / lower.size


@kernel
def stretched_loss(domain: Domain, lower: Point, upper: Point, point: Point) -> float:
    """InfoLoss of the box after adding `point`."""
    total = 0.0
    for column in range(lower.size):
        low = point[column] if point[column] < lower[column] else lower[column]
        high = point[column] if point[column] > upper[column] else upper[column]
        total += value_loss(domain, column, low, high)
    return total / lower.size


@kernel
def stretch(lower: Point, upper: Point, point: Point) -> None:
    """Extend the box to include `point`."""
    for column in range(lower.size):
        if point[column] < lower[column]:
            lower[column] = point[column]
        if point[column] > upper[column]:
            upper[column] = point[column]


@kernel
def publish_box(domain: Domain, lower: Point, upper: Point, low_out: Point, high_out: Point) -> None:
    """Compute the published box: numbers as whole cells of the public grid, categories as all leaves of one node."""
    for column in range(lower.size):
        layout = domain.layout[column]
        if layout[NUMERIC] == 0:
            node = common_node(domain, column, np.int64(lower[column]), np.int64(upper[column]))
            low_out[column] = domain.pool[layout[FIRST_LEAVES] + node]
            high_out[column] = domain.pool[layout[LAST_LEAVES] + node]
        elif layout[EDGE_COUNT] == 0:
            low_out[column] = lower[column]
            high_out[column] = upper[column]
        else:
            edges = domain.pool[layout[EDGES] : layout[EDGES] + layout[EDGE_COUNT]]
            start = np.searchsorted(edges, lower[column], side="right") - 1
            end = np.searchsorted(edges, upper[column], side="right")
            # The last edge belongs to the last cell; a grid of one edge is a cell of width 0.
            low_out[column] = edges[max(min(start, edges.size - 2), 0)]
            high_out[column] = edges[min(end, edges.size - 1)]


@kernel
def largest_inside(domain: Domain, column: Int, high: float) -> float:
    """Largest value inside a published interval that ends at `high`: below it on a grid, except at the domain's end."""
    if domain.layout[column, EDGE_COUNT] > 0 and high < domain.bounds[1, column]:
        return np.nextafter(high, -np.inf)
    return high


@kernel
def cell_loss(domain: Domain) -> float:
    """Approximate loss of a published box beyond that of its range intervals: one cell per number."""
    total = 0.0
    for column in range(domain.layout.shape[0]):
        layout = domain.layout[column]
        if layout[EDGE_COUNT] > 1:
            edges = domain.pool[layout[EDGES] : layout[EDGES] + layout[EDGE_COUNT]]
            total += value_loss(domain, column, edges[0], edges[1])
    return total / domain.layout.shape[0]


@kernel
def root_box(domain: Domain, low_out: Point, high_out: Point) -> None:
    """Compute the box of the whole domain; an observed domain is not public, so its numbers are unbounded."""
    for column in range(low_out.size):
        layout = domain.layout[column]
        if layout[NUMERIC] == 0:
            low_out[column] = 0.0
            high_out[column] = layout[LEAVES] - 1
        else:
            low_out[column] = -np.inf if layout[OBSERVED] == 1 else domain.bounds[0, column]
            high_out[column] = np.inf if layout[OBSERVED] == 1 else domain.bounds[1, column]


@kernel
def is_root(domain: Domain, low: Point, high: Point) -> Bool:
    """Whether a published box is the root box."""
    for column in range(low.size):
        layout = domain.layout[column]
        if layout[NUMERIC] == 0:
            same = low[column] == 0.0 and high[column] == layout[LEAVES] - 1
        elif layout[OBSERVED] == 1:
            same = low[column] == -np.inf and high[column] == np.inf
        else:
            same = low[column] == domain.bounds[0, column] and high[column] == domain.bounds[1, column]
        if not same:
            return False
    return True


@kernel
def observe(domain: Domain, point: Point) -> None:
    """Widen the observed domains to include an arriving row."""
    for column in range(point.size):
        if domain.layout[column, OBSERVED] == 1:
            if point[column] < domain.bounds[0, column]:
                domain.bounds[0, column] = point[column]
            if point[column] > domain.bounds[1, column]:
                domain.bounds[1, column] = point[column]
