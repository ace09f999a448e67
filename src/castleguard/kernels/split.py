"""split (CASTLE, section 4.1): split a cluster of at least 2k persons into sub-clusters of at least k persons.

The input is the members by arrival, the output a sub-cluster number for each. Repaired as described in
docs/concepts/castle.md: the seed row leaves its bucket, each other bucket offers its row nearest to the seed, and
left-over rows go one by one to the sub-cluster that they enlarge least. While k buckets are left, k - 1 remain besides
the seed's, so every sub-cluster starts with exactly k persons.
"""

import numpy as np

from castleguard.kernels.arrays import Floats, Ints
from castleguard.kernels.chacha import ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, sort_by_part
from castleguard.kernels.loss import (
    LEAVES,
    NUMERIC,
    PAIR_LOSSES,
    Domain,
    Point,
    box_loss,
    stretch,
    stretched_loss,
    value_loss,
)
from castleguard.kernels.state import EPS, Work
from castleguard.kernels.views import (
    Buckets,
    Line,
    Nearest,
    Parts,
    cluster_of,
    line_of,
    nearest_of,
    numbers_of,
    parts_of,
    person_buckets,
)

TAKEN = -1  # in place of a bucket: the row is in a sub-cluster


@kernel
def distances(domain: Domain, lines: Floats, seed: Int, count: Int, far: Floats) -> None:
    """Loss of the smallest box around the seed and each of the first `count` rows; lines are attribute-major."""
    columns = lines.shape[0]
    for row in range(count):
        far[row] = 0.0
    for column in range(columns):
        line = lines[column]
        origin = line[seed]
        layout = domain.layout[column]
        if layout[NUMERIC] == 1:
            width = domain.bounds[1, column] - domain.bounds[0, column]
            if width > 0.0:
                for row in range(count):
                    away = line[row] - origin
                    far[row] += (away if away > 0.0 else -away) / width
        elif layout[PAIR_LOSSES] >= 0:
            # The table holds every pair in both orders, so one of its rows is enough.
            start = layout[PAIR_LOSSES] + np.int64(origin) * layout[LEAVES]
            for row in range(count):
                far[row] += domain.pool[start + np.int64(line[row])]
        else:
            for row in range(count):
                far[row] += value_loss(domain, column, min(line[row], origin), max(line[row], origin))
    for row in range(count):
        far[row] = far[row] / columns


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
def line_up(work: Work, buckets: Int, count: Int) -> None:
    """Lay the rows out attribute-major, bucket by bucket, in order of arrival within each."""
    line = line_of(work)
    number = numbers_of(work).person
    sort_by_part(number, count, buckets, line.start, line.row)
    for at in range(count):
        row = line.row[at]
        line.bucket[at] = number[row]
        for column in range(work.lines.shape[0]):
            work.lines[column, at] = work.point[row, column]


@kernel
def close_up(lines: Floats, line: Line, count: Int) -> Int:
    """Remove the rows already taken, keeping the order of the others; return the number left."""
    left = 0
    for at in range(count):
        bucket = line.bucket[at]
        if bucket == TAKEN:
            continue
        if left == 0 or line.bucket[left - 1] != bucket:
            line.start[bucket] = left
        line.row[left] = line.row[at]
        line.bucket[left] = bucket
        for column in range(lines.shape[0]):
            lines[column, left] = lines[column, at]
        left += 1
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
def nearest_buckets(line: Line, nearest: Nearest, chosen: Int, count: Int, wanted: Int) -> Int:
    """Offer the nearest row of every bucket except the chosen one; return how many of the `wanted` were found."""
    far = nearest.far
    filled: Int = 0
    at = 0
    while at < count:
        bucket = line.bucket[at]
        best = at
        at += 1
        if bucket == TAKEN:
            continue
        while at < count and (line.bucket[at] == bucket or line.bucket[at] == TAKEN):
            if line.bucket[at] == bucket and far[at] < far[best]:
                best = at
            at += 1
        if bucket != chosen and (filled < wanted or far[best] < far[nearest.heap[0]]):
            filled = offer(nearest, filled, wanted, best)
    return filled


@kernel
def take(line: Line, buckets: Buckets, part: Ints, at: Int, number: Int) -> Int:
    """Move a row from the line to a sub-cluster; return the row."""
    row = line.row[at]
    part[row] = number
    buckets.size[line.bucket[at]] -= 1
    line.bucket[at] = TAKEN
    return row


@kernel
def split(domain: Domain, draws: Draws, work: Work, event: Int, k: Int, count: Int) -> Int:
    """Assign a sub-cluster number to every row of the current cluster; return the number of sub-clusters."""
    cluster = cluster_of(work)
    buckets = person_buckets(work)
    nearest = nearest_of(work)
    parts = parts_of(work)
    line = line_of(work)
    number = numbers_of(work).person
    live = number_keys(work.table, cluster.person, count, number)
    chain_buckets(buckets, number, count, live)
    line_up(work, live, count)
    length = count
    left = count
    found = 0
    while live >= k:
        bucket = buckets.live[pick(draws, SEED_BUCKET, event, live)]
        seed = find_in_line(line, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        start_part(parts, found, cluster.point[take(line, buckets, cluster.part, seed, found)])
        distances(domain, work.lines, seed, length, nearest.far)
        filled = nearest_buckets(line, nearest, bucket, length, k - 1)
        for at in range(filled):
            row = take(line, buckets, cluster.part, nearest.heap[at], found)
            stretch(parts.lower[found], parts.upper[found], cluster.point[row])
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        left -= 1 + filled
        live = drop_empty(buckets, live)
        if 4 * left < 3 * length:
            length = close_up(work.lines, line, length)
    for at in range(length):
        if line.bucket[at] != TAKEN:
            row = line.row[at]
            cluster.part[row] = add_leftover(domain, parts, found, cluster.point[row])
    return found
