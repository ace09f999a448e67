"""split (CASTLE, section 4.1): split a cluster of at least 2k persons into sub-clusters of at least k persons.

The input is the members by arrival, the output a sub-cluster number for each. Repaired as described in
docs/concepts/castle.md: the seed row leaves its bucket, each other bucket offers its row nearest to the seed, and
left-over rows go one by one to the sub-cluster that they enlarge least. While k buckets are left, k - 1 remain besides
the seed's, so every sub-cluster starts with exactly k persons.
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.candidates import FEW, begin_box, lay_out_lines, list_candidates, list_rows, measure, scan_rows
from castleguard.kernels.chacha import ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.citadel_state import FAR
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.grouping import number_keys, offer, sort_by_part
from castleguard.kernels.loss import Domain, Point, box_loss, stretch, stretched_loss
from castleguard.kernels.state import EPS, Work
from castleguard.kernels.views import (
    Buckets,
    Line,
    Parts,
    cluster_of,
    line_of,
    nearest_of,
    numbers_of,
    parts_of,
    person_buckets,
    scan_of,
)

BLOCK = 64  # buckets that are counted together
TAKEN = -1  # in place of a bucket: the row is in a sub-cluster


@kernel
def start_part(parts: Parts, number: Int, point: Point) -> None:
    """Start a sub-cluster with one row."""
    for column in range(point.size):
        parts.lower[number, column] = point[column]
        parts.upper[number, column] = point[column]


@kernel
def add_leftover(domain: Domain, parts: Parts, count: Int, point: Point) -> Int:
    """Add a row to the sub-cluster that it enlarges least; return its number."""
    best = 0
    least = np.inf
    for number in range(count):
        gain = stretched_loss(domain, parts.lower[number], parts.upper[number], point) - parts.loss[number]
        if gain < least - EPS:
            least = gain
            best = number
    stretch(parts.lower[best], parts.upper[best], point)
    parts.loss[best] = box_loss(domain, parts.lower[best], parts.upper[best])
    return best


@kernel
def line_up(work: Work, buckets: Buckets, count: Int, found: Int) -> None:
    """Put the rows into a line, bucket by bucket, in order of arrival within each."""
    line = line_of(work)
    number = numbers_of(work).person
    filled = numbers_of(work).tally
    sort_by_part(number, count, found, line.start, line.row)
    for at in range(count):
        line.bucket[at] = number[line.row[at]]
    for block in range(found // BLOCK + 1):
        filled[block] = min(BLOCK, found - block * BLOCK)
    for bucket in range(found):
        buckets.size[bucket] = line.start[bucket + 1] - line.start[bucket]


@kernel
def find_bucket(buckets: Buckets, filled: Ints, number: Int) -> Int:
    """Return the number-th bucket that is not empty."""
    block = 0
    while number >= filled[block]:
        number -= filled[block]
        block += 1
    bucket = block * BLOCK
    while buckets.size[bucket] == 0 or number > 0:
        if buckets.size[bucket] > 0:
            number -= 1
        bucket += 1
    return bucket


@kernel
def close_up(work: Work, count: Int) -> Int:
    """Remove the rows already taken, keeping the order of the others; return the number left."""
    line = line_of(work)
    gone = scan_of(work).gone
    columns = work.lines.shape[0] if count > FEW else 0  # few rows are not scanned again
    left = 0
    for at in range(count):
        bucket = line.bucket[at]
        if bucket == TAKEN:
            continue
        if left == 0 or line.bucket[left - 1] != bucket:
            line.start[bucket] = left
        line.row[left] = line.row[at]
        line.bucket[left] = bucket
        gone[left] = np.float32(0)
        for column in range(columns):
            work.lines[column, left] = work.lines[column, at]
        left += 1
        line.stop[bucket] = left
    return left


@kernel
def find_in_line(line: Line, bucket: Int, number: Int) -> Int:
    """Index in the line of the number-th row of a bucket."""
    at = line.start[bucket]
    while line.bucket[at] != bucket or number > 0:
        if line.bucket[at] == bucket:
            number -= 1
        at += 1
    return at


@kernel
def take(work: Work, buckets: Buckets, at: Int, number: Int) -> Int:
    """Move a row from the line to a sub-cluster; return the row."""
    line = line_of(work)
    row = line.row[at]
    cluster_of(work).part[row] = number
    buckets.size[line.bucket[at]] -= 1
    line.bucket[at] = TAKEN
    scan_of(work).gone[at] = FAR
    return row


@kernel
def take_counted(work: Work, at: Int, number: Int) -> Int:
    """Move a row from the line to a sub-cluster; return 1 if its bucket is empty now, else 0."""
    buckets = person_buckets(work)
    bucket = line_of(work).bucket[at]
    take(work, buckets, at, number)
    if buckets.size[bucket] > 0:
        return 0
    numbers_of(work).tally[bucket // BLOCK] -= 1
    return 1


@kernel
def count_buckets(work: Work, found: Int, chosen: Int, radius: np.float32) -> Int:
    """Number of buckets except the chosen one that have a candidate within a rough distance."""
    line = line_of(work)
    far = scan_of(work).far
    count = 0
    last = chosen
    for number in range(found):
        at = np.int64(work.keys[2, number])
        bucket = line.bucket[at]
        if far[at] <= radius and bucket != last and bucket != chosen:
            count += 1
            last = bucket
    return count


@kernel
def list_near(domain: Domain, work: Work, tolerance: np.float32, size: Int, chosen: Int, goal: tuple[Int, Int]) -> Int:
    """List all rows of the line that may be nearest to the box in their bucket, for the nearest buckets.

    goal = (buckets wanted besides the chosen one, rows expected to contain them).
    """
    if size <= FEW:
        return list_rows(work, 0, size)
    buckets, rows = goal
    scan_rows(domain, work, 0, size)
    found, radius = list_candidates(work, size, rows, tolerance)
    while rows < size and count_buckets(work, found, chosen, radius) < buckets:
        rows *= 2
        found, radius = list_candidates(work, size, rows, tolerance)
    return found


@kernel
def offer_buckets(work: Work, found: Int, chosen: Int, wanted: Int) -> Int:
    """Offer the nearest candidate of every bucket except the chosen one; return how many are held."""
    line = line_of(work)
    nearest = nearest_of(work)
    far = nearest.far
    keys = work.keys[2]
    filled: Int = 0
    number = 0
    while number < found:
        bucket = line.bucket[np.int64(keys[number])]
        best = number
        number += 1
        while number < found and line.bucket[np.int64(keys[number])] == bucket:
            if far[number] < far[best]:
                best = number
            number += 1
        if bucket != chosen:
            filled = offer(nearest, filled, wanted, best)
    return filled


@kernel
def split(domain: Domain, draws: Draws, work: Work, event: Int, k: Int, count: Int) -> Int:
    """Assign a sub-cluster number to every row of the current cluster; return the number of sub-clusters."""
    cluster = cluster_of(work)
    buckets = person_buckets(work)
    nearest = nearest_of(work)
    parts = parts_of(work)
    line = line_of(work)
    numbers = numbers_of(work)
    live = number_keys(work.table, cluster.person, count, numbers.person)
    line_up(work, buckets, count, live)
    tolerance = lay_out_lines(domain, work, line.row, count)
    length = count
    left = count
    found = 0
    while live >= k:
        bucket = find_bucket(buckets, numbers.tally, pick(draws, SEED_BUCKET, event, live))
        at = find_in_line(line, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        rows = (k - 1) * left // live
        live -= take_counted(work, at, found)
        seed = cluster.point[line.row[at]]
        start_part(parts, found, seed)
        begin_box(work, at)
        candidates = list_near(domain, work, tolerance, length, bucket, (k - 1, rows))
        measure(domain, work, (seed, seed), 0, candidates)
        filled = offer_buckets(work, candidates, bucket, k - 1)
        for number in range(filled):
            chosen = nearest.heap[number]
            live -= take_counted(work, np.int64(work.keys[2, chosen]), found)
            stretch(parts.lower[found], parts.upper[found], cluster.point[nearest.row[chosen]])
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        left -= 1 + filled
        if 4 * left < 3 * length:
            length = close_up(work, length)
    for at in range(length):
        if line.bucket[at] != TAKEN:
            row = line.row[at]
            cluster.part[row] = add_leftover(domain, parts, found, cluster.point[row])
    return found
