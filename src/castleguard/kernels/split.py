"""split (CASTLE, section 4.1): a cluster of 2k persons or more into sub-clusters of k persons or more.

The members come by arrival; the answer is a sub-cluster number for each. Repaired as docs/concepts/castle.md has it:
the seed row leaves its bucket, each other bucket offers its row nearest to the seed, and left-over rows go one by
one to the sub-cluster that they enlarge least. While k buckets are left, k - 1 others stand beside the seed's, so every
sub-cluster starts with exactly k persons.
"""

import numpy as np

from castleguard.kernels.chacha import ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, sort_by_part
from castleguard.kernels.loss import NUMERIC, Domain, Point, box_loss, stretch, stretched_loss, value_loss
from castleguard.kernels.state import EPS, Floats, Ints, Work
from castleguard.kernels.views import (
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


@kernel
def distances(domain: Domain, lines: Floats, seed: int, count: int, far: Floats) -> None:
    """The loss of the smallest box around the seed and each of the first `count` rows; lines are attribute-major."""
    columns = lines.shape[0]
    for row in range(count):
        far[row] = 0.0
    for column in range(columns):
        line = lines[column]
        origin = line[seed]
        if domain.layout[column, NUMERIC] == 1:
            width = domain.bounds[1, column] - domain.bounds[0, column]
            if width > 0.0:
                for row in range(count):
                    away = line[row] - origin
                    far[row] += (away if away > 0.0 else -away) / width
        else:
            for row in range(count):
                low = min(line[row], origin)
                high = max(line[row], origin)
                far[row] += value_loss(domain, column, low, high)
    for row in range(count):
        far[row] = far[row] / columns


@kernel
def start_part(parts: Parts, number: int, point: Point) -> None:
    """A sub-cluster over one row."""
    for column in range(point.size):
        parts.lower[number, column] = point[column]
        parts.upper[number, column] = point[column]


@kernel
def add_leftover(domain: Domain, parts: Parts, count: int, point: Point) -> int:
    """Push a row into the sub-cluster that it enlarges least; which one."""
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
def line_up(work: Work, buckets: int, count: int) -> None:
    """Lay the rows out attribute by attribute, bucket after bucket, in order of arrival within each."""
    line = line_of(work)
    number = numbers_of(work).person
    sort_by_part(number, count, buckets, line.start, line.row)
    for at in range(count):
        row = line.row[at]
        line.bucket[at] = number[row]
        for column in range(work.lines.shape[0]):
            work.lines[column, at] = work.point[row, column]


@kernel
def close_up(lines: Floats, line: Line, part: Ints, count: int) -> int:
    """Forget the rows that have a sub-cluster, keeping the order of the others; how many are left."""
    left = 0
    for at in range(count):
        if part[line.row[at]] < 0:
            line.row[left] = line.row[at]
            line.bucket[left] = line.bucket[at]
            for column in range(lines.shape[0]):
                lines[column, left] = lines[column, at]
            left += 1
    return left


@kernel
def find_in_line(line: Line, bucket: int, number: int) -> int:
    """Where the number-th row of a bucket stands."""
    at = 0
    while line.bucket[at] != bucket:
        at += 1
    return at + number


@kernel
def nearest_buckets(line: Line, nearest: Nearest, seed: int, count: int, wanted: int) -> int:
    """Offer the nearest row of every bucket but the seed's; how many of the `wanted` there are."""
    filled = 0
    at = 0
    while at < count:
        bucket = line.bucket[at]
        best = at
        at += 1
        while at < count and line.bucket[at] == bucket:
            if nearest.far[at] < nearest.far[best]:
                best = at
            at += 1
        if bucket != line.bucket[seed]:
            filled = offer(nearest, filled, wanted, best)
    return filled


@kernel
def split(domain: Domain, draws: Draws, work: Work, event: int, k: int, count: int) -> int:
    """Number the sub-cluster of every row of the cluster in hand; how many sub-clusters there are."""
    cluster = cluster_of(work)
    buckets = person_buckets(work)
    nearest = nearest_of(work)
    parts = parts_of(work)
    line = line_of(work)
    number = numbers_of(work).person
    live = number_keys(work.table, cluster.person, count, number)
    chain_buckets(buckets, number, count, live)
    line_up(work, live, count)
    left = count
    found = 0
    while live >= k:
        bucket = buckets.live[pick(draws, SEED_BUCKET, event, live)]
        seed = find_in_line(line, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        start_part(parts, found, cluster.point[line.row[seed]])
        cluster.part[line.row[seed]] = found
        buckets.size[bucket] -= 1
        distances(domain, work.lines, seed, left, nearest.far)
        for at in range(nearest_buckets(line, nearest, seed, left, k - 1)):
            taken = nearest.heap[at]
            cluster.part[line.row[taken]] = found
            buckets.size[line.bucket[taken]] -= 1
            stretch(parts.lower[found], parts.upper[found], cluster.point[line.row[taken]])
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        live = drop_empty(buckets, live)
        left = close_up(work.lines, line, cluster.part, left)
    for at in range(left):
        row = line.row[at]
        cluster.part[row] = add_leftover(domain, parts, found, cluster.point[row])
    return found
