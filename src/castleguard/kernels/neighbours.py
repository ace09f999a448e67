"""The pending rows nearest to a row.

A search measures the distance to all rows of a block of the tree at once, which is faster than to choose among its
parts; blocks that are too far away are skipped. What a search finds does not depend on the tree.
"""

import numpy as np

from castleguard.kernels.arrays import Singles
from castleguard.kernels.citadel_state import (
    BOUND,
    DEPTH,
    DISTANCE,
    FAR,
    LANES,
    LEAST,
    LINES,
    LIVE,
    OF_PLACE,
    SCANNED,
    SEARCH,
    STRETCH,
    Axes,
    Work,
)
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.loss import Domain
from castleguard.kernels.sorting import make_key, select_keys
from castleguard.kernels.tree import block_count, block_rows, place_of, stretch_count
from castleguard.kernels.widths import bound_distances, enlarge

_ENOUGH = 1.3  # times the rows that are wanted: what a search aims at
_WIDER = 2.0
_NARROWER = 0.7
_LEAST_RADIUS = np.float32(0.01)
_LEAST_SHARE = np.float32(0.02)  # of the radius that is certain
_MORE = np.float32(1.2)  # times the radius that was needed: what the next search in a large tree begins with
_LEARN = np.float32(0.2)  # how much of what the last search needed counts
_SPARE = 2  # times the rows that are wanted: how many rows around a point are measured for the radius that is certain
ANYWHERE = np.float32(1e8)  # beyond any row that has not left


