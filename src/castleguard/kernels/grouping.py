"""Building blocks of splits: number keys by first appearance, chain rows into buckets, choose the nearest."""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Ints, Table
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_in
from castleguard.kernels.views import Buckets, Nearest


@kernel
def number_keys(table: Table, keys: NDArray[np.uint64], count: Int, numbers: Ints) -> Int:
    """Number distinct keys 0, 1, ... in order of first appearance; return how many there are.

    `table` is scratch space: key, then number + 1.
    """
    capacity = 16
    while capacity < 2 * count:
        capacity *= 2
    mask = capacity - 1
    for at in range(capacity):
        table[at, 1] = np.uint64(0)
    found = 0
    for row in range(count):
        key = keys[row]
        mixed = (key ^ (key >> np.uint64(29))) * np.uint64(0xFF51AFD7ED558CCD)
        place = np.int64((mixed >> np.uint64(32)) & np.uint64(mask))
        while table[place, 1] != np.uint64(0) and table[place, 0] != key:
            place = (place + 1) & mask
        if table[place, 1] == np.uint64(0):
            found += 1
            table[place, 0] = key
            table[place, 1] = np.uint64(found)
        numbers[row] = np.int64(table[place, 1]) - 1
    return found


@kernel
def chain_buckets(buckets: Buckets, numbers: Ints, count: Int, found: Int) -> None:
    """Chain the first `count` rows by their bucket numbers; all `found` buckets are live."""
    for bucket in range(found):
        buckets.head[bucket] = -1
        buckets.size[bucket] = 0
        buckets.live[bucket] = bucket
    for row in range(count - 1, -1, -1):
        bucket = numbers[row]
        buckets.chain[row] = buckets.head[bucket]
        buckets.head[bucket] = row
        buckets.size[bucket] += 1


@kernel
def row_in_bucket(buckets: Buckets, bucket: Int, number: Int) -> Int:
    """Return the number-th row of a bucket."""
    row = buckets.head[bucket]
    for _ in range(number):
        row = buckets.chain[row]
    return row


@kernel
def drop_empty(buckets: Buckets, count: Int) -> Int:
    """Drop empty buckets, keeping the order of the others; return the number left."""
    left = 0
    for at in range(count):
        if buckets.size[buckets.live[at]] > 0:
            buckets.live[left] = buckets.live[at]
            left += 1
    return left


@kernel
def _is_worse(nearest: Nearest, one: Int, other: Int) -> Bool:
    """Whether `one` is farther away than `other`, or as far and later."""
    far = nearest.far
    return far[one] > far[other] or (far[one] == far[other] and one > other)


@kernel
def offer(nearest: Nearest, filled: Int, limit: Int, candidate: Int) -> Int:
    """Offer candidates in order; return how many of at most `limit` are held now. Earlier ones win ties."""
    heap = nearest.heap
    if filled < limit:
        at = filled
        heap[at] = candidate
        while at > 0:
            above = (at - 1) // 2
            if not _is_worse(nearest, heap[at], heap[above]):
                break
            heap[at], heap[above] = heap[above], heap[at]
            at = above
        return filled + 1
    if limit == 0 or nearest.far[candidate] >= nearest.far[heap[0]]:
        return filled
    heap[0] = candidate
    at = 0
    while True:
        child = 2 * at + 1
        if child >= filled:
            return filled
        if child + 1 < filled and _is_worse(nearest, heap[child + 1], heap[child]):
            child += 1
        if not _is_worse(nearest, heap[child], heap[at]):
            return filled
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@kernel
def sort_by_part(part: Ints, count: Int, parts: Int, start: Ints, sorted_rows: Ints) -> None:
    """Sort rows by part, stably; part p is sorted_rows[start[p]:start[p + 1]]."""
    for number in range(parts + 1):
        start[number] = 0
    for row in range(count):
        start[part[row] + 1] += 1
    for number in range(parts):
        start[number + 1] += start[number]
    for row in range(count):
        number = part[row]
        sorted_rows[start[number]] = row
        start[number] += 1
    for number in range(parts, 0, -1):
        start[number] = start[number - 1]
    start[0] = 0


@kernel
def fewest_per_part(table: Table, part: Ints, keys: Ints, count: Int, parts: Int, tally: Ints) -> Int:
    """Smallest number of distinct keys in any part."""
    capacity = 16
    while capacity < 2 * count:
        capacity *= 2
    used = table[:capacity]
    for at in range(capacity):
        used[at, 1] = np.uint64(0)
    for number in range(parts):
        tally[number] = 0
    for row in range(count):
        if count_in(used, part[row], np.uint64(keys[row])) == 1:
            tally[part[row]] += 1
    fewest = tally[0]
    for number in range(1, parts):
        fewest = min(fewest, tally[number])
    return fewest
