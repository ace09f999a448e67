"""Randomness as an argument: a ChaCha20 stream (RFC 8439) whose draws have addresses.

A draw is addressed by (purpose, position of the row whose event it belongs to, index), never by how many draws came
before it. So the same rows give the same choices however they are batched, and a replay after a restart repeats them.
The key is replaced by its own output every `RATCHET` arrivals: a snapshot does not let anyone repeat earlier draws.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.compile import kernel

# Purposes; 0 is not one of them, its place holds the key.
TIE = 1  # which of several equally good clusters takes the arriving row
MERGE_TIE = 2  # which of several equally near clusters is merged
REUSE = 3  # which of the published generalisations that contain the row
SEED_BUCKET = 4  # split: the person that starts a sub-cluster
ROW_IN_BUCKET = 5  # split: that person's row
PERSON_ROW = 6  # split^l as printed: the row that stands for a person
SHUFFLE = 7  # the order of the rows of one release
RATCHET_KEY = 8  # the next key
PURPOSES = 9

RATCHET = 1 << 20  # arrivals between two keys
_WORDS = 16
_MASK = 0xFFFFFFFF


class Draws(NamedTuple):
    """The generator's state: for every purpose its last block, and the address that this block has."""

    words: NDArray[np.uint32]  # (PURPOSES, 16) row 0: the key in the first eight words
    position: NDArray[np.int64]  # (PURPOSES,) of the cached block, -1 = none
    number: NDArray[np.int64]  # (PURPOSES,) of the cached block within its position
    index: NDArray[np.int64]  # (PURPOSES,) draws already made in this event


def new_words(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Blocks of a generator at its beginning."""
    words = np.zeros((PURPOSES, _WORDS), dtype=np.uint32)
    words[0, :8] = key
    return words


@kernel
def _quarter(state: NDArray[np.uint32], a: int, b: int, c: int, d: int) -> None:
    """One quarter round; additions are masked so that plain Python agrees with compiled code."""
    mask = np.uint64(_MASK)
    va = np.uint64(state[a])
    vb = np.uint64(state[b])
    vc = np.uint64(state[c])
    vd = np.uint64(state[d])
    va = (va + vb) & mask
    vd = vd ^ va
    vd = ((vd << np.uint64(16)) | (vd >> np.uint64(16))) & mask
    vc = (vc + vd) & mask
    vb = vb ^ vc
    vb = ((vb << np.uint64(12)) | (vb >> np.uint64(20))) & mask
    va = (va + vb) & mask
    vd = vd ^ va
    vd = ((vd << np.uint64(8)) | (vd >> np.uint64(24))) & mask
    vc = (vc + vd) & mask
    vb = vb ^ vc
    vb = ((vb << np.uint64(7)) | (vb >> np.uint64(25))) & mask
    state[a] = np.uint32(va)
    state[b] = np.uint32(vb)
    state[c] = np.uint32(vc)
    state[d] = np.uint32(vd)


@kernel
def _add(out: NDArray[np.uint32], word: int, value: int) -> None:
    """Add modulo 2^32."""
    out[word] = np.uint32((np.int64(out[word]) + (value & _MASK)) & _MASK)


@kernel
def _add_start(
    key: NDArray[np.uint32], counter: int, nonce0: int, nonce1: int, nonce2: int, out: NDArray[np.uint32]
) -> None:
    """Add the block as it is before the rounds: constants, key, counter, nonce."""
    _add(out, 0, 0x61707865)
    _add(out, 1, 0x3320646E)
    _add(out, 2, 0x79622D32)
    _add(out, 3, 0x6B206574)
    for word in range(8):
        _add(out, 4 + word, np.int64(key[word]))
    _add(out, 12, counter)
    _add(out, 13, nonce0)
    _add(out, 14, nonce1)
    _add(out, 15, nonce2)


@kernel
def chacha_block(
    key: NDArray[np.uint32], counter: int, nonce0: int, nonce1: int, nonce2: int, out: NDArray[np.uint32]
) -> None:
    """Write one block of 16 words; `counter` and the nonces are taken modulo 2^32."""
    for word in range(_WORDS):
        out[word] = np.uint32(0)
    _add_start(key, counter, nonce0, nonce1, nonce2, out)
    for _ in range(10):
        _quarter(out, 0, 4, 8, 12)
        _quarter(out, 1, 5, 9, 13)
        _quarter(out, 2, 6, 10, 14)
        _quarter(out, 3, 7, 11, 15)
        _quarter(out, 0, 5, 10, 15)
        _quarter(out, 1, 6, 11, 12)
        _quarter(out, 2, 7, 8, 13)
        _quarter(out, 3, 4, 9, 14)
    _add_start(key, counter, nonce0, nonce1, nonce2, out)


@kernel
def begin_event(draws: Draws) -> None:
    """Start counting draws anew: the next draw of each purpose has index 0."""
    for purpose in range(PURPOSES):
        draws.index[purpose] = 0


@kernel
def pick(draws: Draws, purpose: int, position: int, choices: int) -> int:
    """One of `choices` (below 2^31) alternatives, 1/choices each up to 2^-33; one alone draws nothing."""
    if choices < 2:
        return 0
    index = draws.index[purpose]
    draws.index[purpose] = index + 1
    number = index // 8
    block = draws.words[purpose]
    if draws.position[purpose] != position or draws.number[purpose] != number:
        chacha_block(draws.words[0], number, purpose, position, position >> 32, block)
        draws.position[purpose] = position
        draws.number[purpose] = number
    low = np.uint64(block[2 * (index % 8)])
    high = np.uint64(block[2 * (index % 8) + 1])
    # The upper half of the 96-bit product word * choices: a fair choice without division.
    factor = np.uint64(choices)
    return np.int64((high * factor + ((low * factor) >> np.uint64(32))) >> np.uint64(32))


@kernel
def ratchet(draws: Draws, arrivals: int) -> None:
    """Replace the key when `arrivals` reaches a multiple of RATCHET; cached blocks of the old key are wiped."""
    if arrivals == 0 or arrivals % RATCHET != 0:
        return
    key = draws.words[0]
    chacha_block(key, 0, RATCHET_KEY, arrivals, arrivals >> 32, draws.words[RATCHET_KEY])
    for word in range(8):
        key[word] = draws.words[RATCHET_KEY, word]
    for purpose in range(1, PURPOSES):
        draws.position[purpose] = -1
        for word in range(_WORDS):
            draws.words[purpose, word] = np.uint32(0)
