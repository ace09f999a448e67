"""Random draws from a ChaCha20 stream (RFC 8439), each with an address.

The address of a draw is (purpose, position of the row whose event it belongs to, index), independent of the number of
earlier draws. The same rows therefore give the same choices in batches of any size, and a replay after a restart
repeats them. The address of a draw that hides data (noise, the order of a release) also includes a digest of that data
(see `content.py`): after a restore, different rows at the same positions get independent draws.
The key is replaced by its own output every `RATCHET` arrivals, so a snapshot cannot be used to repeat earlier draws.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Ints, Words2
from castleguard.kernels.compile import Int, kernel

# Purposes. Index 0 is reserved for the key.
TIE = 1  # which of several equally good clusters takes the arriving row
MERGE_TIE = 2  # which of several equally near clusters is merged
REUSE = 3  # which of the published generalisations that cover the row
SEED_BUCKET = 4  # split: the person that starts a sub-cluster
ROW_IN_BUCKET = 5  # split: that person's row
PERSON_ROW = 6  # split^l as printed: the row that represents a person
SHUFFLE = 7  # the order of the rows of one release
RATCHET_KEY = 8  # the next key
SAMPLE = 9  # whether the row is kept
NOISE = 10  # discrete Laplace noise of the row's numbers
RESPONSE = 11  # randomised response of the row's categories
CONTENT = 12  # the key of the digests in addresses
PURPOSES = 13

RATCHET = 1 << 20  # arrivals between two keys
LANES = 16  # positions whose blocks are computed together, in the widest vector registers
_WORDS = 16
_MASK = 0xFFFFFFFF
# The first nonce word of a draw by content: the purpose, this flag, and the position in the upper bits.
# Positions that share a key are closer together than RATCHET, so the truncated position is unique.
_BY_CONTENT = 1 << 4
_POSITION_SHIFT = 5


class Draws(NamedTuple):
    """State of the generator: the latest block of every purpose, with its address. Index 0 is not a purpose."""

    words: Words2  # (PURPOSES, 16) row 0: the key in the first eight words
    position: Ints  # (PURPOSES,) of the cached block, -1 = none; 0: see `advance_key`
    number: Ints  # (PURPOSES,) of the cached block within its position; 0: the digest in addresses
    drawn: Ints  # (PURPOSES,) draws made in this event; 0: whether addresses include a digest


def new_words(key: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Initial blocks of a generator."""
    words = np.zeros((PURPOSES, _WORDS), dtype=np.uint32)
    words[0, :8] = key
    return words


_Quad = tuple[np.uint32, np.uint32, np.uint32, np.uint32]


@kernel
def _rotate(word: np.uint32, left: Int) -> np.uint32:
    return np.uint32(word << np.uint32(left)) | np.uint32(word >> np.uint32(32 - left))


@kernel
def _quarter(a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32) -> _Quad:
    """One quarter round. Every result is truncated to 32 bits, because numba would widen it."""
    a = np.uint32(a + b)
    d = _rotate(np.uint32(d ^ a), 16)
    c = np.uint32(c + d)
    b = _rotate(np.uint32(b ^ c), 12)
    a = np.uint32(a + b)
    d = _rotate(np.uint32(d ^ a), 8)
    c = np.uint32(c + d)
    b = _rotate(np.uint32(b ^ c), 7)
    return a, b, c, d


