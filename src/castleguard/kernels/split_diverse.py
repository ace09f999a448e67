"""split^l (CASTLE, section 4.2): split a cluster into sub-clusters of k persons and l sensitive values.

One row represents each person, so buckets by sensitive value share no person. A sub-cluster takes rows from every
bucket in proportion to its size, rounded up: with sizes before the seed is removed, ceil(k |B| / sum) is at least 1 and
at most |B|, so every bucket contributes and the shares add up to k or more. (As printed, without rounding up, a bucket
may contribute nothing, and the sub-cluster misses l.)
"""

import numpy as np

from castleguard.kernels.candidates import (
    FEW,
    begin_box,
    lay_out_lines,
    list_candidates,
    list_rows,
    measure,
    scan_rows,
    widen_box,
)
from castleguard.kernels.chacha import PERSON_ROW, ROW_IN_BUCKET, SEED_BUCKET, Draws, pick
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.grouping import chain_buckets, drop_empty, number_keys, offer, row_in_bucket
from castleguard.kernels.loss import Domain, box_loss, stretch
from castleguard.kernels.split import TAKEN, add_leftover, close_up, find_in_line, start_part, take
from castleguard.kernels.state import Work
from castleguard.kernels.views import (
    Buckets,
    Numbers,
    cluster_of,
    line_of,
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
def line_up_chosen(work: Work, persons: Int, count: Int) -> Int:
    """Put the chosen rows into a line, value by value in order of first appearance; return the number of buckets.

    The other rows are not in the line: they join their person's sub-cluster at the end.
    """
    buckets = value_buckets(work)
    numbers = numbers_of(work)
    line = line_of(work)
    is_chosen = cluster_of(work).sorted
    bucket_of = numbers.tally
    for row in range(count):
        is_chosen[row] = 0
        bucket_of[row] = -1
    for person in range(persons):
        is_chosen[numbers.chosen[person]] = 1
    found = 0
    for row in range(count):
        if is_chosen[row] == 1:
            if bucket_of[numbers.value[row]] < 0:
                bucket_of[numbers.value[row]] = found
                buckets.size[found] = 0
                buckets.live[found] = found
                found += 1
            buckets.size[bucket_of[numbers.value[row]]] += 1
    start = 0
    for bucket in range(found):
        line.start[bucket] = start
        line.stop[bucket] = start
        start += buckets.size[bucket]
    for row in range(count):
        if is_chosen[row] == 1:
            bucket = bucket_of[numbers.value[row]]
            line.row[line.stop[bucket]] = row
            line.bucket[line.stop[bucket]] = bucket
            line.stop[bucket] += 1
    return found


@kernel
def take_row(work: Work, at: Int, number: Int) -> None:
    """Move a row from the line to a sub-cluster, and extend the sub-cluster's box."""
    parts = parts_of(work)
    row = take(work, value_buckets(work), at, number)
    widen_box(work, at)
    stretch(parts.lower[number], parts.upper[number], work.point[row])


@kernel
def take_share(domain: Domain, work: Work, tolerance: np.float32, bucket: Int, share: Int, number: Int) -> None:
    """Move the rows of a bucket that enlarge the current sub-cluster least; ties go to the earliest."""
    line = line_of(work)
    nearest = nearest_of(work)
    parts = parts_of(work)
    box = parts.lower[number], parts.upper[number]
    first = line.start[bucket]
    size = line.stop[bucket] - first
    if size <= FEW:
        found = list_rows(work, first, size)
    else:
        scan_rows(domain, work, first, first + size)
        found = list_candidates(work, size, share, tolerance)[0]
    measure(domain, work, box, first, found)
    base = box_loss(domain, box[0], box[1])
    filled: Int = 0
    for candidate in range(found):
        # Differences of losses may be equal where the losses are not.
        nearest.far[candidate] -= base
        filled = offer(nearest, filled, share, candidate)
    for at in range(filled):
        take_row(work, first + np.int64(work.keys[2, nearest.heap[at]]), number)


@kernel
def choose_rows(draws: Draws, work: Work, event: Int, random: bool, count: Int) -> tuple[Int, Int]:
    """Choose a row to represent each person and line these rows up by value; return (persons, buckets)."""
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
    return persons, line_up_chosen(work, persons, count)


@kernel
def split_diverse(domain: Domain, draws: Draws, work: Work, event: Int, goal: tuple[Int, Int, bool], count: Int) -> Int:
    """Assign a sub-cluster number to every row; return their count, 0 = no split. goal = (k, l, random)."""
    k, l, random = goal
    cluster = cluster_of(work)
    numbers = numbers_of(work)
    buckets = value_buckets(work)
    parts = parts_of(work)
    line = line_of(work)
    share = numbers.share
    left, live = choose_rows(draws, work, event, random, count)
    tolerance = lay_out_lines(domain, work, line.row, left)
    length = left
    found = 0
    while live >= l and left >= k:
        for at in range(live):
            share[at] = (k * buckets.size[buckets.live[at]] + left - 1) // left
        origin = pick(draws, SEED_BUCKET, event, live)
        bucket = buckets.live[origin]
        seed = find_in_line(line, bucket, pick(draws, ROW_IN_BUCKET, event, buckets.size[bucket]))
        begin_box(work, seed)
        start_part(parts, found, cluster.point[line.row[seed]])
        take_row(work, seed, found)
        share[origin] -= 1
        left -= 1
        for at in range(live):
            if share[at] > 0:
                take_share(domain, work, tolerance, buckets.live[at], share[at], found)
                left -= share[at]
        parts.loss[found] = box_loss(domain, parts.lower[found], parts.upper[found])
        found += 1
        live = drop_empty(buckets, live)
        if 4 * left < 3 * length:
            length = close_up(work, length)
    if found == 0:
        return 0
    for at in range(length):
        if line.bucket[at] != TAKEN:
            row = line.row[at]
            cluster.part[row] = add_leftover(domain, parts, found, cluster.point[row])
    for row in range(count):
        cluster.part[row] = cluster.part[numbers.chosen[numbers.person[row]]]
    return found
