"""The coin of SDGS: whether the row of a person takes part in its window.

One row of a person takes part in a window at most, so the person and the window are an address that no other row has.
What the row holds is a part of the address as well: a snapshot that is continued twice, with other rows, shares no
coin, and equal rows replay equally. Neither other rows nor the order of arrival change a coin.
"""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.row_coin import draw_block, flip_coins
from castleguard.kernels.siphash import hash_strings
from castleguard.kernels.state import Arrays
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.window_keys import WindowKeys
from castleguard.schema.coded import CodedRows

Flags = NDArray[np.bool_]  # (rows,)

_BLOCK_BITS = 512
WORDS = 8  # of the rate that are compared at first: a coin is undecided with probability 2^-256


class WindowCoin:
    """Exact coins for the rows of one stream, by windows that never go back."""

    def __init__(
        self, rate: Bernoulli, *, key: NDArray[np.uint32], window_at: Callable[[float], int], words: int = WORDS
    ) -> None:
        """`key`: 8 words. `window_at`: the window of a moment. `words`: how much of the rate is compared at first; it
        changes no outcome.
        """
        self._window_at = window_at
        self._rate = rate.rate
        self._keys = WindowKeys(key.astype("<u4").tobytes())
        digits, _ = rate.digits(words)
        self._words = np.array([digits >> 32 * at & 0xFFFFFFFF for at in reversed(range(words))], dtype=np.uint32)
        self._block = np.zeros(_BLOCK_BITS // 32, dtype=np.uint32)

    def flip(self, rows: CodedRows, now: float, present: Flags) -> Flags:
        """Which of the rows that are present take part. Of a person, one row at most is present in a window."""
        key = self._keys.at(self._window_at(now))
        keep, undecided = present.copy(), np.zeros(present.size, dtype=np.bool_)
        digest = _digests(rows, np.frombuffer(_derived(key, b"content")[:16], dtype="<u8").astype(np.uint64))
        if flip_coins(_draw_key(key, 0), rows.person, digest, self._words, keep, undecided, self._block):
            for row in np.flatnonzero(undecided):
                keep[row] = self._settle(key, rows.person[row], digest[row])
        return keep

    def snapshot(self) -> Arrays:
        """The keys of this window and of later ones."""
        return self._keys.snapshot()

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        self._keys.restore(arrays)

    def _settle(self, key: bytes, person: np.uint64, digest: np.uint64) -> bool:
        """One coin with as many digits as it takes."""
        rest, number = self._rate, 0
        while rest:
            draw_block(_draw_key(key, number), person, digest, self._block)
            drawn = int.from_bytes(self._block.astype(">u4").tobytes(), "big")
            scaled = rest * (1 << _BLOCK_BITS)
            if drawn != int(scaled):
                return drawn < int(scaled)
            rest, number = scaled - int(scaled), number + 1
        return False  # a fraction that begins with all digits of the rate is not below it


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=32).digest()


def _draw_key(key: bytes, number: int) -> NDArray[np.uint32]:
    """The key of one block of each row's fraction."""
    return np.frombuffer(_derived(key, b"coin %d" % number), dtype="<u4").astype(np.uint32)


def _digests(rows: CodedRows, key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A keyed hash of all that a row holds besides its person."""
    count = rows.person.size
    parts = [np.ascontiguousarray(rows.quasi + 0.0), np.ascontiguousarray(rows.sensitive)]  # -0.0 becomes 0.0
    pieces = [part.view(np.uint8).reshape(count, part.shape[1] * 8) for part in parts]
    data = np.concatenate([*pieces, rows.to_root.view(np.uint8).reshape(count, 1)], axis=1)
    offsets = np.arange(count + 1, dtype=np.int64) * data.shape[1]
    return hash_strings(data.reshape(-1), offsets, np.ones(count, dtype=np.bool_), key)
