"""Which values of a column are one person, or one value: read one by one, the obvious way.

The rules are those of `schema/canonical.py`, written a second time from the definition and not from that code: numbers
are compared exactly, instants as seconds since 1970, UUIDs by their 128 bits, other text as it shows.
"""

import datetime as dt
import decimal
import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import InputError

Codes = NDArray[np.int64]  # (rows,)

NOBODY = -1
"""The code of a person who is missing or cannot be told apart: adds nobody to a group."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_HEX = "[0-9a-f]"
_UUID = re.compile(f"{_HEX}{{32}}|{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}")
_DAY = r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}(?=[t ]))"
_CLOCK = r"[t ](?P<hour>[0-9]{2})(:?(?P<minute>[0-9]{2})(:?(?P<second>[0-9]{2})([.,](?P<part>[0-9]+))?)?)?"
_ZONE = r" ?(z|utc|gmt|(?P<east>[+-][0-9]{2}):?(?P<more>[0-9]{2})?)?"
_MOMENT = re.compile(f"{_DAY}({_CLOCK}{_ZONE})?", re.IGNORECASE)
_TIME = re.compile(r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(:(?P<second>[0-9]{2})([.,](?P<part>[0-9]+))?)?")
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_DASHES = dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")
# Fillers, joiners and variation selectors: they show nothing, though they are letters or marks by their category.
_UNSEEN = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0}
_UNSEEN |= set(range(0xE0100, 0xE01F0))
_WHOLE_BELOW = {16: 2**11, 32: 2**24, 64: 2**53}  # by bits of a float: from here on neighbours look the same
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def person_codes(column: pa.ChunkedArray, *, exact_case: bool = False) -> Codes:
    """A small number for every distinct person, NOBODY for all that are missing or cannot be told apart."""
    return _codes(column, fold=not exact_case, persons=True)


def value_codes(column: pa.ChunkedArray, *, whole: bool = False) -> Codes:
    """A small number for every distinct value; all missing ones share one. `whole`: a number is its whole part."""
    return _codes(column, fold=False, persons=False, whole=whole)


def identity(value: Any, *, fold: bool = False) -> object:
    """What makes two spellings of a text, a number or a boolean one; None if it says nothing.

    >>> len({identity(value) for value in (12, 12.0, "12", "012", "+12", "12.0", "1.2e1")})
    1
    """
    if value is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else _seen(str(value), fold=fold)
    if not text or _NO_NUMBER.fullmatch(text):
        return None
    if _NUMBER.fullmatch(text):
        return _exact(text)
    bare = text.lower().removeprefix("urn:uuid:")
    if (bare[:1], bare[-1:]) in (("{", "}"), ("(", ")")):
        bare = bare[1:-1]
    if _UUID.fullmatch(bare):
        digits = bare.replace("-", "")
        return _exact(digits) if _NUMBER.fullmatch(digits) else ("uuid", digits)
    if text.lower() in ("true", "false"):
        return text.lower()
    return _moment(text) or _time(text) or text


def _codes(column: pa.ChunkedArray, *, fold: bool, persons: bool, whole: bool = False) -> Codes:
    if pa.types.is_nested(column.type):
        raise InputError("a column of lists or the like cannot be judged: its values are not single ones")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    read, plain = _reader(array, fold=fold, persons=persons)
    encoded = pc.dictionary_encode(plain, null_encoding="encode")
    known: dict[object, int] = {None: NOBODY} if persons else {}
    values = encoded.dictionary.to_pylist()
    found = [None if value is None else read(value) for value in values]
    merged = [known.setdefault(_whole(key) if whole else key, len(known)) for key in found]
    rows: Codes = encoded.indices.to_numpy(zero_copy_only=False)
    return np.array(merged, dtype=np.int64)[rows] if merged else np.zeros(0, dtype=np.int64)


def _reader(array: pa.Array, *, fold: bool, persons: bool) -> tuple[Callable[[Any], object], pa.Array]:
    """How the values of a column are read one by one, and the column in a form that Python can hold."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        unit = 1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit]
        return lambda ticks: ("moment", Fraction(ticks, unit)), array.cast(pa.int64())
    if pa.types.is_date32(kind):
        return lambda days: ("moment", Fraction(days * 86_400)), array.cast(pa.int32())
    if pa.types.is_time(kind):
        ticks = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        return lambda tick: ("time", Fraction(tick, _PER_SECOND[kind.unit])), ticks
    if pa.types.is_floating(kind):
        return lambda number: _float(number, kind.bit_width, persons=persons), array.cast(pa.float64())
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return lambda raw: identity(raw.hex()), array
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda raw: _bytes(raw, fold=fold, persons=persons), array
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda raw: _bytes(raw, fold=fold, persons=persons, text=True), array.cast(pa.large_binary())
    return lambda value: identity(value, fold=fold), array


