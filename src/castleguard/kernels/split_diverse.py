"""split^l (CASTLE, section 4.2): split a cluster into sub-clusters of k persons and l sensitive values.

One row represents each person, so buckets by sensitive value share no person. A sub-cluster takes rows from every
bucket in proportion to its size, rounded up: with sizes before the seed is removed, ceil(k |B| / sum) is at least 1 and
at most |B|, so every bucket contributes and the shares add up to k or more. (As printed, without rounding up, a bucket
may contribute nothing, and the sub-cluster misses l.)
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.chacha import PERSON_ROW, ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, row_in_bucket, take_out
from castleguard.kernels.loss import Domain, box_loss, stretch, stretched_loss
from castleguard.kernels.split import add_leftover, start_part
from castleguard.kernels.state import Work
from castleguard.kernels.views import (
    Buckets,
    Numbers,
    cluster_of,
    nearest_of,
    numbers_of,
    parts_of,
    person_buckets,
    value_buckets,
)


@kernel
def choose_any(draws: Draws, buckets: Buckets, numbers: Numbers, event: Int, persons: Int) -> None:
    """Choose a random row to represent each person."""
    for person in range(persons):
        row = pick(draws, PERSON_ROW, event, buckets.size[person])
        numbers.chosen[person] = row_in_bucket(buckets, person, row)


@kernel
def choose_rarest(buckets: Buckets, numbers: Numbers, persons: Int, values: Int) -> None:
    """Choose the row with the rarest value so far to represent each person, persons with the fewest values first."""
    given = numbers.tally
    width = numbers.share  # unused until the shares are computed
    for value in range(values):
        given[value] = -1
    widest = np.int64(0)
    for person in range(persons):
        width[person] = 0
        row = buckets.head[person]
        while row >= 0:
            if given[numbers.value[row]] != person:
                given[numbers.value[row]] = person
                width[person] += 1
            row = buckets.chain[row]
        widest = max(widest, width[person])
    for value in range(values):
        given[value] = 0
    for wide in range(1, widest + 1):
        for person in range(persons):
            if width[person] != wide:
                continue
            best = buckets.head[person]
            row = buckets.chain[best]
            while row >= 0:
                if given[numbers.value[row]] < given[numbers.value[best]]:
                    best = row
                row = buckets.chain[row]
            numbers.chosen[person] = best
            given[numbers.value[best]] += 1


@kernel
def bucket_chosen(buckets: Buckets, numbers: Numbers, is_chosen: Ints, persons: Int, count: Int) -> Int:
    """Put the chosen rows into buckets by value, in order of first appearance; return the number of buckets.

    Only chosen rows are chained: the others join their person's sub-cluster at the end.
    """
    bucket_of = numbers.tally
    for row in range(count):
        is_chosen[row] = 0
        bucket_of[row] = -1
    for person in range(persons):
        is_chosen[numbers.chosen[person]] = 1
    found = 0
    for row in range(count):
        if is_chosen[row] == 1 and bucket_of[numbers.value[row]] < 0:
            bucket_of[numbers.value[row]] = found
            buckets.head[found] = -1
            buckets.size[found] = 0
            buckets.live[found] = found
            found += 1
    for row in range(count - 1, -1, -1):
        if is_chosen[row] == 1:
            bucket = bucket_of[numbers.value[row]]
            buckets.chain[row] = buckets.head[bucket]
            buckets.head[bucket] = row
            buckets.size[bucket] += 1
    return found


@kernel
def take_share(domain: Domain, work: Work, bucket: Int, share: Int, number: Int) -> None:
    """Move the rows of a bucket that enlarge the current sub-cluster least; ties go to the earliest."""
    buckets = value_buckets(work)
    nearest = nearest_of(work)
    part = cluster_of(work).part
    parts = parts_of(work)
    lower = parts.lower[number]
    upper = parts.upper[number]
    base = box_loss(domain, lower, upper)
    filled: Int = 0
    candidate = 0
    row = buckets.head[bucket]
    while row >= 0:
        nearest.far[candidate] = stretched_loss(domain, lower, upper, work.point[row]) - base
        nearest.row[candidate] = row
        filled = offer(nearest, filled, share, candidate)
        candidate += 1
        row = buckets.chain[row]
    for at in range(filled):
        row = nearest.row[nearest.heap[at]]
        take_out(buckets, bucket, row)
        part[row] = number
        stretch(lower, upper, work.point[row])


@kernel
def choose_rows(draws: Draws, work: Work, event: Int, random: bool, count: Int) -> tuple[Int, Int]:
    """Choose a row to represent each person and put these rows into buckets; return (persons, buckets)."""
    cluster = cluster_of(work)
    numbers = numbers_of(work)
    buckets = person_buckets(work)
    persons = number_keys(work.table, cluster.person, count, numbers.person)
    chain_buckets(buckets, numbers.person, count, persons)
    values = number_keys(work.table, cluster.value, count, numbers.value)
    if random:
        choose_any(draws, buckets, numbers, event, persons)
    else:
        choose_rarest(buckets, numbers, persons, values)
    return persons, bucket_chosen(value_buckets(work), numbers, cluster.sorted, persons, count)


@kernel
def split_diverse(domain: Domain, draws: Draws, work: Work, event: Int, goal: tuple[Int, Int, bool], count: Int) -> Int:
    """Assign a sub-cluster number to every row; return their count, 0 = no split. goal = (k, l, random)."""
    k, l, random = goal
    cluster = cluster_of(work)
    numbers = numbers_of(work)
    buckets = value_buckets(work)
    parts = parts_of(work)
    share = numbers.share
    left, live = choose_rows(draws, work, event, random, count)
    found = 0
    while live >= l and left >= k:
        for at in range(live):
            share[at] = (k * buckets.size[buckets.live[at]] + left - 1) // left
        origin = pick(draws, SEED_BUCKET, event, live)
        bucket = buckets.live[origin]
        seed = row_in_bucket(buckets, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        take_out(buckets, bucket, seed)
        cluster.part[seed] = found
        start_part(parts, found, cluster.point[seed])
        share[origin] -= 1
        left -= 1
        for at in range(live):
            take_share(domain, work, buckets.live[at], share[at], found)
            left -= share[at]
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        live = drop_empty(buckets, live)
    if found == 0:
        return 0
    for at in range(live):
        row = buckets.head[buckets.live[at]]
        while row >= 0:
            cluster.part[row] = add_leftover(domain, parts, found, cluster.point[row])
            row = buckets.chain[row]
    for row in range(count):
        cluster.part[row] = cluster.part[numbers.chosen[numbers.person[row]]]
    return found
