"""How wide a box is made by a row that it takes in, for many rows at once: for Citadel and for splits."""

import numpy as np

from castleguard.kernels.arrays import Singles
from castleguard.kernels.citadel_state import Axes
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.loss import LEAVES, Domain, value_loss

_SURE = np.float32(1 - 1e-6)  # keeps a bound in leaf numbers at or below the loss despite rounding


@scan_kernel
def add_outside(values: Singles, low: np.float32, high: np.float32, count: Int, far: Singles) -> None:
    """Add to `far` by how much each of the values lies outside low..high."""
    zero = np.float32(0)
    for at in range(count):
        below = low - values[at]
        above = values[at] - high
        more = below if below > above else above
        far[at] += more if more > zero else zero


@scan_kernel
def add_outside_three(
    x: tuple[Singles, Singles, Singles], low: Singles, high: Singles, first: Int, count: Int, far: Singles
) -> None:
    """The same for the axes first, first + 1 and first + 2 of a box, whose values are in x, in one pass."""
    zero = np.float32(0)
    x0, x1, x2 = x
    low0, low1, low2 = low[first], low[first + 1], low[first + 2]
    high0, high1, high2 = high[first], high[first + 1], high[first + 2]
    for at in range(count):
        below = low0 - x0[at]
        above = x0[at] - high0
        more = below if below > above else above
        total = far[at] + (more if more > zero else zero)
        below = low1 - x1[at]
        above = x1[at] - high1
        more = below if below > above else above
        total += more if more > zero else zero
        below = low2 - x2[at]
        above = x2[at] - high2
        more = below if below > above else above
        far[at] = total + (more if more > zero else zero)


@kernel
def category_growth(
    domain: Domain, column: Int, node: tuple[np.float32, np.float32, np.float32], value: np.float32
) -> np.float32:
    """By how much the loss of a category grows with a value. node = (low, high, loss)."""
    low, high, now = node
    if low <= value <= high:
        return np.float32(0)
    return np.float32(value_loss(domain, column, float(min(low, value)), float(max(high, value)))) - now


@kernel
def add_category(
    domain: Domain, column: Int, growth: Singles, values: Singles, box: tuple[np.float32, np.float32], far: Singles
) -> None:
    """Add to `far` by how much the loss of a category grows with each of the values (leaf numbers). box = (low, high).

    `growth` is scratch space.
    """
    low, high = box
    now = np.float32(value_loss(domain, column, float(low), float(high)))
    leaves = domain.layout[column, LEAVES]
    if values.size < leaves or leaves > growth.size:
        for at in range(values.size):
            far[at] += category_growth(domain, column, (low, high, now), values[at])
        return
    for leaf in range(leaves):  # once for each leaf, and not for each row
        growth[leaf] = category_growth(domain, column, (low, high, now), np.float32(leaf))
    for at in range(values.size):
        far[at] += growth[np.uint32(np.int32(values[at]))]  # unsigned: no check for places from the end


@kernel
def enlarge(
    domain: Domain, axes: Axes, x: Singles, rows: tuple[Int, Int], low: Singles, high: Singles, far: Singles
) -> None:
    """Add to far[i] by how much the box low..high must widen for row start + i of x (axes, rows); rows: start, stop."""
    start, stop = rows
    count = stop - start
    axis = 0
    while axis + 3 <= axes.numbers:
        three = (x[axis, start:stop], x[axis + 1, start:stop], x[axis + 2, start:stop])
        add_outside_three(three, low, high, axis, count, far)
        axis += 3
    while axis < axes.numbers:
        add_outside(x[axis, start:stop], low[axis], high[axis], count, far)
        axis += 1
    while axis < axes.column.size:
        add_category(domain, axes.column[axis], axes.growth, x[axis, start:stop], (low[axis], high[axis]), far)
        axis += 1


@scan_kernel
def add_gap(low: Singles, high: Singles, value: np.float32, scale: np.float32, far: Singles) -> None:
    """Add to `far` how far a value is at least from everything in low[i]..high[i]."""
    zero = np.float32(0)
    for at in range(far.size):
        below = low[at] - value
        above = value - high[at]
        more = below if below > above else above
        far[at] += scale * (more if more > zero else zero)


@kernel
def bound_distances(axes: Axes, bounds: Singles, point: Singles, first: Int, stop: Int, far: Singles) -> None:
    """far[i]: a lower bound of the distance from a point to any row of the box first + i of bounds (2, axes, boxes)."""
    count = stop - first
    for at in range(count):
        far[at] = np.float32(0)
    for axis in range(point.size):
        scale = axes.scale[axis] if axis < axes.numbers else axes.scale[axis] * _SURE
        add_gap(bounds[0, axis, first:stop], bounds[1, axis, first:stop], point[axis], scale, far[:count])
