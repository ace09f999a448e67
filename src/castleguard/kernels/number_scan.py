"""Read plain decimal numbers from text, and find the grid cells of numbers.

Text of up to 15 digits, with a minus or a point, is a whole number divided by a power of ten. Both are exact as
float64, so one division rounds to the nearest float64, as any correct parser does. Other text is marked as odd, for a
full parser.
"""

import numpy as np

from castleguard.kernels.arrays import Bytes, ConstFloats, Flags, Floats, Hashes, Ints
from castleguard.kernels.compile import Int, entry_kernel, kernel

MOST_DIGITS = 15  # below 2^53
POWERS: Floats = np.float64(10.0) ** np.arange(MOST_DIGITS + 1)
WORD = 8  # bytes

_ZERO, _NINE, _MINUS, _POINT = 0x30, 0x39, 0x2D, 0x2E
_ZEROS, _HIGH, _SIX = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0xF0, 0x06))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _last_bytes(words: Hashes, stop: Int, length: Int) -> np.uint64:
    """The `length` bytes before `stop`, 1 to 8, as a little-endian word that is filled up with zeros in front."""
    start = stop - WORD
    shift = np.uint64(8 * (start & 7))
    low, high = words[start >> 3], words[(start >> 3) + 1]
    word = (low >> shift) | ((high << np.uint64(1)) << (np.uint64(63) - shift))
    kept = _ALL << np.uint64(8 * (WORD - length))
    return (word & kept) | (_ZEROS & ~kept)


@kernel
def _are_digits(word: np.uint64) -> bool:
    return (word & _HIGH) == _ZEROS and ((word + _SIX) & _HIGH) == _ZEROS


@kernel
def _number_of(word: np.uint64) -> np.uint64:
    """The number that eight digits spell: pairs, then fours, then all are joined at once."""
    pairs = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)
    fours = ((pairs & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((fours & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


@kernel
def _read_long(data: Bytes, at: Int, stop: Int, powers: Floats) -> float:
    """A plain number without its sign, digit by digit; -1 for other text."""
    if at >= stop or stop - at > MOST_DIGITS + 1 or data[at] == _POINT or data[stop - 1] == _POINT:
        return -1.0
    digits, whole, point = 0, np.int64(0), stop - 1
    for place in range(at, stop):
        byte = np.int64(data[place])
        if _ZERO <= byte <= _NINE:
            whole = 10 * whole + (byte - _ZERO)
            digits += 1
        elif byte == _POINT and point == stop - 1:
            point = place
        else:
            return -1.0
    if digits > MOST_DIGITS:
        return -1.0
    return float(whole) / powers[stop - 1 - point]


@entry_kernel
def read_decimals(words: Hashes, data: Bytes, bounds: Ints, powers: Floats, values: Floats, odd: Flags) -> None:
    """Read row i from data[bounds[i]:bounds[i + 1]]; mark it as odd if it is anything but a plain number.

    `words` are the same bytes as `data`; the first eight of them and the last eight belong to no row.
    """
    for row in range(values.size):
        at, stop = bounds[row], bounds[row + 1]
        negative = at < stop and data[at] == _MINUS
        at += negative
        value = -1.0
        if 0 < stop - at <= WORD:
            word = _last_bytes(words, stop, stop - at)
            if _are_digits(word):
                value = float(_number_of(word))
        if value < 0.0:
            value = _read_long(data, at, stop, powers)
        odd[row] = value < 0.0
        values[row] = -value if negative else value


@entry_kernel
def find_cells(edges: ConstFloats, values: ConstFloats, cells: Ints) -> None:
    """Number of the half-open cell of each value, the nearest one for values outside the edges (at least two)."""
    last = edges.size - 2
    scale = 1.0 / (edges[1] - edges[0])
    for row in range(values.size):
        value = values[row]
        # All edges but the last are evenly spaced: the guess is off by rounding at most.
        guess = (value - edges[0]) * scale
        cell = np.int64(0)
        if guess >= last:
            cell = np.int64(last)
        elif guess > 0.0:
            cell = np.int64(guess)
        while cell > 0 and value < edges[cell]:
            cell -= 1
        while cell < last and value >= edges[cell + 1]:
            cell += 1
        cells[row] = cell
