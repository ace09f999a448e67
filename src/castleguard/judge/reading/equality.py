"""Decide which spellings denote the same person or value, one value at a time.

This is a second implementation of the rules of `schema/canonical.py`, written from their definition and not from that
code: numbers are compared exactly, dates as the number of their digits, other timestamps as seconds since 1970, UUIDs
by their 128 bits, and other text as displayed.
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

NO_PERSON = -1
"""Code of a missing or indistinguishable person, which adds no person to a group."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_HEX = "[0-9a-f]"
_UUID = re.compile(f"{_HEX}{{32}}|{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}")
_CITY = r"(\[[a-z0-9_/+-]+\])?"
_ZONE = rf"(?P<zone>( ?(z|utc|gmt){_CITY})?( ?[+-][0-9][0-9:]*{_CITY})?)"
_MOMENT = re.compile(
    r"(?P<day>[0-9]{4}([-/._: ])[0-9]{1,2}\2[0-9]{1,2}|[0-9]{8}|[0-9]{4}-?[0-9]{3}|[0-9]{4}-?w[0-9]{2}-?[0-9])"
    r"((t| |, )(?P<clock>[0-9][0-9:.,]*( ?[ap]\.?m\.?)?))?" + _ZONE,
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?P<clock>(t[0-9]{2}|t?[0-9]{1,2}:)[0-9:.,]*( ?[ap]\.?m\.?)?)" + _ZONE,
    re.IGNORECASE,
)
_CLOCKS = (
    re.compile(r"([0-9]{1,2}):([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?"),
    re.compile(r"([0-9]{2})(?:([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?)?"),
)
_OFFSET = re.compile(r"([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_THOUSANDS = re.compile(r"[0-9]{1,3}( [0-9]{3})+(\.[0-9]*)?|[0-9]{1,3}('[0-9]{3})+(\.[0-9]*)?")
_COMMAS = re.compile(r"[0-9]{1,3}(,[0-9]{3}){2,}|[0-9]{1,3}(,[0-9]{3})+\.[0-9]*")
_EITHER = re.compile(r"[1-9][0-9]?[0-9]?,[0-9]{3}")  # more than a thousand, or a fraction
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_TYPED = dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-") | {0x66B: ".", 0x66C: ","}
_TYPED |= dict.fromkeys([0x60, 0x2BB, 0x2BC, 0x2018, 0x2019, 0x201B, 0x2032], "'")
_TYPED |= dict.fromkeys([0x201C, 0x201D, 0x201F], '"')
# Fillers, joiners and variation selectors: invisible, though their category is letter or mark.
_UNSEEN = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0}
_UNSEEN |= set(range(0xE0100, 0xE01F0))
_WHOLE_BELOW = {16: 2**11, 32: 2**24, 64: 2**53}  # by bits of a float: above this, integers are not distinct
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def person_codes(column: pa.ChunkedArray, *, exact_case: bool = False) -> Codes:
    """Number the distinct persons; NO_PERSON for missing or indistinguishable ones."""
    return _codes(column, fold=not exact_case, persons=True)


def value_codes(column: pa.ChunkedArray, *, whole: bool = False) -> Codes:
    """Number the distinct values; missing values share one number. `whole`: compare integer parts only."""
    return _codes(column, fold=False, persons=False, whole=whole)


def identity(value: Any, *, fold: bool = False) -> object:
    """Canonical key of a text, number or boolean, equal for all its spellings; None if the value is empty or NaN.

    >>> len({identity(value) for value in (12, 12.0, "12", "012", "+ 12", "12.0", "1.2e1")})
    1
    >>> len({identity(value) for value in (20200102, "2020-1-2", "2020-01-01T24:00", "20200102T00Z")})
    1
    """
    if value is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else _seen(str(value), fold=fold)
    if not text or _NO_NUMBER.fullmatch(text):
        return None
    number = _ungrouped(text)
    if _NUMBER.fullmatch(number):
        return _exact(number)
    bare = text.lower().removeprefix("urn:uuid:")
    if (bare[:1], bare[-1:]) in (("{", "}"), ("(", ")")):
        bare = bare[1:-1]
    if _UUID.fullmatch(bare):
        digits = bare.replace("-", "")
        return _exact(digits) if _NUMBER.fullmatch(digits) else ("uuid", digits)
    if text.lower() in ("true", "false"):
        return _exact("1" if text.lower() == "true" else "0")
    return _moment(text) or _time(text) or text


def _codes(column: pa.ChunkedArray, *, fold: bool, persons: bool, whole: bool = False) -> Codes:
    if pa.types.is_nested(column.type):
        raise InputError("cannot judge a column of nested values (lists, structs): declare columns of single values")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    read, plain = _reader(array, fold=fold, persons=persons)
    encoded = pc.dictionary_encode(plain, null_encoding="encode")
    known: dict[object, int] = {None: NO_PERSON} if persons else {}
    values = encoded.dictionary.to_pylist()
    found = [None if value is None else read(value) for value in values]
    merged = [known.setdefault(_whole(key) if whole else key, len(known)) for key in found]
    rows: Codes = encoded.indices.to_numpy(zero_copy_only=False)
    return np.array(merged, dtype=np.int64)[rows] if merged else np.zeros(0, dtype=np.int64)


def _reader(array: pa.Array, *, fold: bool, persons: bool) -> tuple[Callable[[Any], object], pa.Array]:
    """A function that reads one value of the column, and the column in a type that Python can represent."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        unit = 1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit]
        return lambda ticks: _at(Fraction(ticks, unit)), array.cast(pa.int64())
    if pa.types.is_date32(kind):
        return lambda days: _at(Fraction(days * 86_400)), array.cast(pa.int32())
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
    """Text as displayed."""
    while True:
        shown = unicodedata.normalize("NFKC", text.replace("\u00b4", "'")).translate(_TYPED)
        shown = "".join(_shown(letter) for letter in shown)
        if fold:  # via capitals: i and dotless i share one, and the dot of an i may be a separate mark
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
    """Key of a number by its value; None if the exponent is out of range."""
    try:
        number = _EXACT.normalize(decimal.Decimal(text, _EXACT))
    except decimal.DecimalException:
        return None
    return ("number", 0) if number.is_zero() else ("number", number.as_tuple())


def _ungrouped(text: str) -> str:
    """Text with the sign in front and without thousands separators, if that makes it a number."""
    if _NUMBER.fullmatch(text):
        return text
    sign, rest = "", text
    if text.endswith("-"):
        sign, rest = "-", text[:-1].strip()
    elif text.startswith(("+", "-")):
        sign, rest = text[:1], text[1:].strip()
    if _THOUSANDS.fullmatch(rest) or _COMMAS.fullmatch(rest):
        rest = "".join(letter for letter in rest if letter not in " ',")
    elif re.fullmatch(r"[0-9]+,[0-9]+(e[+-]?[0-9]+)?", rest, re.IGNORECASE) and not _EITHER.fullmatch(rest):
        rest = rest.replace(",", ".")
    return sign + rest


def _whole(key: object) -> object:
    """Integer part of a number; other keys unchanged."""
    match key:
        case ("number", decimal.DecimalTuple(sign=sign, digits=digits, exponent=int(exponent))) if exponent < 0:
            left = digits[:exponent] if len(digits) > -exponent else (0,)
            return _exact("-" * sign + "".join(map(str, left)))
    return key


def _at(seconds: Fraction) -> object:
    """Key of a timestamp: midnight counts as a date, and a date as the number of its digits."""
    days, within = divmod(seconds, 86_400)
    try:
        day = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    except OverflowError:
        return "moment", seconds
    return ("moment", seconds) if within else _exact(f"{day.year:04d}{day.month:02d}{day.day:02d}")


def _moment(text: str) -> object:
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    if found["clock"] is None and re.search(r"[+-][0-9]+(\[|$)", found["zone"]):
        return None
    day, clock, east = _day(found["day"]), _clock(found["clock"] or "00"), _east(found["zone"])
    if day is None or clock is None or east is None:
        return None
    return _at((day - dt.date(1970, 1, 1)).days * 86_400 + clock - east)


def _day(text: str) -> dt.date | None:
    """Parse a date given by month, by day of the year, or by ISO week."""
    try:
        if "w" in text.lower():
            year, week = text[:4], text[5:].lower().replace("w", "").replace("-", "")
            return dt.date.fromisocalendar(int(year), int(week[:2]), int(week[2:]))
        parts = re.split("[-/._: ]", text)
        if len(parts) == 3:
            return dt.date(*map(int, parts))
        digits = "".join(parts)
        if len(digits) == 8:
            return dt.date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
        day = dt.date(int(digits[:4]), 1, 1) + dt.timedelta(days=int(digits[4:]) - 1)
        return day if f"{day:%j}" == digits[4:] else None
    except (ValueError, OverflowError):
        return None


def _clock(text: str) -> Fraction | None:
    """Parse a time of day into seconds since midnight; 24:00 is allowed."""
    digits = text.lower().removeprefix("t")
    half = "".join(letter for letter in digits if letter in "apm")
    digits = digits.split("a")[0].split("p")[0].strip()
    found = _CLOCKS[0].fullmatch(digits) or _CLOCKS[1].fullmatch(digits)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    part = (found[4] or "").rstrip("0")
    if half:
        if hour not in range(1, 13):
            return None
        hour = {"am": 0, "pm": 12}[half] + (0 if hour == 12 else hour)
    fraction = Fraction(decimal.Decimal(f"0.{part}", _EXACT)) if part else Fraction(0)
    seconds = hour * 3600 + minute * 60 + second + fraction
    if hour == 24:
        return seconds if seconds == 86_400 else None
    return seconds if hour < 24 and minute < 60 and second < 61 else None


def _east(zone: str) -> int | None:
    """Seconds ahead of UTC; None if the offset is invalid."""
    zone = re.sub(r"\[[^]]*\]", "", zone)
    at = max(zone.find("+"), zone.find("-"))
    if at < 0:
        return 0
    found = _OFFSET.fullmatch(zone[at + 1 :])
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (24, 0, 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if zone[at] == "-" else 1)


def _time(text: str) -> object:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    clock, east = _clock(found["clock"]), _east(found["zone"])
    return None if clock is None or east is None else ("time", (clock - east) % 86_400)