def _float(number: float, bits: int, *, persons: bool) -> object:
    if persons and not (abs(number) < _WHOLE_BELOW[bits] and number.is_integer()):
        return None
    if not np.isfinite(number):
        return None
    shortest: np.floating[Any] = np.dtype(f"f{bits // 8}").type(number)
    return _exact(np.format_float_scientific(shortest, unique=True, trim="0"))


def _bytes(raw: bytes, *, fold: bool, persons: bool, text: bool = False) -> object:
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        if len(raw) == 16 and not text:
            return identity(raw.hex())
        return None if persons else identity(raw.decode("utf-8", "replace"))
    controls = [letter for letter in decoded.strip("\0") if unicodedata.category(letter) == "Cc"]
    if len(raw) == 16 and not text and set(controls) - {"\t", "\r", "\n"}:
        return identity(raw.hex())
    return identity(decoded, fold=fold)


def _seen(text: str, *, fold: bool) -> str:
    """Text as a reader sees it."""
    while True:
        shown = unicodedata.normalize("NFKC", text).translate(_DASHES)
        shown = "".join(_shown(letter) for letter in shown)
        if fold:  # by way of capitals: a dotless i has the same as i, whose dot may be a mark of its own
            shown = shown.upper().casefold().replace("i\u0307", "i")
        if shown == text:
            return " ".join(shown.split())
        text = shown


def _shown(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Nd":
        return str(unicodedata.decimal(letter))
    hidden = category == "Cf" or ord(letter) in _UNSEEN or (category == "Cc" and not letter.isspace())
    return "" if hidden else letter


def _exact(text: str) -> object:
    """A number by its value; None if its exponent is beyond all reckoning."""
    try:
        number = _EXACT.normalize(decimal.Decimal(text, _EXACT))
    except decimal.DecimalException:
        return None
    return ("number", 0) if number.is_zero() else ("number", number.as_tuple())


def _whole(key: object) -> object:
    """The whole part, if this is a number."""
    match key:
        case ("number", decimal.DecimalTuple(sign=sign, digits=digits, exponent=int(exponent))) if exponent < 0:
            left = digits[:exponent] if len(digits) > -exponent else (0,)
            return _exact("-" * sign + "".join(map(str, left)))
    return key


def _moment(text: str) -> object:
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    clock = found.groupdict(default="0")
    digits = clock["day"].replace("-", "")
    try:
        day = dt.datetime(int(digits[:4]), int(digits[4:6]), int(digits[6:]), tzinfo=dt.UTC)
        within = dt.time(int(clock["hour"]), int(clock["minute"]), int(clock["second"]))
    except ValueError:
        return None
    east = int(clock["east"]) * 3600 + (-1 if clock["east"].startswith("-") else 1) * int(clock["more"]) * 60
    seconds = int(day.timestamp()) + within.hour * 3600 + within.minute * 60 + within.second - east
    return "moment", seconds + Fraction(int(clock["part"]), 10 ** len(clock["part"]))


def _time(text: str) -> object:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    clock = found.groupdict(default="0")
    try:
        within = dt.time(int(clock["hour"]), int(clock["minute"]), int(clock["second"]))
    except ValueError:
        return None
    seconds = within.hour * 3600 + within.minute * 60 + within.second
    return "time", seconds + Fraction(int(clock["part"]), 10 ** len(clock["part"]))
