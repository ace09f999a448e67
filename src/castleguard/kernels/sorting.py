"""Sorting and selecting 64-bit keys in place, without memory of its own.

A key is a number in its upper half and a tie-breaker in its lower half, so that all keys differ and the result does not
depend on how they are compared.
"""

import numpy as np

from castleguard.kernels.arrays import Hashes, Ints
from castleguard.kernels.compile import Int, kernel

_SHORT = 16  # keys that are sorted by insertion
LOWER = np.uint64(0xFFFFFFFF)


@kernel
def make_key(upper: np.uint32, lower: Int) -> np.uint64:
    """The key of a number and a tie-breaker. The bits of a float32 that is not negative order as the number does."""
    return (np.uint64(upper) << np.uint64(32)) | np.uint64(lower)


@kernel
def lower_half(key: np.uint64) -> Int:
    """The tie-breaker of a key."""
    return np.int64(key & LOWER)


@kernel
def _insert_all(keys: Hashes, start: Int, stop: Int) -> None:
    for at in range(start + 1, stop):
        key = keys[at]
        hole = at
        while hole > start and keys[hole - 1] > key:
            keys[hole] = keys[hole - 1]
            hole -= 1
        keys[hole] = key


@kernel
def _split(keys: Hashes, start: Int, stop: Int) -> Int:
    """Put smaller keys before larger ones; where the larger ones begin: neither side is empty."""
    middle = (start + stop) // 2
    first, second, third = keys[start], keys[middle], keys[stop - 1]
    low = min(first, second)
    high = max(first, second)
    pivot = min(max(low, third), high)
    left = start - 1
    right = stop
    while True:
        left += 1
        while keys[left] < pivot:
            left += 1
        right -= 1
        while keys[right] > pivot:
            right -= 1
        if left >= right:
            return right + 1
        keys[left], keys[right] = keys[right], keys[left]


@kernel
def select_keys(keys: Hashes, start: Int, stop: Int, count: Int) -> None:
    """Put the `count` smallest keys of start..stop first, in any order."""
    wanted = start + count
    while stop - start > _SHORT:
        cut = _split(keys, start, stop)
        if cut == wanted:
            return
        if cut < wanted:
            start = cut
        else:
            stop = cut
    _insert_all(keys, start, stop)


@kernel
def sort_keys(keys: Hashes, start: Int, stop: Int) -> None:
    """Sort start..stop. A heap: no input makes it slow."""
    if stop - start <= _SHORT:
        _insert_all(keys, start, stop)
        return
    size = stop - start
    for root in range(size // 2 - 1, -1, -1):
        _sift(keys, start, root, size)
    for last in range(size - 1, 0, -1):
        keys[start], keys[start + last] = keys[start + last], keys[start]
        _sift(keys, start, 0, last)


@kernel
def _sift(keys: Hashes, start: Int, root: Int, size: Int) -> None:
    """Let a key sink to its place in the heap keys[start : start + size]."""
    key = keys[start + root]
    hole = root
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and keys[start + child] < keys[start + child + 1]:
            child += 1
        if keys[start + child] <= key:
            break
        keys[start + hole] = keys[start + child]
        hole = child
    keys[start + hole] = key


@kernel
def sort_with(numbers: Ints, others: Ints) -> None:
    """Sort different numbers, and the elements of another array with them. A heap, as in `sort_keys`."""
    size = numbers.size
    for root in range(size // 2 - 1, -1, -1):
        _sift_with(numbers, others, root, size)
    for last in range(size - 1, 0, -1):
        numbers[0], numbers[last] = numbers[last], numbers[0]
        others[0], others[last] = others[last], others[0]
        _sift_with(numbers, others, 0, last)


@kernel
def _sift_with(numbers: Ints, others: Ints, root: Int, size: Int) -> None:
    """Let an element sink to its place in the heap of the first `size`."""
    number = numbers[root]
    other = others[root]
    hole = root
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and numbers[child] < numbers[child + 1]:
            child += 1
        if numbers[child] <= number:
            break
        numbers[hole] = numbers[child]
        others[hole] = others[child]
        hole = child
    numbers[hole] = number
    others[hole] = other
