"""Questions that gates ask of rows in groups, answered without a loop over the groups."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def all_of(group: Ints, flags: NDArray[np.bool_], groups: int) -> NDArray[np.bool_]:
    """Which groups have no row without the flag."""
    every = np.ones(groups, dtype=np.bool_)
    every[group[~flags]] = False
    return every


def run_lengths(*keys: NDArray[np.generic]) -> Ints:
    """For every element of sorted keys, how many are equal to it in all of them."""
    new = np.ones(keys[0].size, dtype=np.bool_)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    lengths = np.diff(np.flatnonzero(new), append=new.size)
    return np.repeat(lengths, lengths)
