"""Keyed hashes of persons and sensitive values, by their canonical form.

k depends on this promise: the same person gets the same hash from any type, format or batch (`canonical.py` defines the
form). Integers, whole floats and plain ASCII text are hashed column by column; only texts in an unusual spelling are
read one by one. A person who is missing, or a float too large to be exact, is NO_PERSON: such rows count for neither k
nor l, and are those of one person for ledgers.
"""

import datetime as dt
import re
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.kernels.siphash import NO_PERSON, hash_integers, hash_spans, hash_strings
from castleguard.kernels.spelling_scan import byte_classes, read_spellings
from castleguard.schema.canonical import canonical, reads_as
from castleguard.schema.column import EXACT_BY_WIDTH, is_text, null_mask, view_strings
from castleguard.schema.person import PersonKind
from castleguard.schema.times import TICKS_PER_SECOND

Hashes = NDArray[np.uint64]
Key = NDArray[np.uint64]  # (2,)
Flags = NDArray[np.bool_]

UUID_BYTES = 16
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # control characters other than tabs and line ends
_CLASSES = byte_classes()
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)
_FIRST_DAY, _LAST_DAY = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
_HEX_PLACES = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])
# The usual spelling of a kind; other values are read one by one.
_USUAL: dict[PersonKind, str] = {
    "number": r"^[ \t]*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[ \t]*$",
    "uuid": r"^[ \t]*[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}[ \t]*$",
}


class _Form(NamedTuple):
    """Options of the canonical form."""

    fold: bool
    """Ignore case."""
    whole: bool
    """A number counts by its whole part."""
    persons: bool
    """A float that is not whole cannot be a person."""


def hash_persons(array: pa.Array, key: Key, *, exact_case: bool = False, kind: PersonKind | None = None) -> Hashes:
    """One hash per person, NO_PERSON for those that are missing or indistinguishable.

    Raises SchemaError for values that do not read as `kind`; all values read as text.
    """
    if kind is not None:
        _check_kind(array, kind)
        if kind == "text" and _is_uuid(array.type):
            array = array.cast(pa.binary())  # 16 characters of text or a UUID, decided value by value
    hashes, missing = _hash(array, key, _Form(fold=not exact_case, whole=False, persons=True))
    hashes[hashes == NO_PERSON] = NO_PERSON - np.uint64(1)
    hashes[missing] = NO_PERSON
    return hashes


def hash_values(array: pa.Array, key: Key, *, whole: bool = False) -> Hashes:
    """One hash per value, the same for all missing ones. `whole`: a number counts by its whole part."""
    return _hash(array, key, _Form(fold=False, whole=whole, persons=False))[0]


# Python types that can identify a person; a list or an object without its own text form cannot.
_PERSONS = (int, str, Decimal, dt.date, dt.time, UUID, Enum)


def as_person(value: object) -> object:
    """A Python value as a column of its type would read it: None if it cannot be a person, text for bytes."""
    if isinstance(value, float):
        return value if value.is_integer() and abs(value) < EXACT_BY_WIDTH[64] else None
    if isinstance(value, bytes):
        return _decode(value, is_bytes=True)
    return value if isinstance(value, _PERSONS) else None


