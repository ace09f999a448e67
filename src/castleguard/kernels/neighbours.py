"""The pending rows nearest to a row: a tree of parts of at most 32 rows, made for one release.

Company rows are halved again and again, along the axis on which they spread most. A search measures the distance to all
rows of a block of 32 parts at once, which is faster than to choose among its parts; blocks that are too far away are
skipped. In a block lie the first rows of all its parts, then the second rows, and so on: so the least distance of every
part is found by comparing whole lines. What a search finds does not depend on any of that. Rows that leave stay where
they are, and are FAR from everything.
"""

import numpy as np

from castleguard.kernels.citadel_state import (
    BLOCK,
    BOUND,
    BY_PLACE,
    BY_RANK,
    DEPTH,
    DISTANCE,
    FAR,
    LANES,
    LEAST,
    LINES,
    LIVE,
    OF_PLACE,
    ORDER,
    PART,
    PENDING_ROW,
    PLACE,
    SCANNED,
    Axes,
    Singles,
    Work,
)
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.loss import LEAVES, Domain, value_loss
from castleguard.kernels.siphash import NOBODY
from castleguard.kernels.sorting import lower_half, make_key, select_keys
from castleguard.kernels.state import ARRIVALS, OLDEST, State
from castleguard.kernels.views import rows_of

_SURE = np.float32(1 - 1e-6)  # a bound in leaf numbers is not above the loss, whatever rounding does
_ENOUGH = 1.3  # times the rows that are wanted: what a search aims at
_WIDER = 2.0
_NARROWER = 0.7
_LEAST_RADIUS = np.float32(0.01)
ANYWHERE = np.float32(1e8)  # beyond any row that has not left


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
    domain: Domain, axes: Axes, axis: Int, values: Singles, low: np.float32, high: np.float32, far: Singles
) -> None:
    """Add to `far` by how much the loss of the category low..high grows with each of the values (leaf numbers)."""
    column = axes.column[axis]
    now = np.float32(value_loss(domain, column, float(low), float(high)))
    leaves = domain.layout[column, LEAVES]
    if values.size < leaves or leaves > axes.growth.size:
        for at in range(values.size):
            far[at] += category_growth(domain, column, (low, high, now), values[at])
        return
    for leaf in range(leaves):  # once for each leaf, and not for each row
        axes.growth[leaf] = category_growth(domain, column, (low, high, now), np.float32(leaf))
    for at in range(values.size):
        far[at] += axes.growth[np.int64(values[at])]


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
        add_category(domain, axes, axis, x[axis, start:stop], low[axis], high[axis], far)
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
def extent_of(values: Singles) -> tuple[np.float32, np.float32]:
    """The least and the greatest of the values."""
    low = FAR
    high = -FAR
    for at in range(values.size):
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
    ranks = work.rank[ORDER]
    keys = work.keys[0]
    bits = work.coordinate[1, cut].view(np.uint32)
    for at in range(start, stop):
        keys[at] = make_key(bits[ranks[at]], ranks[at])
    select_keys(keys, start, stop, middle - start)
    for at in range(start, stop):
        ranks[at] = np.int32(lower_half(keys[at]))
    last = np.uint64(0)
    for at in range(start, middle):
        last = max(last, keys[at])
    first = keys[middle]
    for at in range(middle, stop):
        first = min(first, keys[at])
    for axis in range(bounds.shape[1]):
        for side in range(2):
            bounds[side, axis, 2 * part + 1] = bounds[side, axis, part]
            bounds[side, axis, 2 * part] = bounds[side, axis, part]
    x = work.coordinate[1, cut]
    bounds[1, cut, 2 * part] = x[lower_half(last)]
    bounds[0, cut, 2 * part + 1] = x[lower_half(first)]
    work.parts[0, 2 * part + 1] = middle
    work.parts[1, 2 * part + 1] = stop - middle
    work.parts[0, 2 * part] = start
    work.parts[1, 2 * part] = middle - start


