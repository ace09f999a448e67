"""Digests of what a draw hides, as part of the draw's address.

Noise that depends on the position alone repeats after a restore: another row at the same position gets the same noise,
and the difference of the two outputs is the exact difference of the rows. So the address of such a draw also has a
SipHash of all that the randomiser reads. Its key follows from the key of the draws, and is replaced with it. Whoever
does not know it cannot make two contents collide; two that differ do so with probability 2^-64, and then share a draw.

A digest is that of SipHash-2-4 over 64-bit words, the lowest byte first, and their length in bytes.
"""

import numpy as np

from castleguard.kernels.chacha import CONTENT, Draws, chacha_block
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.siphash import SipState, add_word, begin_hash, end_hash


@kernel
def begin_digest(draws: Draws) -> SipState:
    """The state before the first word, by the key that goes with the key of the draws."""
    block = draws.words[CONTENT]
    if draws.position[CONTENT] < 0:
        chacha_block(draws.words[0], 0, CONTENT, 0, 0, block)
        draws.position[CONTENT] = 0
    k0 = np.uint64(block[0]) | (np.uint64(block[1]) << np.uint64(32))
    k1 = np.uint64(block[2]) | (np.uint64(block[3]) << np.uint64(32))
    return begin_hash(k0, k1)


@kernel
def add_number(state: SipState, number: Int | np.uint64) -> SipState:
    """Take in a whole number of 64 bits."""
    return add_word(state, np.uint64(number))


@kernel
def last_word(words: Int) -> np.uint64:
    """What SipHash adds last: how many bytes there were."""
    return np.uint64((words * 8) & 0xFF) << np.uint64(56)


@kernel
def end_digest(state: SipState, words: Int) -> np.int64:
    """The digest of so many words."""
    return np.int64(end_hash(add_word(state, last_word(words))))
