"""Vectorised queries over rows in groups, for the gates."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def all_of(group: Ints, flags: NDArray[np.bool_], groups: int) -> NDArray[np.bool_]:
    """Flag the groups whose rows all have the flag."""
    every = np.ones(groups, dtype=np.bool_)
    every[group[~flags]] = False
    return every


def by_group(group: Ints, groups: int) -> Ints:
    """Rows ordered by group, and within a group as they came."""
    # numpy sorts 16 bits by their digits, in linear time.
    keys = group.astype(np.uint16) if groups <= 1 << 16 else group
    return np.argsort(keys, kind="stable")


def run_lengths(*keys: NDArray[np.generic]) -> Ints:
    """Length of the run of equal keys around every element of sorted keys."""
    new = np.ones(keys[0].size, dtype=np.bool_)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    lengths = np.diff(np.flatnonzero(new), append=new.size)
    return np.repeat(lengths, lengths)
