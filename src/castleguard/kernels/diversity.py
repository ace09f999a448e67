"""split^l (CASTLE, section 4.2): sub-clusters of k persons and l sensitive values.

One row stands for each person, so buckets by sensitive value share no person. A sub-cluster takes from every bucket in
proportion to its size, rounded up: with sizes taken before the seed is removed, ceil(k |B| / sum) is at least 1 and at
most |B|, so each bucket takes part and the shares add up to k or more. (As printed, without rounding up, a bucket may
give nothing, and the sub-cluster misses l.)
"""

import numpy as np

from castleguard.kernels.chacha import PERSON_ROW, ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, row_in_bucket, take_out
from castleguard.kernels.loss import Domain, box_loss, stretch, stretched_loss
from castleguard.kernels.split import add_leftover, start_part
from castleguard.kernels.state import Work


@kernel
def choose_any(draws: Draws, work: Work, event: int, persons: int) -> None:
    """Let any row stand for its person."""
    buckets = work.persons
    for person in range(persons):
        number = pick(draws, PERSON_ROW, event, buckets.size[person])
        work.chosen[person] = row_in_bucket(buckets, person, number)


@kernel
def choose_rarest(work: Work, persons: int, values: int) -> None:
    """Let the row with the rarest value so far stand for its person, persons with the fewest values first."""
    buckets = work.persons
    width = work.share  # free until the shares are worked out
    for value in range(values):
        work.count[value] = -1
    widest = np.int64(0)
    for person in range(persons):
        width[person] = 0
        row = buckets.head[person]
        while row >= 0:
            if work.count[work.value_number[row]] != person:
                work.count[work.value_number[row]] = person
                width[person] += 1
            row = buckets.chain[row]
        widest = max(widest, width[person])
    for value in range(values):
        work.count[value] = 0
    for wide in range(1, widest + 1):
        for person in range(persons):
            if width[person] != wide:
                continue
            best = buckets.head[person]
            row = buckets.chain[best]
            while row >= 0:
                if work.count[work.value_number[row]] < work.count[work.value_number[best]]:
                    best = row
                row = buckets.chain[row]
            work.chosen[person] = best
            work.count[work.value_number[best]] += 1


@kernel
def bucket_chosen(work: Work, persons: int, count: int) -> int:
    """Put the chosen rows into buckets by value; a bucket's place is that of its first row. How many buckets.

    Only chosen rows are chained: the others join their person's sub-cluster at the end.
    """
    cluster = work.cluster
    buckets = work.values
    for row in range(count):
        cluster.sorted[row] = 0
    for person in range(persons):
        cluster.sorted[work.chosen[person]] = 1
    for value in range(count):
        work.count[value] = -1
    found = 0
    for row in range(count):
        if cluster.sorted[row] == 1 and work.count[work.value_number[row]] < 0:
            work.count[work.value_number[row]] = found
            buckets.head[found] = -1
            buckets.size[found] = 0
            buckets.live[found] = found
            found += 1
    for row in range(count - 1, -1, -1):
        if cluster.sorted[row] == 1:
            bucket = work.count[work.value_number[row]]
            buckets.chain[row] = buckets.head[bucket]
            buckets.head[bucket] = row
            buckets.size[bucket] += 1
    return found


@kernel
def take_share(domain: Domain, work: Work, bucket: int, share: int, number: int) -> None:
    """Move the rows of a bucket that enlarge the sub-cluster least, as it stands now; of equals the earliest."""
    buckets = work.values
    nearest = work.nearest
    lower = work.parts.lower[number]
    upper = work.parts.upper[number]
    base = box_loss(domain, lower, upper)
    filled = 0
    candidate = 0
    row = buckets.head[bucket]
    while row >= 0:
        nearest.far[candidate] = stretched_loss(domain, lower, upper, work.cluster.point[row]) - base
        nearest.row[candidate] = row
        filled = offer(nearest, filled, share, candidate)
        candidate += 1
        row = buckets.chain[row]
    for at in range(filled):
        row = nearest.row[nearest.heap[at]]
        take_out(buckets, bucket, row)
        work.cluster.part[row] = number
        stretch(lower, upper, work.cluster.point[row])


@kernel
def split_diverse(
    domain: Domain, draws: Draws, work: Work, event: int, goal: tuple[int, int, bool], count: int
) -> int:
    """Number every row's sub-cluster; how many there are, 0 = it cannot be split. goal = (k, l, random)."""
    k, l, random = goal  # noqa: E741
    cluster = work.cluster
    buckets = work.values
    persons = number_keys(work.sieve, cluster.person, count, work.person_number)
    chain_buckets(work.persons, work.person_number, count, persons)
    values = number_keys(work.sieve, cluster.value, count, work.value_number)
    if random:
        choose_any(draws, work, event, persons)
    else:
        choose_rarest(work, persons, values)
    live = bucket_chosen(work, persons, count)
    left = persons
    found = 0
    while live >= l and left >= k:
        for at in range(live):
            work.share[at] = (k * buckets.size[buckets.live[at]] + left - 1) // left
        origin = pick(draws, SEED_BUCKET, event, live)
        bucket = buckets.live[origin]
        seed = row_in_bucket(buckets, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        take_out(buckets, bucket, seed)
        cluster.part[seed] = found
        start_part(work.parts, found, cluster.point[seed])
        work.share[origin] -= 1
        left -= 1
        for at in range(live):
            take_share(domain, work, buckets.live[at], work.share[at], found)
            left -= work.share[at]
        work.parts.loss[found] = box_loss(domain, work.parts.lower[found], work.parts.upper[found])
        found += 1
        live = drop_empty(buckets, live)
    if found == 0:
        return 0
    for at in range(live):
        row = buckets.head[buckets.live[at]]
        while row >= 0:
            cluster.part[row] = add_leftover(domain, work.parts, found, cluster.point[row])
            row = buckets.chain[row]
    for row in range(count):
        cluster.part[row] = cluster.part[work.chosen[work.person_number[row]]]
    return found
