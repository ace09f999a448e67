"""Counts of persons and values per group for the gate, and its check that each row lies in its box.

Deliberately independent of the engine's tables: rows are ordered by group, and each group is counted from scratch.
"""

import numpy as np

from castleguard.kernels.arrays import Flags, Floats2, Hashes, Ints
from castleguard.kernels.compile import entry_kernel


@entry_kernel
def count_distinct(group: Ints, keys: Hashes, order: Ints, seen: Hashes, stamp: Ints, distinct: Ints) -> None:
    """Count the distinct keys of each group. `order` lists rows group by group; seen and stamp are scratch space
    (a power of two of at least twice the rows; stamp filled with -1).
    """
    mask = seen.size - 1
    for at in range(order.size):
        row = order[at]
        key = keys[row]
        mixed = (key ^ (key >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        place = np.int64((mixed >> np.uint64(20)) & np.uint64(mask))
        while stamp[place] == group[row] and seen[place] != key:
            place = (place + 1) & mask
        if stamp[place] != group[row]:
            stamp[place] = group[row]
            seen[place] = key
            distinct[group[row]] += 1


@entry_kernel
def mark_outside(group: Ints, quasi: Floats2, to_root: Flags, lower: Floats2, upper: Floats2, outside: Flags) -> None:
    """Mark the groups that have a row outside their box. A row without coordinates lies in the root's box only."""
    for row in range(group.size):
        number = group[row]
        for column in range(quasi.shape[1]):
            if not lower[number, column] <= quasi[row, column] <= upper[number, column] and not to_root[row]:
                outside[number] = True
