"""The coin of SDGS, slowly and literally: one person in one window, whole numbers and fractions only.

Written from docs/proofs/sdgs.md ("The coins"), not from the code: the key of a window is at the end of a path in a
binary tree, a row is a string of bytes, and a coin compares the digits of a fraction with those of the rate.
"""

import hashlib
import struct
from collections.abc import Sequence
from fractions import Fraction

from tests.reference.chacha import block
from tests.reference.siphash import siphash


def window_key(key: bytes, window: int) -> bytes:
    """The leaf of the tree: 64 steps from the root, by the bits of the window's number, the highest first."""
    for bit in f"{window + 2**63:064b}":
        key = hashlib.blake2b(bytes([int(bit)]), key=key, digest_size=32).digest()
    return key


def takes_part(
    key: bytes,
    window: int,
    person: int,
    quasi: Sequence[float],
    sensitive: Sequence[int],
    to_root: bool,
    rate: Fraction,
) -> bool:
    """Whether the row of a person takes part in a window."""
    of_window = window_key(key, window)
    content = struct.pack(f"<{len(quasi)}d{len(sensitive)}q?", *quasi, *sensitive, to_root)
    words = struct.unpack("<2Q", hashlib.blake2b(b"content", key=of_window, digest_size=32).digest()[:16])
    digest = siphash(content, words)
    fraction, place = Fraction(0), Fraction(1)
    for number in range(3):
        drawing = hashlib.blake2b(f"coin {number}".encode(), key=of_window, digest_size=32).digest()
        low, high = digest % 2**32, digest >> 32
        for word in block(struct.unpack("<8I", drawing), person % 2**32, (person >> 32, low, high)):
            place /= 2**32
            fraction += word * place
    return fraction < rate
