"""A tree of the pending rows of one release, in parts of at most 32 rows.

Company rows are halved again and again, along the axis on which they spread most. In a block of 32 parts lie the first
rows of all parts, then the second rows, and so on: so the least of every part is found by comparing whole lines. Rows
that leave stay where they are, and are FAR from everything.
"""

import numpy as np

from castleguard.kernels.arrays import Singles
from castleguard.kernels.citadel_state import (
    BLOCK,
    BY_PLACE,
    BY_RANK,
    DEPTH,
    FAR,
    LANES,
    LINES,
    LIVE,
    MANY,
    OF_PLACE,
    ORDER,
    PART,
    PENDING_ROW,
    PLACE,
    STRETCH,
    Axes,
    Work,
)
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.sorting import lower_half, make_key, select_keys
from castleguard.kernels.state import ARRIVALS, OLDEST, State
from castleguard.kernels.views import rows_of


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
        if rows.cluster[at] == PENDING_ROW and rows.person[at] != NO_PERSON:
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
def stretch_count(work: Work) -> Int:
    """How many stretches there are."""
    return (block_count(work) + STRETCH - 1) // STRETCH


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
        for stretch in range(stretch_count(work)):
            first = stretch * STRETCH
            stop = min(first + STRETCH, block_count(work))
            work.outermost[0, axis, stretch] = extent_of(work.outer[0, axis, first:stop])[0]
            work.outermost[1, axis, stretch] = extent_of(work.outer[1, axis, first:stop])[1]
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
    work.sizes[LANES] = 1 if count >= MANY else min(1 << depth, BLOCK)
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
