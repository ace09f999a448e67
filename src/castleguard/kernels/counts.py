"""Counting hash tables: number of rows of a cluster per person or per value.

One open-addressing table counts for many owners: an entry is (owner, key) -> count, so the number of distinct persons
of a cluster changes by one exactly when a count leaves or reaches zero, without recounting. Keys are compared in full:
two persons share an entry only if their 64-bit hashes are equal.
"""

import numpy as np

from castleguard.kernels.arrays import Table
from castleguard.kernels.compile import Int, kernel


def new_table(entries: int) -> Table:
    """Create a table for `entries` entries with a load factor of at most one half."""
    return np.zeros((1 << max(4, (2 * entries - 1).bit_length()), 2), dtype=np.uint64)


@kernel
def _home(table: Table, owner: Int, key: np.uint64) -> Int:
    """Home slot of an entry."""
    mixed = (key ^ (np.uint64(owner) * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = mixed ^ (mixed >> np.uint64(32))
    return np.int64(mixed & np.uint64(table.shape[0] - 1))


@kernel
def count_in(table: Table, owner: Int, key: np.uint64) -> Int:
    """Add one; return the new count (1 = the key is new to this owner)."""
    mask = table.shape[0] - 1
    at = _home(table, owner, key)
    while True:
        entry = table[at, 1]
        count = np.int64(entry & np.uint64(0xFFFFFFFF))
        if count == 0:
            table[at, 0] = key
            table[at, 1] = (np.uint64(owner) << np.uint64(32)) | np.uint64(1)
            return 1
        if table[at, 0] == key and np.int64(entry >> np.uint64(32)) == owner:
            table[at, 1] = entry + np.uint64(1)
            return count + 1
        at = (at + 1) & mask


@kernel
def count_of(table: Table, owner: Int, key: np.uint64) -> Int:
    """Return the count, 0 if the owner does not have the key."""
    mask = table.shape[0] - 1
    at = _home(table, owner, key)
    while True:
        entry = table[at, 1]
        count = np.int64(entry & np.uint64(0xFFFFFFFF))
        if count == 0:
            return 0
        if table[at, 0] == key and np.int64(entry >> np.uint64(32)) == owner:
            return count
        at = (at + 1) & mask


@kernel
def count_out(table: Table, owner: Int, key: np.uint64) -> Int:
    """Subtract one; return the new count (0 = the owner no longer has the key). The entry must exist."""
    mask = table.shape[0] - 1
    at = _home(table, owner, key)
    while table[at, 0] != key or np.int64(table[at, 1] >> np.uint64(32)) != owner:
        at = (at + 1) & mask
    left = np.int64(table[at, 1] & np.uint64(0xFFFFFFFF)) - 1
    if left > 0:
        table[at, 1] = table[at, 1] - np.uint64(1)
        return left
    # Close the gap: move later entries of the probe sequence back, so that a hole does not hide them.
    hole = at
    probe = at
    while True:
        probe = (probe + 1) & mask
        entry = table[probe, 1]
        if np.int64(entry & np.uint64(0xFFFFFFFF)) == 0:
            break
        home = _home(table, np.int64(entry >> np.uint64(32)), table[probe, 0])
        if ((probe - home) & mask) >= ((probe - hole) & mask):
            table[hole, 0] = table[probe, 0]
            table[hole, 1] = entry
            hole = probe
    table[hole, 0] = np.uint64(0)
    table[hole, 1] = np.uint64(0)
    return 0
