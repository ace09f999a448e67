"""Information loss of intervals and categories (CASTLE, section 2.2), and the public form of a box.

A box is a closed interval per quasi-identifier: of numbers, or of leaf numbers in the hierarchy's depth-first order.
Losses are summed over the attributes in order and divided once, so that every caller gets the same bits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.compile import kernel

Point = NDArray[np.float64]  # (columns,)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nodes = NDArray[np.int32]


class Domain(NamedTuple):
    """What is public about the quasi-identifiers. Attribute a is numeric, or a category with nodes and leaves.

    A small hierarchy has a table of the lowest common ancestor of every pair of leaves; a large one is climbed.
    """

    numeric: NDArray[np.bool_]  # (columns,)
    observed: NDArray[np.bool_]  # (columns,) the number's domain is what has arrived so far
    lower: Floats  # (columns,) of a number's domain
    upper: Floats  # (columns,)
    edge_start: Ints  # (columns + 1,) attribute a's published grid is edges[edge_start[a]:edge_start[a + 1]]
    edges: Floats
    leaves: Ints  # (columns,) number of leaves of a category
    node_start: Ints  # (columns,) where attribute a's nodes begin
    parent: Nodes  # per node, counted from the attribute's own root 0
    first_leaf: Nodes
    last_leaf: Nodes
    node_loss: Floats
    leaf_start: Ints  # (columns,) where attribute a's leaves begin in leaf_node
    leaf_node: Nodes
    table_start: Ints  # (columns,) where attribute a's table begins, -1 = climb
    table_node: Nodes  # (leaves x leaves, flat) lowest common ancestor
    table_loss: Floats  # its loss


@kernel
def common_node(domain: Domain, column: int, low: int, high: int) -> int:
    """The lowest node above both leaves."""
    start = domain.table_start[column]
    if start >= 0:
        return np.int64(domain.table_node[start + low * domain.leaves[column] + high])
    first = domain.node_start[column]
    node = np.int64(domain.leaf_node[domain.leaf_start[column] + low])
    while domain.last_leaf[first + node] < high:
        node = np.int64(domain.parent[first + node])
    return node


@kernel
def value_loss(domain: Domain, column: int, low: float, high: float) -> float:
    """VInfoLoss of one interval: 0 for a point, 1 for the whole domain; 0 where the domain is a single point."""
    if domain.numeric[column]:
        width = domain.upper[column] - domain.lower[column]
        return (high - low) / width if width > 0.0 else 0.0
    start = domain.table_start[column]
    if start >= 0:
        return domain.table_loss[start + np.int64(low) * domain.leaves[column] + np.int64(high)]
    node = common_node(domain, column, np.int64(low), np.int64(high))
    return domain.node_loss[domain.node_start[column] + node]


@kernel
def box_loss(domain: Domain, lower: Point, upper: Point) -> float:
    """InfoLoss of a box."""
    total = 0.0
    for column in range(lower.size):
        total += value_loss(domain, column, lower[column], upper[column])
    return total / lower.size


@kernel
def stretched_loss(domain: Domain, lower: Point, upper: Point, point: Point) -> float:
    """InfoLoss of the box after it has taken in `point`."""
    total = 0.0
    for column in range(lower.size):
        low = point[column] if point[column] < lower[column] else lower[column]
        high = point[column] if point[column] > upper[column] else upper[column]
        total += value_loss(domain, column, low, high)
    return total / lower.size


@kernel
def stretch(lower: Point, upper: Point, point: Point) -> None:
    """Let the box take in `point`."""
    for column in range(lower.size):
        if point[column] < lower[column]:
            lower[column] = point[column]
        if point[column] > upper[column]:
            upper[column] = point[column]


@kernel
def publish_box(domain: Domain, lower: Point, upper: Point, low_out: Point, high_out: Point) -> None:
    """The box as others see it: numbers rounded outward to the public grid, categories as all leaves of one node."""
    for column in range(lower.size):
        if domain.numeric[column]:
            start = domain.edge_start[column]
            stop = domain.edge_start[column + 1]
            if start == stop:
                low_out[column] = lower[column]
                high_out[column] = upper[column]
            else:
                edges = domain.edges[start:stop]
                low_out[column] = edges[np.searchsorted(edges, lower[column], side="right") - 1]
                high_out[column] = edges[np.searchsorted(edges, upper[column], side="left")]
        else:
            node = common_node(domain, column, np.int64(lower[column]), np.int64(upper[column]))
            low_out[column] = domain.first_leaf[domain.node_start[column] + node]
            high_out[column] = domain.last_leaf[domain.node_start[column] + node]


@kernel
def root_box(domain: Domain, low_out: Point, high_out: Point) -> None:
    """The box of everything; an observed domain is not public, so its numbers have no bounds at all."""
    for column in range(low_out.size):
        if domain.numeric[column]:
            low_out[column] = -np.inf if domain.observed[column] else domain.lower[column]
            high_out[column] = np.inf if domain.observed[column] else domain.upper[column]
        else:
            low_out[column] = 0.0
            high_out[column] = domain.leaves[column] - 1


@kernel
def observe(domain: Domain, point: Point) -> None:
    """Widen the observed domains by one arrival."""
    for column in range(point.size):
        if domain.observed[column]:
            if point[column] < domain.lower[column]:
                domain.lower[column] = point[column]
            if point[column] > domain.upper[column]:
                domain.upper[column] = point[column]