@kernel
def place_of(work: Work, part: Int, number: Int) -> Int:
    """The place of a row of a part."""
    lanes = work.sizes[LANES]
    return (part // lanes * work.sizes[LINES] + number) * lanes + part % lanes


@kernel
def part_of(work: Work, place: Int) -> Int:
    """The part that a place belongs to."""
    lanes = work.sizes[LANES]
    return block_of(work, place) * lanes + place % lanes


@kernel
def block_of(work: Work, place: Int) -> Int:
    """The block that a place belongs to."""
    return place // (work.sizes[LANES] * work.sizes[LINES])


@kernel
def block_count(work: Work) -> Int:
    """How many blocks there are."""
    return (1 << work.sizes[DEPTH]) // work.sizes[LANES]


@kernel
def block_rows(work: Work, block: Int) -> tuple[Int, Int]:
    """The places where a block begins and ends."""
    size = work.sizes[LANES] * work.sizes[LINES]
    return block * size, (block + 1) * size


@kernel
def lay_out(work: Work) -> None:
    """Give every row its place. A part that has a row less than others has an empty place at its end."""
    by_rank = work.slots[BY_RANK]
    by_place = work.slots[BY_PLACE]
    for part in range(1 << work.sizes[DEPTH]):
        start = work.parts[0, part]
        size = work.parts[1, part]
        for number in range(work.sizes[LINES]):
            place = place_of(work, part, number)
            rank = work.rank[ORDER, start + min(number, size - 1)]
            work.rank[OF_PLACE, place] = rank
            by_place[place] = by_rank[rank]
            work.gone[place] = FAR
            if number < size:
                work.gone[place] = np.float32(0)
                work.slots[PLACE, by_rank[rank]] = place


@scan_kernel
def find_extents(x: Singles, lanes: Int, low: Singles, high: Singles) -> None:
    """The least and the greatest number of each lane: x is line after line of as many."""
    for lane in range(lanes):
        low[lane] = FAR
        high[lane] = -FAR
    for line in range(x.size // lanes):
        numbers = x[line * lanes : (line + 1) * lanes]  # a view: vector loops need places that are counted from 0
        for lane in range(lanes):
            low[lane] = numbers[lane] if numbers[lane] < low[lane] else low[lane]
            high[lane] = numbers[lane] if numbers[lane] > high[lane] else high[lane]


@kernel
def fill_parts(axes: Axes, work: Work) -> None:
    """Copy coordinates to their places; the bounds of parts become those of their rows, and their widths are summed."""
    parts = 1 << work.sizes[DEPTH]
    lanes = work.sizes[LANES]
    ranks = work.rank[OF_PLACE]
    for part in range(parts):
        work.spread[part] = np.float32(0)
    for axis in range(axes.scale.size):
        x = work.coordinate[0, axis]
        before = work.coordinate[1, axis]
        for place in range(parts * work.sizes[LINES]):
            x[place] = before[ranks[place]]
        low, high = work.bounds[0, axis], work.bounds[1, axis]
        for block in range(parts // lanes):
            first = block * lanes
            start, stop = block_rows(work, block)
            find_extents(x[start:stop], lanes, low[first : first + lanes], high[first : first + lanes])
            work.outer[0, axis, block] = extent_of(low[first : first + lanes])[0]
            work.outer[1, axis, block] = extent_of(high[first : first + lanes])[1]
        for part in range(parts):
            work.spread[part] += axes.scale[axis] * (high[part] - low[part])
    for block in range(parts // lanes):
        work.live[block] = 0
        for part in range(block * lanes, (block + 1) * lanes):
            work.live[block] += work.parts[1, part]


@kernel
def make_tree(state: State, axes: Axes, work: Work) -> None:
    """Make the tree of all company rows."""
    count = list_company(state, axes, work)
    work.sizes[LIVE] = count
    depth = 0
    while (count + (1 << depth) - 1) >> depth > PART:
        depth += 1
    work.sizes[DEPTH] = depth
    work.sizes[LANES] = min(1 << depth, BLOCK)
    work.sizes[LINES] = (count + (1 << depth) - 1) >> depth
    for rank in range(count):
        work.rank[ORDER, rank] = np.int32(rank)
    work.parts[0, 0] = 0
    work.parts[1, 0] = count
    for axis in range(axes.scale.size):
        low, high = extent_of(work.coordinate[1, axis, :count])
        work.bounds[0, axis, 0] = low
        work.bounds[1, axis, 0] = high
    for level in range(depth):
        for part in range((1 << level) - 1, -1, -1):  # backwards: the halves take the places of later parts
            halve_part(axes, work, part)
    lay_out(work)
    fill_parts(axes, work)
    work.radius[0] = np.float32(1)


@kernel
def take_out(work: Work, at: Int) -> None:
    """Take a row, by its ring slot, out of the company."""
    place = work.slots[PLACE, at]
    work.gone[place] = FAR
    work.slots[PLACE, at] = -1
    work.live[block_of(work, place)] -= 1
    work.sizes[LIVE] -= 1


@scan_kernel
def find_least(far: Singles, lanes: Int, least: Singles) -> None:
    """The least number of each lane."""
    for lane in range(lanes):
        least[lane] = FAR
    for line in range(far.size // lanes):
        numbers = far[line * lanes : (line + 1) * lanes]
        for lane in range(lanes):
            least[lane] = numbers[lane] if numbers[lane] < least[lane] else least[lane]


@kernel
def scan_block(domain: Domain, axes: Axes, work: Work, block: Int, point: Singles) -> None:
    """Measure the distance of all rows of a block to a point, in work.near[DISTANCE] by place."""
    start, stop = block_rows(work, block)
    far = work.near[DISTANCE, start:stop]
    gone = work.gone[start:stop]
    for at in range(stop - start):
        far[at] = gone[at]
    enlarge(domain, axes, work.coordinate[0], (start, stop), point, point, far)
    lanes = work.sizes[LANES]
    find_least(far, lanes, work.near[LEAST, block * lanes : (block + 1) * lanes])


@kernel
def scan_within(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32, scanned: Int) -> Int:
    """Scan and list the blocks that may have rows within a radius of a point and are not among the `scanned` ones yet;
    how many are listed then.
    """
    bound = work.near[BOUND]
    for block in range(block_count(work)):
        if bound[block] <= radius:
            bound[block] = FAR
            if work.live[block] > 0:
                scan_block(domain, axes, work, block, point)
                work.slots[SCANNED, scanned] = block
                scanned += 1
    return scanned


@kernel
def list_within(work: Work, scanned: Int, radius: np.float32) -> Int:
    """List the rows of the scanned blocks within a radius as keys of (distance, rank) in work.keys[0]; how many."""
    far = work.near[DISTANCE]
    bits = far.view(np.uint32)
    keys = work.keys[0]
    ranks = work.rank[OF_PLACE]
    lanes = work.sizes[LANES]
    found = 0
    for number in range(scanned):
        block = work.slots[SCANNED, number]
        start, stop = block_rows(work, block)
        for lane in range(lanes):
            if work.near[LEAST, block * lanes + lane] <= radius:
                for place in range(start + lane, stop, lanes):
                    keys[found] = make_key(bits[place], ranks[place])
                    found += far[place] <= radius
    return found


@kernel
def widening(found: Int, wanted: Int) -> np.float32:
    """By what the radius that has `found` rows is multiplied, so that it has about as many as wanted and some more."""
    factor = (_ENOUGH * wanted / max(found, 1)) ** 0.25
    return np.float32(min(max(factor, _NARROWER), _WIDER))


@kernel
def nearby(work: Work, part: Int) -> np.float32:
    """The mean distance of the rows of a part, whose block has been scanned; 0 if none is left."""
    start, stop = block_rows(work, part // work.sizes[LANES])
    lanes = work.sizes[LANES]
    total = np.float32(0)
    count = 0
    for place in range(start + part % lanes, stop, lanes):
        if work.gone[place] < FAR:
            total += work.near[DISTANCE, place]
            count += 1
    return total / np.float32(max(count, 1))


@kernel
def find_nearest(domain: Domain, axes: Axes, work: Work, point: Singles, home: Int, wanted: Int) -> Int:
    """List the `wanted` rows nearest to a point, fewer if there are fewer, as keys of (distance, rank) in work.keys[0];
    how many there are. The first radius is guessed from the rows of the part `home`, and from what was needed before.
    """
    bound_distances(axes, work.outer, point, 0, block_count(work), work.near[BOUND])
    if wanted >= work.sizes[LIVE]:
        return list_within(work, scan_within(domain, axes, work, point, ANYWHERE, 0), ANYWHERE)
    block = home // work.sizes[LANES]
    scan_block(domain, axes, work, block, point)
    work.slots[SCANNED, 0] = block
    work.near[BOUND, block] = FAR
    around = nearby(work, home)
    radius = around * work.radius[0]
    scanned = scan_within(domain, axes, work, point, radius, 1)
    found = list_within(work, scanned, radius)
    while found < wanted:
        radius = max(radius * widening(found, wanted), _LEAST_RADIUS)
        scanned = scan_within(domain, axes, work, point, radius, scanned)
        found = list_within(work, scanned, radius)
    if around > np.float32(0):
        work.radius[0] = radius / around * widening(found, wanted)
    select_keys(work.keys[0], 0, found, wanted)
    return wanted


@kernel
def count_near(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32) -> Int:
    """How many rows are within a radius of a point."""
    bound_distances(axes, work.outer, point, 0, block_count(work), work.near[BOUND])
    return list_within(work, scan_within(domain, axes, work, point, radius, 0), radius)