def kind_of_persons(kind: pa.DataType) -> PersonKind | None:
    """Kind of persons in a column of this type; None for a column without values."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "uuid" if _is_uuid(kind) else "text"


def _hash(array: pa.Array, key: Key, form: _Form) -> tuple[Hashes, Flags]:
    """Hashes, and flags of values that are missing or indistinguishable."""
    kind = array.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        values = array.cast(pa.int64())
        whole = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
        missing = null_mask(values)
        return hash_integers(np.require(whole, requirements=["C", "W"]), ~missing, key), missing
    if pa.types.is_floating(kind):
        return _hash_floats(array, key, form)
    if is_text(kind) and not _is_uuid(kind):
        return _hash_texts(array, key, form)
    text = _canonical_texts(array)
    if text is None:
        raise SchemaError(f"values of type {kind} cannot be compared: use text or numbers")
    if _is_uuid(kind) or pa.types.is_decimal(kind) or form.whole:
        return _hash_texts(text, key, form)
    data, offsets, valid = view_strings(text)
    # A copy: kernels are compiled for writable arrays, and Arrow's buffers are not.
    return hash_strings(data.copy(), offsets, valid, key), ~valid


def _hash_floats(array: pa.Array, key: Key, form: _Form) -> tuple[Hashes, Flags]:
    values = array.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    exact = np.abs(values) < EXACT_BY_WIDTH[array.type.bit_width]
    parts = np.trunc(np.where(exact, values, 0.0))
    if form.persons:
        exact &= parts == values
        return hash_integers(parts.astype(np.int64), exact, key), ~exact
    finite = np.isfinite(values)
    if np.all(exact == finite) and (form.whole or np.all((parts == values) | ~finite)):
        return hash_integers(parts.astype(np.int64), finite, key), ~finite
    # Fractions are printed from the original type: 0.1 as float32 must not become 0.10000000149011612.
    return _hash_texts(array.cast(pa.large_string()), key, form)


def _hash_texts(array: pa.Array, key: Key, form: _Form) -> tuple[Hashes, Flags]:
    """Hash text or bytes: usual spellings together, the others one by one."""
    raw = (array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array).cast(pa.large_binary())
    data, bounds, valid = view_strings(raw)
    # A copy: the kernel lowers letters in place, and Arrow's buffers are read-only.
    data, spans, odd = data.copy(), np.empty((2, valid.size), np.int64), np.empty(valid.size, np.bool_)
    read_spellings(data, bounds, valid, (form.fold, form.whole), _CLASSES, spans, odd)
    is_bytes = not _is_string(array.type)
    if is_bytes:
        odd |= valid & _edged_by_controls(data, bounds)
    hashes = hash_spans(data, spans[0], spans[1], valid & ~odd, key)
    if odd.any():
        rows = np.flatnonzero(odd)
        found, missing = _hash_odd(raw.take(pa.array(rows)), key, form, is_bytes=is_bytes)
        hashes[rows] = found
        valid[rows] = ~missing
    return hashes, ~valid


def _hash_odd(raw: pa.Array, key: Key, form: _Form, *, is_bytes: bool) -> tuple[Hashes, Flags]:
    """Hash unusual spellings: each distinct one is read by `canonical`."""
    encoded = raw.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts = [_decode(value, is_bytes=is_bytes) for value in values]
    if not form.persons:  # as published where text is mixed with other types
        texts = [
            value.decode("utf-8", "replace") if text is None else text
            for value, text in zip(values, texts, strict=True)
        ]
    forms = [None if text is None else canonical(text, fold=form.fold, whole=form.whole) for text in texts]
    data, offsets, valid = view_strings(pa.array(forms, pa.large_string()))
    rows = encoded.indices.to_numpy(zero_copy_only=False)
    return hash_strings(data.copy(), offsets, valid, key)[rows], ~valid[rows]


def _edged_by_controls(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> Flags:
    """Flags of 16-byte values that start or end with a control character, which a UUID may but text does not."""
    rows = np.flatnonzero(np.diff(bounds) == UUID_BYTES)
    first, last = data[bounds[rows]], data[bounds[rows + 1] - 1]
    found = np.zeros(bounds.size - 1, dtype=np.bool_)
    found[rows[(first < 0x20) | ((last < 0x20) & (last > 0))]] = True
    return found


def _decode(raw: bytes, *, is_bytes: bool) -> str | None:
    """Bytes as text; 16 bytes that are not text as a UUID; None for other bytes that are not text."""
    try:
        text: str | None = raw.decode()
    except UnicodeDecodeError:
        text = None
    if is_bytes and len(raw) == UUID_BYTES and (text is None or _CONTROL.search(text.strip("\0"))):
        return raw.hex()
    return text


def _canonical_texts(array: pa.Array) -> pa.Array | None:
    """Non-text values as large_string, canonical except numbers and UUIDs; None if the type has no text form."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _moments(array.cast(pa.int64()), TICKS_PER_SECOND[kind.unit])
    if pa.types.is_date32(kind):
        days = array.cast(pa.int32()).cast(pa.int64())
        return _moments(pc.multiply(days, 86_400), 1)
    if pa.types.is_date64(kind):
        return _moments(array.cast(pa.int64()), 1000)
    if pa.types.is_time(kind):
        text = array.cast(pa.large_string())
        return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), r"\.$", "")
    if _is_uuid(kind):
        return _format_uuids(array)
    if pa.types.is_decimal(kind):
        return pc.replace_substring_regex(array.cast(pa.large_string()), r"(\.[0-9]*?)0+$", r"\1")
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(pa.large_string())
    if pa.types.is_null(kind) or kind == pa.uint64():
        return array.cast(pa.large_string())
    return None


