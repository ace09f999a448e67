"""The coin of SDGS: decides whether a person's row is sampled in its window.

A person has at most one row in a window, so person and window are a unique address for its draw. The row's content is
part of the address too: if a snapshot is restored twice and then gets different rows, their coins are independent,
while equal rows get equal coins. Other rows and the order of arrival do not change a coin. See docs/proofs/sdgs.md.

Each window has its own key for its draws, and keys of past windows cannot be derived again. Windows are the leaves of
a binary tree, and the key of a node gives those of its two children (Goldreich, Goldwasser and Micali, 1986). Only the
keys of nodes that cover the current window and all later ones are kept, at most 65. So the key of a window depends only
on the first key and the window's number, whether or not earlier windows had rows, and a snapshot does not reveal the
key of any earlier window.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels.row_coin import draw_block, flip_coins
from castleguard.kernels.siphash import hash_strings
from castleguard.kernels.state import Arrays
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.schema.coded import CodedRows

Flags = NDArray[np.bool_]  # (rows,)

_BLOCK_BITS = 512
WORDS = 8  # words of the rate that are compared at first: a coin is undecided with probability 2^-256


class WindowCoin:
    """Exact coins for the rows of one stream; windows never go back."""

    def __init__(
        self, rate: Bernoulli, *, key: NDArray[np.uint32], window_at: Callable[[float], int], words: int = WORDS
    ) -> None:
        """`key`: 8 words. `window_at`: window number of a moment. `words`: words of the rate that are compared at
        first, which changes no outcome.
        """
        self._window_at = window_at
        self._rate = rate.rate
        self._keys = WindowKeys(key.astype("<u4").tobytes())
        digits, _ = rate.digits(words)
        self._words = np.array([digits >> 32 * at & 0xFFFFFFFF for at in reversed(range(words))], dtype=np.uint32)
        self._block = np.zeros(_BLOCK_BITS // 32, dtype=np.uint32)

    def flip(self, rows: CodedRows, now: float, present: Flags) -> Flags:
        """Flag the rows of `present` that are sampled. At most one row of a person is present in a window."""
        key = self._keys.at(self._window_at(now))
        keep, undecided = present.copy(), np.zeros(present.size, dtype=np.bool_)
        digest = _digests(rows, np.frombuffer(_derived(key, b"content")[:16], dtype="<u8").astype(np.uint64))
        if flip_coins(_draw_key(key, 0), rows.person, digest, self._words, keep, undecided, self._block):
            for row in np.flatnonzero(undecided):
                keep[row] = self._settle(key, rows.person[row], digest[row])
        return keep

    def snapshot(self) -> Arrays:
        """Keys of this window and of later ones."""
        return self._keys.snapshot()

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        self._keys.restore(arrays)

    def _settle(self, key: bytes, person: np.uint64, digest: np.uint64) -> bool:
        """Flip one coin with as many digits as it takes."""
        rest, number = self._rate, 0
        while rest:
            draw_block(_draw_key(key, number), person, digest, self._block)
            drawn = int.from_bytes(self._block.astype(">u4").tobytes(), "big")
            scaled = rest * (1 << _BLOCK_BITS)
            if drawn != int(scaled):
                return drawn < int(scaled)
            rest, number = scaled - int(scaled), number + 1
        return False  # a number that starts with all digits of the rate is not below it


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=32).digest()


def _draw_key(key: bytes, number: int) -> NDArray[np.uint32]:
    """Key of block `number` of each row's random digits."""
    return np.frombuffer(_derived(key, b"coin %d" % number), dtype="<u4").astype(np.uint32)


def _digests(rows: CodedRows, key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keyed hash of a row's content without its person."""
    count = rows.person.size
    parts = [np.ascontiguousarray(rows.quasi + 0.0), np.ascontiguousarray(rows.sensitive)]  # -0.0 becomes 0.0
    pieces = [part.view(np.uint8).reshape(count, part.shape[1] * 8) for part in parts]
    data = np.concatenate([*pieces, rows.to_root.view(np.uint8).reshape(count, 1)], axis=1)
    offsets = np.arange(count + 1, dtype=np.int64) * data.shape[1]
    return hash_strings(data.reshape(-1), offsets, np.ones(count, dtype=np.bool_), key)


_DEPTH = 64
_FIRST = 1 << 63  # window 0; smaller numbers are negative windows
_KEY_BYTES = 32


class _Node(NamedTuple):
    depth: int
    prefix: int  # first `depth` bits of the numbers of its windows
    key: bytes

    @property
    def end(self) -> int:
        """First window after it."""
        return (self.prefix + 1) << (_DEPTH - self.depth)

    def child(self, bit: int) -> "_Node":
        key = hashlib.blake2b(bytes([bit]), key=self.key, digest_size=_KEY_BYTES).digest()
        return _Node(self.depth + 1, 2 * self.prefix + bit, key)


class WindowKeys:
    """Keys of the current window and of all later ones."""

    def __init__(self, key: bytes) -> None:
        self._nodes = [_Node(0, 0, key)]  # earliest last

    def at(self, window: int) -> bytes:
        """Key of a window, 32 bytes. The keys of all earlier windows are forgotten."""
        number = window + _FIRST
        nodes = [node for node in self._nodes if node.end > number]
        if not nodes or number < nodes[-1].prefix << (_DEPTH - nodes[-1].depth):
            raise UsageError("windows must not go back: the keys of earlier ones are forgotten")
        while nodes[-1].depth < _DEPTH:
            node = nodes.pop()
            left, right = node.child(0), node.child(1)
            nodes.append(right)
            if number < left.end:
                nodes.append(left)
        self._nodes = nodes
        return nodes[-1].key

    def snapshot(self) -> Arrays:
        """Nodes, which give the keys of this window and all later ones."""
        keys = b"".join(node.key for node in self._nodes)
        return {
            "depths": np.array([node.depth for node in self._nodes], dtype=np.int64),
            "prefixes": np.array([node.prefix for node in self._nodes], dtype=np.uint64),
            "keys": np.frombuffer(keys, dtype=np.uint8).reshape(-1, _KEY_BYTES).copy(),
        }

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        depths, prefixes, keys = (arrays.get(name) for name in ("depths", "prefixes", "keys"))
        if depths is None or prefixes is None or keys is None or keys.shape != (depths.size, _KEY_BYTES):
            raise SnapshotError("the snapshot does not fit this coin: the keys of its windows are missing")
        self._nodes = [
            _Node(int(depth), int(prefix), key.tobytes())
            for depth, prefix, key in zip(depths, prefixes, keys, strict=True)
        ]