@kernel
def chacha_block(
    key: NDArray[np.uint32], counter: Int, nonce0: Int, nonce1: Int, nonce2: Int, out: NDArray[np.uint32]
) -> None:
    """Write one block of 16 words; `counter` and the nonces are taken modulo 2^32."""
    x0, x1, x2, x3 = np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574)
    x4, x5, x6, x7 = key[0], key[1], key[2], key[3]
    x8, x9, x10, x11 = key[4], key[5], key[6], key[7]
    x12, x13 = np.uint32(counter & _MASK), np.uint32(nonce0 & _MASK)
    x14, x15 = np.uint32(nonce1 & _MASK), np.uint32(nonce2 & _MASK)
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    out[0] = np.uint32(x0 + np.uint32(0x61707865))
    out[1] = np.uint32(x1 + np.uint32(0x3320646E))
    out[2] = np.uint32(x2 + np.uint32(0x79622D32))
    out[3] = np.uint32(x3 + np.uint32(0x6B206574))
    out[4] = np.uint32(x4 + key[0])
    out[5] = np.uint32(x5 + key[1])
    out[6] = np.uint32(x6 + key[2])
    out[7] = np.uint32(x7 + key[3])
    out[8] = np.uint32(x8 + key[4])
    out[9] = np.uint32(x9 + key[5])
    out[10] = np.uint32(x10 + key[6])
    out[11] = np.uint32(x11 + key[7])
    out[12] = np.uint32(x12 + np.uint32(counter & _MASK))
    out[13] = np.uint32(x13 + np.uint32(nonce0 & _MASK))
    out[14] = np.uint32(x14 + np.uint32(nonce1 & _MASK))
    out[15] = np.uint32(x15 + np.uint32(nonce2 & _MASK))


@kernel
def _double_rounds(x: NDArray[np.uint32]) -> None:
    """Two rounds of LANES blocks; word `w` of lane `l` is x[w * LANES + l].

    The innermost loop runs along a constant number of lanes: only then does the compiler vectorise it.
    """
    n = LANES
    for l in range(LANES):
        x0, x1, x2, x3 = x[l], x[n + l], x[2 * n + l], x[3 * n + l]
        x4, x5, x6, x7 = x[4 * n + l], x[5 * n + l], x[6 * n + l], x[7 * n + l]
        x8, x9, x10, x11 = x[8 * n + l], x[9 * n + l], x[10 * n + l], x[11 * n + l]
        x12, x13, x14, x15 = x[12 * n + l], x[13 * n + l], x[14 * n + l], x[15 * n + l]
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
        x[l], x[n + l], x[2 * n + l], x[3 * n + l] = x0, x1, x2, x3
        x[4 * n + l], x[5 * n + l], x[6 * n + l], x[7 * n + l] = x4, x5, x6, x7
        x[8 * n + l], x[9 * n + l], x[10 * n + l], x[11 * n + l] = x8, x9, x10, x11
        x[12 * n + l], x[13 * n + l], x[14 * n + l], x[15 * n + l] = x12, x13, x14, x15


@kernel
def _add_start(key: NDArray[np.uint32], nonces: NDArray[np.uint32], x: NDArray[np.uint32]) -> None:
    """Add the initial state of the blocks."""
    for word in range(_WORDS - 3):
        same = np.uint32(0)  # all lanes agree up to the nonce; word 12 is the block counter, here 0
        if word < 4:
            constants = (np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574))
            same = constants[word]
        elif word < 12:
            same = key[word - 4]
        for l in range(LANES):
            x[word * LANES + l] = np.uint32(x[word * LANES + l] + same)
    for word in range(3):
        for l in range(LANES):
            at = (13 + word) * LANES + l
            x[at] = np.uint32(x[at] + nonces[word * LANES + l])


@kernel
def chacha_lanes(key: NDArray[np.uint32], nonces: NDArray[np.uint32], lanes: NDArray[np.uint32]) -> None:
    """Compute block 0 of LANES addresses together, which is several times faster; for `nonces` see below."""
    for at in range(_WORDS * LANES):
        lanes[at] = np.uint32(0)
    _add_start(key, nonces, lanes)
    for _ in range(10):
        _double_rounds(lanes)
    _add_start(key, nonces, lanes)


@kernel
def address_positions(purpose: Int, first: Int, nonces: NDArray[np.uint32]) -> None:
    """Write the nonces (3 * LANES,) of the positions first .. first + LANES - 1."""
    for l in range(LANES):
        nonces[l] = np.uint32(purpose)
        nonces[LANES + l] = np.uint32((first + l) & _MASK)
        nonces[2 * LANES + l] = np.uint32(((first + l) >> 32) & _MASK)


@kernel
def address_contents(purpose: Int, first: Int, digests: NDArray[np.int64], nonces: NDArray[np.uint32]) -> None:
    """Write the nonces of draws by content: position first + l has the digest digests[l]."""
    for l in range(LANES):
        nonces[l] = np.uint32(_content_nonce(purpose, first + l))
        nonces[LANES + l] = np.uint32(digests[l] & _MASK)
        nonces[2 * LANES + l] = np.uint32((digests[l] >> 32) & _MASK)


