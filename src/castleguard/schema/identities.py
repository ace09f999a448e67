"""Persons and sensitive values as keyed hashes of their text.

The promise that k rests on: the same person gets the same hash whatever type a batch delivers it in. 12, 12.0, "12",
" 12 ", "012", "12.0" and "1.2e1" are one person. Where a choice has to be made, two different persons are taken for
one rather than one for two: counting too few persons only delays a release. All missing persons are one person.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.kernels.siphash import hash_integers, hash_strings
from castleguard.schema.column import null_mask
from castleguard.schema.numbers import NUMBER
from castleguard.schema.text import EXACT_BY_WIDTH, Strings, as_text, view_strings, whole_numbers

Hashes = NDArray[np.uint64]
Key = NDArray[np.uint64]  # (2,)

CANONICAL_FORM = 2
"""Version of what counts as one person. A change makes tokens of persons that were kept before it worthless: a job does
not go on counting their rows with them."""

ZERO, NINE, PLUS, MINUS, POINT = b"09+-."
EXPONENTS = b"eE"
UNUSUAL = NUMBER + r"|(?i:^[+-]?(nan|inf|infinity)$)"
TOO_LONG_FOR_FLOAT = r"^[+-]?\d{16,}$"


def hash_identities(array: pa.Array, key: Key) -> Hashes:
    """One hash per value, the same for all missing ones."""
    if pa.types.is_integer(array.type) and array.type != pa.uint64():
        values = array.cast(pa.int64())
        whole = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
        return hash_integers(np.require(whole, requirements=["C", "W"]), ~null_mask(values), key)
    if pa.types.is_floating(array.type):
        numbers, exact = whole_numbers(array)
        if np.all(exact | _blurred(array)):
            return hash_integers(numbers, exact, key)
        text = _float_text(array)
    else:
        text = as_text(array)
        if text is None:
            raise SchemaError(f"values of type {array.type} cannot be compared: use text or numbers")
        text = _one_spelling(text)
    data, offsets, valid = view_strings(text)
    # A copy: kernels are compiled for writable arrays, and Arrow's buffers are not.
    return hash_strings(data.copy(), offsets, valid, key)


def _blurred(floats: pa.Array) -> NDArray[np.bool_]:
    """Which floats cannot be a person: missing, NaN, infinite, or so large that whole neighbours look the same.

    They all count as the one missing person, so that however many there are, a group gains one person by them at most.
    """
    values = floats.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    blurred: NDArray[np.bool_] = ~(np.abs(values) < EXACT_BY_WIDTH[floats.type.bit_width])
    return blurred


def _float_text(floats: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(_blurred(floats)), pa.scalar(None, pa.large_string()), as_text(floats))


def _one_spelling(text: pa.Array) -> pa.Array:
    """Rewrite numbers that are not spelt as an integer prints, so that text agrees with what a float would say."""
    suspects = _suspects(view_strings(text))
    if suspects.size:
        suspects = suspects[_mask(pc.match_substring_regex(text.take(pa.array(suspects)), UNUSUAL))]
    if suspects.size == 0:
        return text
    rewritten = np.zeros(len(text), dtype=np.bool_)
    rewritten[suspects] = True
    return pc.replace_with_mask(text, pa.array(rewritten), _spell_as_float(text.take(pa.array(suspects))))


def _suspects(strings: Strings) -> NDArray[np.int64]:
    """The rows that may be a number in an unusual spelling, judged by a few of their bytes; most columns have none."""
    data, offsets, valid = strings
    rows = np.flatnonzero(valid)
    lengths = offsets[rows + 1] - offsets[rows]
    first = data[offsets[rows]]
    letter = first | 0x20  # in lower case
    suspect = (first == PLUS) | (first == MINUS) | (first == POINT) | ((first == ZERO) & (lengths > 1))
    suspect |= ((letter == ord("n")) | (letter == ord("i"))) & ((lengths == 3) | (lengths == 8))
    if any((data == sign).any() for sign in (POINT, *EXPONENTS)):
        last = data[offsets[rows + 1] - 1]
        suspect |= (first >= ZERO) & (first <= NINE) & (((last >= ZERO) & (last <= NINE)) | (last == POINT))
    suspicious: NDArray[np.int64] = rows[suspect]
    return suspicious


def _spell_as_float(text: pa.Array) -> pa.Array:
    """012, +12, 12.0 and 1.2e1 as 12, other numbers as a float prints, "nan" and "inf" as null."""
    too_long = pc.match_substring_regex(text, TOO_LONG_FOR_FLOAT)
    floats = pc.if_else(too_long, pa.scalar(None, text.type), text).cast(pa.float64())
    if not pc.any(too_long).as_py():
        return _float_text(floats)
    digits = pc.replace_substring_regex(text, r"^\+?(-?)0*(\d+)$", r"\1\2")
    return pc.if_else(too_long, digits, _float_text(floats))


def _mask(array: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return mask
