"""Digests of the data that a draw hides, as part of the draw's address.

Noise that depends on the position alone repeats after a restore: another row at the same position gets the same noise,
and the difference of the two outputs is the exact difference of the rows. The address of such a draw therefore
includes a SipHash of everything the randomiser reads. Its key is derived from the key of the draws and replaced with
it. Without the key, collisions cannot be constructed; two different contents collide with probability 2^-64, and then
share a draw.

A digest is SipHash-2-4 over 64-bit words, lowest byte first, and their length in bytes.
"""

import numpy as np

from castleguard.kernels.chacha import CONTENT, Draws, chacha_block
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.siphash import SipState, add_word, begin_hash, end_hash


@kernel
def begin_digest(draws: Draws) -> SipState:
    """Return the state before the first word, under the key derived from the key of the draws."""
    block = draws.words[CONTENT]
    if draws.position[CONTENT] < 0:
        chacha_block(draws.words[0], 0, CONTENT, 0, 0, block)
        draws.position[CONTENT] = 0
    k0 = np.uint64(block[0]) | (np.uint64(block[1]) << np.uint64(32))
    k1 = np.uint64(block[2]) | (np.uint64(block[3]) << np.uint64(32))
    return begin_hash(k0, k1)


@kernel
def add_number(state: SipState, number: Int | np.uint64) -> SipState:
    """Add a 64-bit integer."""
    return add_word(state, np.uint64(number))


@kernel
def last_word(words: Int) -> np.uint64:
    """Last word of a SipHash message: its length in bytes."""
    return np.uint64((words * 8) & 0xFF) << np.uint64(56)


@kernel
def end_digest(state: SipState, words: Int) -> np.int64:
    """Digest of a message of `words` words."""
    return np.int64(end_hash(add_word(state, last_word(words))))
