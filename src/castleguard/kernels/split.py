"""split (CASTLE, section 4.1): a cluster of 2k persons or more into sub-clusters of k persons or more.

The members come by arrival; the answer is a sub-cluster number for each. Repaired as docs/concepts/castle.md has it:
the seed row leaves its bucket, each other bucket offers its row nearest to the seed, and left-over rows go one by
one to the sub-cluster that they enlarge least. While k buckets are left, k - 1 others stand beside the seed's, so every
sub-cluster starts with exactly k persons.
"""

import numpy as np

from castleguard.kernels.chacha import ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, row_in_bucket, take_out
from castleguard.kernels.loss import Domain, Point, box_loss, stretch, stretched_loss, value_loss
from castleguard.kernels.state import EPS, Parts, Work


@kernel
def distance(domain: Domain, one: Point, other: Point) -> float:
    """The loss of the smallest box around two points."""
    total = 0.0
    for column in range(one.size):
        low = one[column]
        high = other[column]
        if low > high:
            low, high = high, low
        total += value_loss(domain, column, low, high)
    return total / one.size


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
def nearest_in_bucket(domain: Domain, work: Work, bucket: int, seed: Point, candidate: int) -> None:
    """Let the bucket's row nearest to the seed stand for it."""
    points = work.cluster.point
    row = work.persons.head[bucket]
    best = row
    least = distance(domain, seed, points[row])
    row = work.persons.chain[row]
    while row >= 0:
        away = distance(domain, seed, points[row])
        if away < least:
            least = away
            best = row
        row = work.persons.chain[row]
    work.nearest.far[candidate] = least
    work.nearest.row[candidate] = best


@kernel
def split(domain: Domain, draws: Draws, work: Work, event: int, k: int, count: int) -> int:
    """Number the sub-cluster of every row in `work.cluster.part`; how many sub-clusters there are."""
    cluster = work.cluster
    buckets = work.persons
    parts = work.parts
    points = cluster.point
    live = number_keys(work.sieve, cluster.person, count, work.person_number)
    chain_buckets(buckets, work.person_number, count, live)
    found = 0
    while live >= k:
        chosen = pick(draws, SEED_BUCKET, event, live)
        bucket = buckets.live[chosen]
        seed = row_in_bucket(buckets, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        take_out(buckets, bucket, seed)
        cluster.part[seed] = found
        start_part(parts, found, points[seed])
        filled = 0
        for at in range(live):
            if at != chosen:
                nearest_in_bucket(domain, work, buckets.live[at], points[seed], at)
                filled = offer(work.nearest, filled, k - 1, at)
        for number in range(filled):
            candidate = work.nearest.heap[number]
            row = work.nearest.row[candidate]
            take_out(buckets, buckets.live[candidate], row)
            cluster.part[row] = found
            stretch(parts.lower[found], parts.upper[found], points[row])
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        live = drop_empty(buckets, live)
    for at in range(live):
        row = buckets.head[buckets.live[at]]
        while row >= 0:
            cluster.part[row] = add_leftover(domain, parts, found, points[row])
            row = buckets.chain[row]
    return found
