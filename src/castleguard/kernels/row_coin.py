"""A coin flip for each row, addressed by the row itself: independent of other rows and of the order of arrival.

The 128-bit address, a person and a digest of the row, fills counter and nonce of a ChaCha20 block; the key depends on
the window. The block holds the first bits of a uniform binary fraction, which is compared with the rate word by word.
"""

import numpy as np

from castleguard.kernels.arrays import Flags, Hashes, Words
from castleguard.kernels.chacha import chacha_block
from castleguard.kernels.compile import Bool, entry_kernel

_WORD = np.uint64(32)


@entry_kernel
def draw_block(key: Words, person: np.uint64, digest: np.uint64, block: Words) -> None:
    """Write the first 512 bits of a row's fraction to `block`."""
    low, high = np.int64(person & np.uint64(0xFFFFFFFF)), np.int64(person >> _WORD)
    chacha_block(key, low, high, np.int64(digest & np.uint64(0xFFFFFFFF)), np.int64(digest >> _WORD), block)


@entry_kernel
def flip_coins(
    key: Words,
    person: Hashes,
    digest: Hashes,
    rate: Words,
    keep: Flags,
    undecided: Flags,
    block: Words,
) -> Bool:
    """Flip the coin of every row that is still kept: a fraction below `rate` (at most 16 words) keeps it.

    A fraction that starts with all words of the rate is undecided. Return whether any is.
    """
    any_undecided = False
    for row in range(keep.size):
        if not keep[row]:
            continue
        low, high = np.int64(person[row] & np.uint64(0xFFFFFFFF)), np.int64(person[row] >> _WORD)
        digest_low, digest_high = np.int64(digest[row] & np.uint64(0xFFFFFFFF)), np.int64(digest[row] >> _WORD)
        chacha_block(key, low, high, digest_low, digest_high, block)
        word = 0
        while word < rate.size and block[word] == rate[word]:
            word += 1
        if word == rate.size:
            undecided[row] = True
            any_undecided = True
        else:
            keep[row] = block[word] < rate[word]
    return any_undecided
