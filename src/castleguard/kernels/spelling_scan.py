"""Byte scan for texts in canonical form: it handles nearly all texts, so that few must be parsed one by one.

The canonical form is defined in `schema/canonical.py`. The scan trims blanks, lower-cases ASCII letters and drops
leading zeros in place, and marks every text that may need more than that as odd. Marking too many only costs time.
"""

import numpy as np

from castleguard.kernels.arrays import Bytes, Flags, Hashes, Ints, Ints2
from castleguard.kernels.compile import Bool, Int, entry_kernel, kernel

MOST_DIGITS = 40  # of a number written without an exponent

_BLANK, _TILDE = 0x20, 0x7E
_ZERO, _NINE, _PLUS, _MINUS, _POINT, _LOW_LINE = 0x30, 0x39, 0x2B, 0x2D, 0x2E, 0x5F
_F, _G, _I, _N, _T, _U, _W, _Z = 0x66, 0x67, 0x69, 0x6E, 0x74, 0x75, 0x77, 0x7A
_BRACE, _PARENTHESIS = 0x7B, 0x28

# Packed counts of a text's bytes per class, seven bits each: one addition per byte updates all of them.
_DIGITS, _POINTS, _SEPARATORS, _DASHES, _HEXES, _EXPONENTS, _BLANKS, _UPPER, _FOREIGN = range(0, 63, 7)
_LONGEST = 127


def byte_classes() -> Hashes:
    """Table of what each byte adds to the packed counts."""
    members = {
        _DIGITS: b"0123456789",
        _POINTS: b".",
        _SEPARATORS: b":/,'",
        _DASHES: b"-",
        _HEXES: b"abcdefABCDEF",
        _EXPONENTS: b"eE+",
        _BLANKS: b" ",
        _UPPER: bytes(range(0x41, 0x5B)),
        _FOREIGN: bytes(byte for byte in range(256) if not _BLANK <= byte <= _TILDE) + b"`",
    }
    classes = np.zeros(256, dtype=np.uint64)
    for shift, found in members.items():
        classes[list(found)] += np.uint64(1) << np.uint64(shift)
    return classes


@kernel
def _count(tally: np.uint64, shift: int) -> Int:
    return np.int64((tally >> np.uint64(shift)) & np.uint64(_LONGEST))


@kernel
def _is_digit(byte: Int) -> Bool:
    return _ZERO <= byte <= _NINE


@kernel
def _is_number(data: Bytes, start: Int, stop: Int, digits: Int, points: Int) -> Bool:
    """Whether text of digits, signs, points and exponents only is a canonical number."""
    first = start + (data[start] == _MINUS)
    if digits + points != stop - first or points > 1 or digits > MOST_DIGITS or not _is_digit(data[first]):
        return False
    if points == 0:
        return data[first] != _ZERO or (stop - first == 1 and first == start)
    if data[first] == _ZERO and data[first + 1] != _POINT:
        return False
    return data[stop - 1] != _POINT and data[stop - 1] != _ZERO


@kernel
def _may_be_uuid(first: Int, length: Int, tally: np.uint64) -> Bool:
    """Whether text may be a UUID in an unusual form, or one that reads as a number without its dashes."""
    if length == 32:
        return _count(tally, _DIGITS) + _count(tally, _HEXES) == 32
    if length == 36:
        hexes = _count(tally, _HEXES)
        if hexes + _count(tally, _DIGITS) != 32 or _count(tally, _DASHES) != 4:
            return False
        return _count(tally, _UPPER) > 0 or (hexes < 2 and _count(tally, _EXPONENTS) == hexes)
    if first == _BRACE or first == _PARENTHESIS:
        return length == 34 or length == 38
    return (first | 0x20) == _U and (length == 41 or length == 45)


@kernel
def _may_be_word(data: Bytes, start: Int, stop: Int) -> Bool:
    """Whether text may be "nan" or "infinity", signed or not, or "true" or "false" in another case."""
    length = stop - start
    first = data[start]
    letter = first | 0x20
    if length == 3 or length == 4 or length == 8 or length == 9:
        if letter == _N or letter == _I or first == _PLUS or first == _MINUS:
            return True
    if length == 4 or length == 5:
        return letter == _T or (letter == _F and length == 5)
    return False


