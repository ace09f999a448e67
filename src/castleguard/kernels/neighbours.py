"""The pending rows nearest to a row.

A search measures the distance to all rows of a block of the tree at once, which is faster than to choose among its
parts; blocks that are too far away are skipped. What a search finds does not depend on the tree.
"""

import numpy as np

from castleguard.kernels.citadel_state import (
    BOUND,
    DISTANCE,
    FAR,
    LANES,
    LEAST,
    LIVE,
    OF_PLACE,
    SCANNED,
    Axes,
    Singles,
    Work,
)
from castleguard.kernels.compile import Int, kernel, scan_kernel
from castleguard.kernels.loss import Domain
from castleguard.kernels.sorting import make_key, select_keys
from castleguard.kernels.tree import block_count, block_rows
from castleguard.kernels.widths import bound_distances, enlarge

_ENOUGH = 1.3  # times the rows that are wanted: what a search aims at
_WIDER = 2.0
_NARROWER = 0.7
_LEAST_RADIUS = np.float32(0.01)
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
