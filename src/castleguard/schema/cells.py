"""Half-open cells of a public grid: the cell of a value, and the values inside a published range.

Edges e_0 < e_1 < ... < e_m bound the cells [e_0, e_1), [e_1, e_2), ..., [e_(m-1), e_m]: a value on an edge lies in the
cell above it, except that the last edge belongs to the last cell. The cells i to j are published as [e_i, e_(j+1)] for
any values in them, so no published range has width 0. A grid of one edge is one cell that holds one value.

The strict modes code a number as the lower edge of its cell, so later stages cannot tell two values of a cell apart.
All modules use this one to decide whether a number lies in a published range; `kernels/loss.py` has the same rule for
compiled code. Paper mode publishes closed intervals of values and has no cells.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.schema.grid import Edges, resolution

Cells = NDArray[np.int64]
Values = NDArray[np.float64]
Flags = NDArray[np.bool_]


def cell_count(edges: Edges) -> int:
    """Number of cells of a grid; at least 1."""
    return max(edges.size - 1, 1)


def cells_of(edges: Edges, values: Values) -> Cells:
    """Cell number of each value. A value outside the domain lies in the nearest cell."""
    last = cell_count(edges) - 1
    if last == 0:
        return np.zeros(values.shape, dtype=np.int64)
    # All edges but the last are evenly spaced, so a guess by division is fast and wrong by rounding at most.
    places = (values - edges[0]) * (1.0 / (edges[1] - edges[0]))
    found: Cells = np.clip(places, 0, last, out=places).astype(np.int64)
    found -= (values < edges[found]) & (found > 0)
    found += (values >= edges[found + 1]) & (found < last)
    wrong = np.flatnonzero((values < edges[found]) & (found > 0) | (values >= edges[found + 1]) & (found < last))
    if wrong.size:
        found[wrong] = np.clip(np.searchsorted(edges, values[wrong], side="right") - 1, 0, last)
    return found


def cell_starts(edges: Edges, values: Values) -> Values:
    """Lower edge of the cell of each value: the code of a number in the strict modes.

    >>> cell_starts(np.array([0.0, 10.0, 20.0]), np.array([0.0, 9.5, 10.0, 20.0])).tolist()
    [0.0, 0.0, 10.0, 10.0]
    """
    return edges[cells_of(edges, values)]


def cell_ends(edges: Edges, cells: Cells) -> Values:
    """Upper edge of each cell: the upper bound of a published range that ends with this cell."""
    return edges[np.minimum(cells + 1, edges.size - 1)]


def last_cells(edges: Edges, upper: Values) -> Cells:
    """Last cell of each range that is published with this upper bound."""
    found: Cells = np.searchsorted(edges, upper, side="left") - 1
    return np.clip(found, 0, cell_count(edges) - 1)


def largest_inside(upper: Values, last_edge: float | Values) -> Values:
    """Largest float64 inside each published range: its upper bound at the end of the domain, else the one below it.

    >>> largest_inside(np.array([50.0, 100.0]), 100.0).tolist()
    [49.99999999999999, 100.0]
    """
    return np.where(upper < last_edge, np.nextafter(upper, -np.inf), upper)


def contains(values: Values, lower: Values, upper: Values, last_edge: float) -> Flags:
    """Whether each value lies in its published range: below the upper bound, or on it at the end of the domain."""
    inside: Flags = (lower <= values) & (values <= largest_inside(upper, last_edge))
    return inside


def has_single_values(edges: Edges, values: Values) -> bool:
    """Whether some cell can hold only one value, given the common spacing of these values.

    Such a cell hides nothing: its two edges reveal the value between them.
    """
    finest = resolution(values)
    if not finest:
        return False
    place = (edges - float(np.min(values[np.isfinite(values)]))) / finest
    # An edge within rounding error of a possible value counts as that value.
    whole = np.rint(place)
    on_value = np.abs(place - whole) <= 1e-9 * np.maximum(1.0, np.abs(place))
    below = np.where(on_value, whole, np.ceil(place))
    held = np.diff(below)
    if held.size:
        held[-1] += on_value[-1]
    return bool(np.any(held == 1.0))
