"""Putting the rows of a table into a random order, each column by itself."""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import SHUFFLE, Draws, advance_key, begin_event, pick
from castleguard.kernels.compile import Int, entry_kernel


@entry_kernel
def shuffle_columns(draws: Draws, position: Int, table: NDArray[np.float64]) -> None:
    """Shuffle every column of `table` (rows, columns) in place. A position that is used again shuffles alike."""
    advance_key(draws, position)
    begin_event(draws)
    for column in range(table.shape[1]):
        for last in range(table.shape[0] - 1, 0, -1):
            other = pick(draws, SHUFFLE, position, last + 1)
            table[last, column], table[other, column] = table[other, column], table[last, column]
