"""The secrets of a stream, each for one use."""

import hashlib
import os
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import UsageError
from castleguard.schema.arguments import kind_of

Key = NDArray[np.uint32]  # (8,)

KEY_BYTES = 32


class Keys(NamedTuple):
    """The secrets of a stream, each for one use."""

    choices: Key
    """The engine's: ties, seeds, shuffles."""
    hashes: NDArray[np.uint64]
    """(2,) of persons and of values that are not declared."""
    coin: Key
    """Which rows are sampled."""
    noise: Key
    """Of values, or of their sums."""
    counts: Key
    """The noise of counts."""

    def __repr__(self) -> str:
        """Without the secrets."""
        return "Keys(...)"


def make_keys(seed: int | None, key: bytes | None = None) -> Keys:
    """Fresh keys from the operating system, or those that follow from a seed, or from a key that is itself secret."""
    size = 32 + 16 + 32 + 32 + 32
    if seed is not None and key is not None:
        raise UsageError("a stream has a seed or a key, not both")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        raise UsageError(f"seed must be a whole number, got {kind_of(seed)}")
    if key is not None:
        if not isinstance(key, bytes):
            raise UsageError(f"a key has {KEY_BYTES} bytes, got {kind_of(key)}")
        if len(key) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
        raw = hashlib.shake_256(b"castleguard key " + key).digest(size)
    elif seed is not None:
        raw = hashlib.shake_256(f"castleguard seed {seed}".encode()).digest(size)
    else:
        raw = os.urandom(size)
    words = [np.frombuffer(raw[at : at + 32], dtype="<u4").astype(np.uint32) for at in (0, 48, 80, 112)]
    hashes = np.frombuffer(raw[32:48], dtype="<u8").astype(np.uint64)
    return Keys(choices=words[0], hashes=hashes, coin=words[1], noise=words[2], counts=words[3])
