"""Shuffle the rows of a table, each column independently."""

from castleguard.kernels.arrays import Floats2, Ints
from castleguard.kernels.chacha import SHUFFLE, Draws, advance_key, begin_content, pick
from castleguard.kernels.compile import Int, entry_kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest


@entry_kernel
def shuffle_columns(draws: Draws, position: Int, noisy: Ints, table: Floats2) -> None:
    """Shuffle every column of `table` (rows, columns) in place.

    The draws are addressed by the `noisy` numbers that the table was computed from: equal numbers at the same position
    give the same order.
    """
    advance_key(draws, position)
    digest = begin_digest(draws)
    for at in range(noisy.size):
        digest = add_number(digest, noisy[at])
    begin_content(draws, end_digest(digest, noisy.size))
    for column in range(table.shape[1]):
        for last in range(table.shape[0] - 1, 0, -1):
            other = pick(draws, SHUFFLE, position, last + 1)
            table[last, column], table[other, column] = table[other, column], table[last, column]