@scan_kernel
def find_least(far: Singles, lanes: Int, least: Singles) -> None:
    """The least number of each lane."""
    for lane in range(lanes):
        least[lane] = FAR
    for line in range(far.size // lanes):
        numbers = far[line * lanes : (line + 1) * lanes]
        for lane in range(lanes):
            least[lane] = numbers[lane] if numbers[lane] < least[lane] else least[lane]


@scan_kernel
def least_of(far: Singles) -> np.float32:
    """The least of the numbers."""
    least = FAR
    for at in range(far.size):
        least = far[at] if far[at] < least else least
    return least


@kernel
def scan_blocks(domain: Domain, axes: Axes, work: Work, first: Int, last: Int, point: Singles) -> None:
    """Measure the distance of all rows of the blocks first..last to a point, in work.near[DISTANCE] by place."""
    start = block_rows(work, first)[0]
    stop = block_rows(work, last)[1]
    far = work.near[DISTANCE, start:stop]
    gone = work.gone[start:stop]
    for at in range(stop - start):
        far[at] = gone[at]
    enlarge(domain, axes, work.coordinate[0], (start, stop), point, point, far)
    lanes = work.sizes[LANES]
    for block in range(first, last + 1):
        work.slots[SCANNED, block] = work.sizes[SEARCH]
        begin, end = block_rows(work, block)
        if lanes == 1:
            work.near[LEAST, block] = least_of(far[begin - start : end - start])
        else:
            find_least(far[begin - start : end - start], lanes, work.near[LEAST, block * lanes : (block + 1) * lanes])


@kernel
def list_block(work: Work, block: Int, radius: np.float32, found: Int) -> Int:
    """Append the rows of a scanned block within a radius to the keys of (distance, rank) in work.keys[0]; how many
    there are then.
    """
    far = work.near[DISTANCE]
    bits = far.view(np.uint32)
    keys = work.keys[0]
    ranks = work.rank[OF_PLACE]
    lanes = work.sizes[LANES]
    start, stop = block_rows(work, block)
    for lane in range(lanes):
        if work.near[LEAST, block * lanes + lane] <= radius:
            for place in range(start + lane, stop, lanes):
                keys[found] = make_key(bits[place], ranks[place])
                found += far[place] <= radius
    return found


@kernel
def list_within(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32) -> Int:
    """List the rows within a radius of a point as keys of (distance, rank) in work.keys[0]; how many there are."""
    stretches = stretch_count(work)
    blocks = block_count(work)
    far = work.near[BOUND, :stretches]
    bound = work.near[BOUND, stretches : stretches + STRETCH]
    bound_distances(axes, work.outermost, point, 0, stretches, far)
    found: Int = 0
    for stretch in range(stretches):
        if far[stretch] > radius:
            continue
        first = stretch * STRETCH
        stop = min(first + STRETCH, blocks)
        bound_distances(axes, work.outer, point, first, stop, bound)
        for block in range(first, stop):
            if bound[block - first] <= radius and work.live[block] > 0:
                if work.slots[SCANNED, block] != work.sizes[SEARCH]:
                    scan_blocks(domain, axes, work, block, block, point)
                found = list_block(work, block, radius, found)
    return found


@kernel
def certain_radius(domain: Domain, axes: Axes, work: Work, point: Singles, home: Int, wanted: Int) -> np.float32:
    """A radius around a point that has at least `wanted` rows: those of the parts around `home` alone."""
    lanes = work.sizes[LANES]
    lines = work.sizes[LINES]
    size: Int = 1
    while size * lines < _SPARE * wanted:
        size *= 2
    keys = work.keys[0]
    while True:
        size = min(size, 1 << work.sizes[DEPTH])
        part = home // size * size
        first = part // lanes
        stop = max((part + size) // lanes, first + 1)
        scan_blocks(domain, axes, work, first, stop - 1, point)
        found = 0
        for number in range(part, part + size):
            place = place_of(work, number, 0)
            for _ in range(lines):
                far = work.near[DISTANCE, place]
                keys[found] = make_key(work.near.view(np.uint32)[DISTANCE, place], place)
                found += far < ANYWHERE
                place += lanes
        if found >= wanted:
            break
        size *= 2
    select_keys(keys, 0, found, wanted)
    return farthest(work, wanted)


@kernel
def farthest(work: Work, count: Int) -> np.float32:
    """The largest distance of the first keys of work.keys[0]."""
    upper = work.keys[0, :count].view(np.uint32).view(np.float32)
    most = np.float32(0)
    for at in range(count):
        most = max(most, upper[2 * at + 1])
    return most


@kernel
def nearby(domain: Domain, axes: Axes, work: Work, point: Singles, part: Int) -> np.float32:
    """The mean distance of the rows of a part; 0 if none is left."""
    lanes = work.sizes[LANES]
    block = part // lanes
    scan_blocks(domain, axes, work, block, block, point)
    start, stop = block_rows(work, block)
    total = np.float32(0)
    count = 0
    for place in range(start + part % lanes, stop, lanes):
        if work.gone[place] < FAR:
            total += work.near[DISTANCE, place]
            count += 1
    return total / np.float32(max(count, 1))


@kernel
def widening(found: Int, wanted: Int) -> np.float32:
    """By what the radius that has `found` rows is multiplied, so that it has about as many as wanted and some more."""
    factor = (_ENOUGH * wanted / max(found, 1)) ** 0.25
    return np.float32(min(max(factor, _NARROWER), _WIDER))


@kernel
def find_nearest(domain: Domain, axes: Axes, work: Work, point: Singles, home: Int, wanted: Int) -> Int:
    """List the `wanted` rows nearest to a point, fewer if there are fewer, as keys of (distance, rank) in work.keys[0];
    how many there are. `home` is the part that the point lies in.

    The first radius is guessed from the rows around, and from what was needed before. Too large a guess costs much in a
    large tree: there the guess is at most a radius that has enough rows for certain.
    """
    work.sizes[SEARCH] += 1
    if wanted >= work.sizes[LIVE]:
        return list_within(domain, axes, work, point, ANYWHERE)
    large = work.sizes[LANES] == 1
    if large:
        around = certain_radius(domain, axes, work, point, home, wanted)
    else:
        around = nearby(domain, axes, work, point, home)
    most = around if large else ANYWHERE
    least = _LEAST_SHARE * around if large else _LEAST_RADIUS
    radius = min(around * work.radius[0], most)
    found = list_within(domain, axes, work, point, radius)
    while found < wanted:
        radius = min(max(radius * widening(found, wanted), least), most)
        found = list_within(domain, axes, work, point, radius)
    select_keys(work.keys[0], 0, found, wanted)
    if large and around > np.float32(0):
        needed = min(_MORE * farthest(work, wanted) / around, np.float32(1))
        work.radius[0] += _LEARN * (needed - work.radius[0])
    elif around > np.float32(0):
        work.radius[0] = radius / around * widening(found, wanted)
    return wanted


@kernel
def count_near(domain: Domain, axes: Axes, work: Work, point: Singles, radius: np.float32) -> Int:
    """How many rows are within a radius of a point."""
    work.sizes[SEARCH] += 1
    return list_within(domain, axes, work, point, radius)
