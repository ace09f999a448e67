"""SipHash-2-4 (Aumasson and Bernstein, 2012): persons and sensitive values as keyed 64-bit numbers.

The hash is keyed so that identifiers cannot be chosen to collide: a collision would only under-count persons, which is
safe, but would suppress rows. Integers are hashed as their decimal digits, so that the same person counts once whether
a batch carries 12 or "12".
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Bytes, Flags, Hashes, Ints
from castleguard.kernels.compile import Int, entry_kernel, kernel

_Word = np.uint64
SipState = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

NO_PERSON = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""In place of the hash of a missing or indistinguishable person: does not count towards k and l."""

MISSING = 0xFF  # hashed for a missing value: this byte never occurs in UTF-8 text, so no value collides with it


@kernel
def _round(v0: _Word, v1: _Word, v2: _Word, v3: _Word) -> SipState:
    """One SipRound."""
    v0 = v0 + v1
    v1 = (v1 << np.uint64(13)) | (v1 >> np.uint64(51))
    v1 = v1 ^ v0
    v0 = (v0 << np.uint64(32)) | (v0 >> np.uint64(32))
    v2 = v2 + v3
    v3 = (v3 << np.uint64(16)) | (v3 >> np.uint64(48))
    v3 = v3 ^ v2
    v0 = v0 + v3
    v3 = (v3 << np.uint64(21)) | (v3 >> np.uint64(43))
    v3 = v3 ^ v0
    v2 = v2 + v1
    v1 = (v1 << np.uint64(17)) | (v1 >> np.uint64(47))
    v1 = v1 ^ v2
    v2 = (v2 << np.uint64(32)) | (v2 >> np.uint64(32))
    return v0, v1, v2, v3


@kernel
def begin_hash(k0: _Word, k1: _Word) -> SipState:
    """Return the state before the first word."""
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@kernel
def add_word(state: SipState, word: _Word) -> SipState:
    """Add eight bytes, lowest first."""
    v0, v1, v2, v3 = state
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@kernel
def end_hash(state: SipState) -> np.uint64:
    """Return the hash; the last word added must hold the length."""
    v0, v1, v2, v3 = state
    v2 = v2 ^ np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def siphash(data: Bytes, start: Int, stop: Int, key: Hashes) -> np.uint64:
    """Hash of data[start:stop]."""
    state = begin_hash(key[0], key[1])
    length = stop - start
    whole = start + (length // 8) * 8
    for at in range(start, whole, 8):
        word = np.uint64(0)
        for byte in range(8):
            word = word | (np.uint64(data[at + byte]) << np.uint64(8 * byte))
        state = add_word(state, word)
    word = np.uint64(length & 0xFF) << np.uint64(56)
    for byte in range(stop - whole):
        word = word | (np.uint64(data[whole + byte]) << np.uint64(8 * byte))
    return end_hash(add_word(state, word))


@entry_kernel
def _hash_strings(
    data: Bytes, start: Ints, stop: Ints, valid: Flags, key: Hashes, missing: Bytes, hashes: Hashes
) -> None:
    for row in range(valid.size):
        if valid[row]:
            hashes[row] = siphash(data, start[row], stop[row], key)
        else:
            hashes[row] = siphash(missing, 0, missing.size, key)


@entry_kernel
def _hash_integers(values: Ints, valid: Flags, key: Hashes, missing: Bytes, digits: Bytes, hashes: Hashes) -> None:
    for row in range(valid.size):
        if not valid[row]:
            hashes[row] = siphash(missing, 0, missing.size, key)
            continue
        value = values[row]
        # Unsigned magnitude: the lowest int64 has no positive counterpart.
        rest = np.uint64(value) if value >= 0 else np.uint64(-(value + 1)) + np.uint64(1)
        start = digits.size
        while True:
            start -= 1
            digits[start] = np.uint8(48 + np.int64(rest % np.uint64(10)))
            rest = rest // np.uint64(10)
            if rest == np.uint64(0):
                break
        if value < 0:
            start -= 1
            digits[start] = np.uint8(45)
        hashes[row] = siphash(digits, start, digits.size, key)


def hash_strings(data: Bytes, offsets: NDArray[np.int64], valid: NDArray[np.bool_], key: Hashes) -> Hashes:
    """Hash every string of an Arrow buffer; all missing values get the same hash."""
    return hash_spans(data, offsets[:-1], offsets[1:], valid, key)


def hash_spans(data: Bytes, start: Ints, stop: Ints, valid: NDArray[np.bool_], key: Hashes) -> Hashes:
    """Hash data[start:stop] of every row; all missing values get the same hash."""
    hashes = np.empty(valid.size, dtype=np.uint64)
    _hash_strings(data, start, stop, valid, key, np.full(1, MISSING, dtype=np.uint8), hashes)
    return hashes


def hash_integers(values: NDArray[np.int64], valid: NDArray[np.bool_], key: Hashes) -> Hashes:
    """Hash the decimal digits of every integer; all missing values get the same hash."""
    hashes = np.empty(valid.size, dtype=np.uint64)
    scratch = np.empty(20, dtype=np.uint8)
    _hash_integers(values, valid, key, np.full(1, MISSING, dtype=np.uint8), scratch, hashes)
    return hashes