def _moments(ticks: pa.Array, per_second: int) -> pa.Array:
    """Ticks since 1970 as canonical moments: the digits of a day at midnight, else seconds."""
    missing = null_mask(ticks)
    seconds, parts = np.divmod(ticks.fill_null(0).to_numpy(zero_copy_only=False), per_second)
    days, within = np.divmod(seconds, 86_400)
    at_midnight = (within == 0) & (parts == 0) & (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    day_digits = pa.array(_digits_of_days(np.where(at_midnight, days, 0))).cast(pa.large_string())
    if at_midnight.all():
        text = day_digits
    else:
        at, point, nothing = (pa.scalar(sign, pa.large_string()) for sign in ("@", ".", ""))
        text = pc.binary_join_element_wise(at, pa.array(seconds).cast(pa.large_string()), nothing)
        if parts.any():
            digits = len(str(per_second)) - 1
            padded = pc.utf8_lpad(pa.array(parts).cast(pa.large_string()), digits, "0")
            text = pc.binary_join_element_wise(text, pc.utf8_rtrim(padded, "0"), point)
            text = pc.utf8_rtrim(text, ".")
        text = pc.if_else(pa.array(at_midnight), day_digits, text)
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.large_string()), text)


def _digits_of_days(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days since 1970 as the number of their digits: 20200102."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64)
    day: NDArray[np.int64] = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    return (month // 12 + 1970) * 10_000 + (month % 12 + 1) * 100 + day


def _check_kind(array: pa.Array, kind: PersonKind) -> None:
    """Refuse persons that are not of their column's kind. The error never quotes a value."""
    own = kind_of_persons(array.type)
    if own is None or kind in (own, "text"):
        return
    if not is_text(array.type):
        raise SchemaError(_misfit(kind, str(array.type)))
    is_bytes = not _is_string(array.type)
    raw = (array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array).cast(pa.large_binary())
    if not is_bytes:
        usual = pc.match_substring_regex(raw.cast(pa.large_string()), _USUAL[kind])
        raw = raw.filter(pc.invert(usual).fill_null(False))
    for value in raw.unique().to_pylist():
        text = None if value is None else _decode(value, is_bytes=is_bytes)
        if text is not None and not reads_as(text, kind):
            raise SchemaError(_misfit(kind, "other text"))


def _misfit(kind: PersonKind, found: str) -> str:
    return (
        f"persons are of kind {kind}, by the schema or by earlier rows, but this batch has {found}: "
        f"one person could count as two. Declare the kind as text to allow both"
    )


def _is_uuid(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind) and kind.byte_width == UUID_BYTES)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _format_uuids(array: pa.Array) -> pa.Array:
    """Format 16-byte values as UUIDs in their usual spelling."""
    rows = len(array)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * UUID_BYTES :][: rows * UUID_BYTES]
    text_bytes = np.full((rows, 36), ord("-"), dtype=np.uint8)
    text_bytes[:, _HEX_PLACES] = _HEX[raw].reshape(rows, 32)
    bounds = pa.py_buffer(np.arange(0, 36 * (rows + 1), 36, dtype=np.int64))
    text = pa.LargeStringArray.from_buffers(rows, bounds, pa.py_buffer(text_bytes.tobytes()))
    return pc.if_else(pa.array(null_mask(array)), pa.scalar(None, text.type), text) if array.null_count else text
