"""The pending rows nearest to a row: a tree of parts of at most 64 rows, made for one release.

Company rows are halved again and again, along the axis on which they spread most. What is found does not depend on the
tree: it only says which parts need not be looked through. Rows that leave are taken out of their parts.
"""

import numpy as np

from castleguard.kernels.citadel_state import (
    BLOCK,
    BY_PLACE,
    BY_RANK,
    DEPTH,
    FAR,
    LIVE,
    PART,
    PENDING_ROW,
    PLACE,
    Axes,
    Singles,
    Work,
)
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.loss import Domain, value_loss
from castleguard.kernels.siphash import NOBODY
from castleguard.kernels.sorting import lower_half, make_key, select_keys
from castleguard.kernels.state import ARRIVALS, OLDEST, State
from castleguard.kernels.views import rows_of

_SURE = np.float32(1 - 1e-6)  # a bound in leaf numbers is not above the loss, whatever rounding does
_WIDER = np.float32(1.5)
_NARROWER = np.float32(0.85)
_LEAST_RADIUS = np.float32(1e-3)


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
def add_outside_three(x: Singles, first: Int, low: Singles, high: Singles, count: Int, far: Singles) -> None:
    """The same for the axes first, first + 1 and first + 2 of x (axes, rows), in one pass."""
    zero = np.float32(0)
    x0, x1, x2 = x[first], x[first + 1], x[first + 2]
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
def add_category(
    domain: Domain, column: Int, values: Singles, low: np.float32, high: np.float32, count: Int, far: Singles
) -> None:
    """Add to `far` by how much the loss of the category low..high grows with each of the values (leaf numbers)."""
    now = np.float32(value_loss(domain, column, float(low), float(high)))
    for at in range(count):
        value = values[at]
        if value < low or value > high:
            after = value_loss(domain, column, float(min(low, value)), float(max(high, value)))
            far[at] += np.float32(after) - now


@kernel
def enlarge(domain: Domain, axes: Axes, x: Singles, low: Singles, high: Singles, count: Int, far: Singles) -> None:
    """far[i]: by how much the box low..high must widen for row i of x (axes, rows)."""
    for at in range(count):
        far[at] = np.float32(0)
    axis = 0
    while axis + 3 <= axes.numbers:
        add_outside_three(x, axis, low, high, count, far)
        axis += 3
    while axis < axes.numbers:
        add_outside(x[axis], low[axis], high[axis], count, far)
        axis += 1
    while axis < axes.column.size:
        add_category(domain, axes.column[axis], x[axis], low[axis], high[axis], count, far)
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


@kernel
def list_company(state: State, axes: Axes, work: Work) -> Int:
    """List the company rows by arrival, with their coordinates; how many there are."""
    rows = rows_of(state)
    capacity = rows.position.size
    by_rank = work.slots[BY_RANK]
    place = work.slots[PLACE]
    count = 0
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        at = position % capacity
        place[at] = -1
        if rows.cluster[at] == PENDING_ROW and rows.person[at] != NOBODY:
            by_rank[count] = at
            count += 1
    for axis in range(axes.column.size):
        column = axes.column[axis]
        origin = axes.origin[0, axis]
        factor = axes.origin[1, axis]
        x = work.coordinate[1, axis]
        for rank in range(count):
            x[rank] = np.float32((rows.quasi[by_rank[rank], column] - origin) * factor)
    return count


@scan_kernel
def extent_of(values: Singles, start: Int, stop: Int) -> tuple[np.float32, np.float32]:
    """The least and the greatest of the values."""
    low = FAR
    high = -FAR
    for at in range(start, stop):
        low = values[at] if values[at] < low else low
        high = values[at] if values[at] > high else high
    return low, high


@kernel
def widest_axis(axes: Axes, bounds: Singles, box: Int) -> Int:
    """The axis on which a box of bounds (2, axes, boxes) is widest."""
    best = 0
    widest = np.float32(-1)
    for axis in range(axes.scale.size):
        width = axes.scale[axis] * (bounds[1, axis, box] - bounds[0, axis, box])
        if width > widest:
            widest = width
            best = axis
    return best


@kernel
def halve_part(axes: Axes, work: Work, part: Int) -> None:
    """Cut a part into parts 2 * part and 2 * part + 1, along the axis on which its bounds are widest."""
    bounds = work.bounds
    start = work.parts[0, part]
    stop = start + work.parts[1, part]
    middle = start + (stop - start) // 2
    cut = widest_axis(axes, bounds, part)
    ranks = work.rank[0]
    keys = work.keys[0]
    bits = work.coordinate[1, cut].view(np.uint32)
    for at in range(start, stop):
        keys[at] = make_key(bits[ranks[at]], ranks[at])
    select_keys(keys, start, stop, middle - start)
    for at in range(start, stop):
        ranks[at] = np.int32(lower_half(keys[at]))
    x = work.coordinate[1, cut]
    highest = -FAR
    lowest = FAR
    for at in range(start, middle):
        highest = max(highest, x[ranks[at]])
    for at in range(middle, stop):
        lowest = min(lowest, x[ranks[at]])
    for axis in range(bounds.shape[1]):
        for side in range(2):
            bounds[side, axis, 2 * part + 1] = bounds[side, axis, part]
            bounds[side, axis, 2 * part] = bounds[side, axis, part]
    bounds[1, cut, 2 * part] = highest
    bounds[0, cut, 2 * part + 1] = lowest
    work.parts[0, 2 * part + 1] = middle
    work.parts[1, 2 * part + 1] = stop - middle
    work.parts[0, 2 * part] = start
    work.parts[1, 2 * part] = middle - start


