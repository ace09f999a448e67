"""Keys by window number, of which past ones cannot be made again.

The leaves of a binary tree are the windows, and the key of a node gives those of its two children (Goldreich,
Goldwasser and Micali, 1986). Only the keys of nodes that cover the present window and all later ones are kept, at most
65. So the key of a window depends on the first key and on its number alone, whether or not earlier windows had rows;
and a snapshot does not reveal the key of any window before it.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels.state import Arrays

_DEPTH = 64
_FIRST = 1 << 63  # window 0, so that there is room for negative ones
_KEY_BYTES = 32


class _Node(NamedTuple):
    depth: int
    prefix: int  # the numbers of its windows begin with these `depth` bits
    key: bytes

    @property
    def end(self) -> int:
        """The first window after it."""
        return (self.prefix + 1) << (_DEPTH - self.depth)

    def child(self, bit: int) -> "_Node":
        key = hashlib.blake2b(bytes([bit]), key=self.key, digest_size=_KEY_BYTES).digest()
        return _Node(self.depth + 1, 2 * self.prefix + bit, key)


class WindowKeys:
    """The keys of the present window and of all later ones."""

    def __init__(self, key: bytes) -> None:
        self._nodes = [_Node(0, 0, key)]  # the earliest last

    def at(self, window: int) -> bytes:
        """The key of a window, 32 bytes. Those of all windows before it are forgotten."""
        number = window + _FIRST
        nodes = [node for node in self._nodes if node.end > number]
        if not nodes or number < nodes[-1].prefix << (_DEPTH - nodes[-1].depth):
            raise UsageError("windows must not go back: the key of an earlier one is gone")
        while nodes[-1].depth < _DEPTH:
            node = nodes.pop()
            left, right = node.child(0), node.child(1)
            nodes.append(right)
            if number < left.end:
                nodes.append(left)
        self._nodes = nodes
        return nodes[-1].key

    def snapshot(self) -> Arrays:
        """The nodes. They hold the keys of all windows to come."""
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