@kernel
def _may_be_moment(data: Bytes, start: Int, stop: Int) -> Bool:
    """Whether text that begins with a digit, without colons and slashes, may be a date: 2020-..., 20200102t..."""
    at = start
    while at < stop and _is_digit(data[at]):
        at += 1
    digits = at - start
    if at == stop or (digits != 4 and digits != 7 and digits != 8):
        return False
    after = data[at]
    letter = after | 0x20
    if digits == 4:
        if letter == _W:
            return True
        follows = at + 1 < stop and (_is_digit(data[at + 1]) or (data[at + 1] | 0x20) == _W)
        return follows and (after == _MINUS or after == _POINT or after == _BLANK or after == _LOW_LINE)
    return after == _BLANK or letter == _T or letter == _Z or letter == _U or letter == _G


@kernel
def _may_be_time(data: Bytes, start: Int, stop: Int, digits: Int) -> Bool:
    """Whether text may be a time of day after a T; other times have a colon."""
    length = stop - start
    if length < 3 or (data[start] | 0x20) != _T or not _is_digit(data[start + 1]):
        return False
    return digits < length - 1 or length == 3 or length == 5 or length == 7


@kernel
def _read(data: Bytes, start: Int, stop: Int, fold: bool, classes: Hashes) -> Int:
    """Start of the canonical text, -1 if the text is odd. Lower-cases letters in place."""
    length = stop - start
    if length > _LONGEST:
        return -1
    tally = np.uint64(0)
    for at in range(start, stop):
        tally += classes[data[at]]
    if _count(tally, _FOREIGN) > 0:
        return -1
    if _count(tally, _BLANKS) > 0:
        for at in range(start + 1, stop):
            if data[at] == _BLANK and data[at - 1] == _BLANK:
                return -1
    if fold and _count(tally, _UPPER) > 0:
        for at in range(start, stop):
            if 0x41 <= data[at] <= 0x5A:
                data[at] = np.uint8(data[at] | 0x20)
        tally -= np.uint64(_count(tally, _UPPER)) << np.uint64(_UPPER)
    first = data[start]
    digits = _count(tally, _DIGITS)
    if digits == length:
        while start < stop - 1 and data[start] == _ZERO:
            start += 1
        return start if stop - start <= MOST_DIGITS else -1
    points = _count(tally, _POINTS)
    separators = _count(tally, _SEPARATORS)
    others = _count(tally, _DASHES) + _count(tally, _EXPONENTS) + _count(tally, _BLANKS) + separators
    if digits > 0 and digits + points + others == length:
        if _is_digit(first) or first == _PLUS or first == _MINUS or first == _POINT:
            # Odd if it is not a canonical number despite its bytes: a date, a UUID, "- 12", "1 234", "1-2".
            return start if _is_number(data, start, stop, digits, points) else -1
    if _may_be_word(data, start, stop) or _may_be_uuid(first, length, tally):
        return -1
    if _is_digit(first) and (separators > 0 or _may_be_moment(data, start, stop)):
        return -1
    return -1 if _may_be_time(data, start, stop, digits) else start


@kernel
def _whole_part(data: Bytes, start: Int, stop: Int) -> Int:
    """End of the integer part of a canonical number, `stop` for other text; -1 if it is not the leading digits."""
    points = 0
    end = stop
    for at in range(start, stop):
        if data[at] == _POINT:
            points += 1
            end = at
        elif not _is_digit(data[at]) and (at > start or data[at] != _MINUS):
            return stop
    if points == 1 and (data[start] == _MINUS or end == start):
        return -1
    return end if points == 1 else stop


@entry_kernel
def read_spellings(
    data: Bytes, bounds: Ints, valid: Flags, form: tuple[bool, bool], classes: Hashes, spans: Ints2, odd: Flags
) -> None:
    """Find the canonical text of every valid row of an Arrow buffer, or mark the row as odd.

    The text is data[spans[0]:spans[1]]. An empty text becomes invalid. `data` is modified, even in odd rows.
    form = (fold case, numbers by their integer part).
    """
    fold, whole = form
    for row in range(valid.size):
        first = bounds[row]
        last = bounds[row + 1]
        odd[row] = False
        spans[0, row] = first
        spans[1, row] = last
        if not valid[row]:
            continue
        while first < last and data[first] <= _BLANK:
            first += 1
        while first < last and data[last - 1] <= _BLANK:
            last -= 1
        if first == last:
            valid[row] = False
            continue
        begin = _read(data, first, last, fold, classes)
        if begin >= 0 and whole:
            last = _whole_part(data, begin, last)
        odd[row] = begin < 0 or last < 0
        spans[0, row] = begin
        spans[1, row] = last
