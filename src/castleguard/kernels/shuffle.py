"""Putting the rows of a table into a random order, each column by itself."""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import SHUFFLE, Draws, advance_key, begin_content, pick
from castleguard.kernels.compile import Int, entry_kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest


@entry_kernel
def shuffle_columns(draws: Draws, position: Int, table: NDArray[np.float64]) -> None:
    """Shuffle every column of `table` (rows, columns) in place; the same table at the same position is shuffled alike.

    The draws are addressed by what the table holds, and not by what it was made from: once its values are noisy, the
    order reads nothing else.
    """
    advance_key(draws, position)
    words = table.view(np.int64)
    digest = begin_digest(draws)
    for row in range(words.shape[0]):
        for column in range(words.shape[1]):
            digest = add_number(digest, words[row, column])
    begin_content(draws, end_digest(digest, words.size))
    for column in range(table.shape[1]):
        for last in range(table.shape[0] - 1, 0, -1):
            other = pick(draws, SHUFFLE, position, last + 1)
            table[last, column], table[other, column] = table[other, column], table[last, column]