@kernel
def fill_parts(axes: Axes, work: Work, parts: Int) -> None:
    """Lay out the rows part by part; the bounds of parts become those of their rows, and their spread is summed."""
    by_rank = work.slots[BY_RANK]
    by_place = work.slots[BY_PLACE]
    place = work.slots[PLACE]
    count = work.sizes[LIVE]
    for at in range(count):
        by_place[at] = by_rank[work.rank[0, at]]
        place[by_place[at]] = at
    for part in range(parts):
        work.spread[part] = np.float32(0)
    for axis in range(axes.scale.size):
        x = work.coordinate[0, axis]
        before = work.coordinate[1, axis]
        for at in range(count):
            x[at] = before[work.rank[0, at]]
        for part in range(parts):
            start = work.parts[0, part]
            low, high = extent_of(x, start, start + work.parts[1, part])
            work.bounds[0, axis, part] = low
            work.bounds[1, axis, part] = high
            work.spread[part] += axes.scale[axis] * (high - low)
        for block in range((parts + BLOCK - 1) // BLOCK):
            first = block * BLOCK
            stop = min(first + BLOCK, parts)
            work.outer[0, axis, block] = extent_of(work.bounds[0, axis], first, stop)[0]
            work.outer[1, axis, block] = extent_of(work.bounds[1, axis], first, stop)[1]


@kernel
def make_tree(state: State, axes: Axes, work: Work) -> None:
    """Make the tree of all company rows."""
    count = list_company(state, axes, work)
    work.sizes[LIVE] = count
    depth = 0
    while (count + (1 << depth) - 1) >> depth > PART:
        depth += 1
    work.sizes[DEPTH] = depth
    for rank in range(count):
        work.rank[0, rank] = np.int32(rank)
    work.parts[0, 0] = 0
    work.parts[1, 0] = count
    for axis in range(axes.scale.size):
        low, high = extent_of(work.coordinate[1, axis], 0, count)
        work.bounds[0, axis, 0] = low
        work.bounds[1, axis, 0] = high
    for level in range(depth):
        for part in range((1 << level) - 1, -1, -1):  # backwards: the halves take the places of later parts
            halve_part(axes, work, part)
    fill_parts(axes, work, 1 << depth)
    work.radius[0] = _LEAST_RADIUS


@kernel
def part_of(work: Work, place: Int) -> Int:
    """The part that a place belongs to."""
    low = 0
    high = 1 << work.sizes[DEPTH]
    while high - low > 1:
        middle = (low + high) // 2
        if work.parts[0, middle] <= place:
            low = middle
        else:
            high = middle
    return low


@kernel
def take_out(work: Work, at: Int) -> None:
    """Take a row, by its ring slot, out of the tree. The last row of its part takes its place."""
    by_place = work.slots[BY_PLACE]
    place = work.slots[PLACE]
    gone = place[at]
    part = part_of(work, gone)
    work.parts[1, part] -= 1
    last = work.parts[0, part] + work.parts[1, part]
    moved = by_place[last]
    by_place[gone] = moved
    place[moved] = gone
    place[at] = -1
    work.rank[0, gone] = work.rank[0, last]
    x = work.coordinate[0]
    for axis in range(x.shape[0]):
        x[axis, gone] = x[axis, last]
    work.sizes[LIVE] -= 1


@kernel
def gather(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32) -> Int:
    """List all rows within `radius` of a point as keys of (distance, rank) in work.keys[0]; how many there are."""
    parts = 1 << work.sizes[DEPTH]
    blocks = (parts + BLOCK - 1) // BLOCK
    to_block = work.near[0]
    to_part = work.near[1]
    far = work.near[2]
    bits = far.view(np.uint32)
    keys = work.keys[0]
    found = 0
    bound_distances(axes, work.outer, point, 0, blocks, to_block)
    for block in range(blocks):
        if to_block[block] > radius:
            continue
        first = block * BLOCK
        stop = min(first + BLOCK, parts)
        bound_distances(axes, work.bounds, point, first, stop, to_part)
        for part in range(first, stop):
            size = work.parts[1, part]
            if to_part[part - first] > radius or size == 0:
                continue
            start = work.parts[0, part]
            enlarge(domain, axes, work.coordinate[0, :, start : start + size], point, point, size, far)
            ranks = work.rank[0, start : start + size]
            for at in range(size):
                keys[found] = make_key(bits[at], ranks[at])
                found += far[at] <= radius
    return found


@kernel
def find_nearest(domain: Domain, axes: Axes, work: Work, point: Singles, wanted: Int) -> Int:
    """List the `wanted` rows nearest to a point, fewer if there are fewer, as `gather` does; how many there are."""
    if wanted >= work.sizes[LIVE]:
        return gather(domain, axes, work, point, FAR)
    radius = work.radius[0]
    found = gather(domain, axes, work, point, radius)
    while found < wanted:
        radius *= _WIDER
        found = gather(domain, axes, work, point, radius)
    work.radius[0] = radius * _NARROWER if found > 3 * wanted and radius > _LEAST_RADIUS else radius
    select_keys(work.keys[0], 0, found, wanted)
    return wanted


@kernel
def count_within(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32) -> Int:
    """How many rows lie within `radius` of a point."""
    return gather(domain, axes, work, point, radius)