@kernel
def _content_nonce(purpose: Int, position: Int) -> Int:
    return (purpose | _BY_CONTENT | (position << _POSITION_SHIFT)) & _MASK


@kernel
def use_lane(draws: Draws, purpose: Int, position: Int, lanes: NDArray[np.uint32], lane: Int) -> None:
    """Cache a block of `chacha_lanes` for its purpose."""
    for word in range(_WORDS):
        draws.words[purpose, word] = lanes[word * LANES + lane]
    draws.position[purpose] = position
    draws.number[purpose] = 0


@kernel
def begin_event(draws: Draws) -> None:
    """Reset the draw counts: the next draw of each purpose has index 0. Addresses have no digest."""
    if draws.drawn[0] == 1:
        _forget_blocks(draws)
    for purpose in range(PURPOSES):
        draws.drawn[purpose] = 0


@kernel
def begin_content(draws: Draws, digest: Int) -> None:
    """Begin an event whose draws hide data: addresses include the digest of that data."""
    _forget_blocks(draws)
    for purpose in range(PURPOSES):
        draws.drawn[purpose] = 0
    draws.number[0] = digest
    draws.drawn[0] = 1


@kernel
def _forget_blocks(draws: Draws) -> None:
    """Clear the cache: cached blocks do not record the digest they belong to."""
    for purpose in range(1, CONTENT):
        draws.position[purpose] = -1


@kernel
def _make_block(draws: Draws, purpose: Int, position: Int, number: Int) -> None:
    """Compute the block at an address and cache it for its purpose."""
    if draws.drawn[0] == 1:
        digest = draws.number[0]
        nonce = _content_nonce(purpose, position)
        chacha_block(draws.words[0], number, nonce, digest, digest >> 32, draws.words[purpose])
    else:
        chacha_block(draws.words[0], number, purpose, position, position >> 32, draws.words[purpose])
    draws.position[purpose] = position
    draws.number[purpose] = number


@kernel
def pick(draws: Draws, purpose: Int, position: Int, choices: Int) -> Int:
    """Pick one of `choices` (below 2^31) alternatives, each with probability 1/choices up to 2^-33.

    A single alternative uses no draw.
    """
    if choices < 2:
        return 0
    index = draws.drawn[purpose]
    draws.drawn[purpose] = index + 1
    number = index // 8
    block = draws.words[purpose]
    if draws.position[purpose] != position or draws.number[purpose] != number:
        _make_block(draws, purpose, position, number)
    low = np.uint64(block[2 * (index % 8)])
    high = np.uint64(block[2 * (index % 8) + 1])
    # The upper half of the 96-bit product word * choices: a uniform choice without division.
    factor = np.uint64(choices)
    return np.int64((high * factor + ((low * factor) >> np.uint64(32))) >> np.uint64(32))


@kernel
def word_at(draws: Draws, purpose: Int, position: Int, index: Int) -> np.uint32:
    """32-bit word at an address; the same address always gives the same word."""
    number = index // _WORDS
    if draws.position[purpose] != position or draws.number[purpose] != number:
        _make_block(draws, purpose, position, number)
    return draws.words[purpose, index % _WORDS]


@kernel
def next_word(draws: Draws, purpose: Int, position: Int) -> np.uint32:
    """Draw the next 32-bit word of this purpose in this event. A purpose uses either `pick` or words, never both."""
    index = draws.drawn[purpose]
    draws.drawn[purpose] = index + 1
    return word_at(draws, purpose, position, index)


@kernel
def ratchet(draws: Draws, arrivals: Int) -> None:
    """Replace the key when `arrivals` reaches a multiple of RATCHET, and wipe cached blocks of the old key."""
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


@kernel
def advance_key(draws: Draws, position: Int) -> None:
    """Advance the key to `position`: one ratchet for each multiple of RATCHET on the way, none twice.

    Element 0 of `draws.position` is the position where the current key begins, initially 0. The key thus depends on
    the position alone, even if a row is processed again or rows are left out.
    """
    while position - draws.position[0] >= RATCHET:
        draws.position[0] += RATCHET
        ratchet(draws, draws.position[0])
