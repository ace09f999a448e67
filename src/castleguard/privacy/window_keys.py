"""Keys by window number; keys of past windows cannot be derived again.

Windows are the leaves of a binary tree, and the key of a node gives those of its two children (Goldreich, Goldwasser
and Micali, 1986). Only the keys of nodes that cover the current window and all later ones are kept, at most 65. So the
key of a window depends only on the first key and the window's number, whether or not earlier windows had rows, and a
snapshot does not reveal the key of any earlier window.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels.state import Arrays

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
