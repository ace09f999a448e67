"""The canonical form of an identity: one text for everything that means the same person, or the same value.

    numbers     12, 12.0, "012", "+12", "1.2e1", full-width digits     12
    text        after NFKC, without invisible characters and outer
                blanks, runs of blanks as one; case folded or kept      jane doe
    UUIDs       16 bytes, any usual spelling, any case                  6ba7b810-9dad-11d1-80b4-00c04fd430c8
    instants    dates, timestamps and their ISO 8601 text, in UTC       @86400
    times       of day                                                  12:30:00
    booleans    and their names in any case                             true

A number is its sign and digits: plain up to 40 of them, else without outer zeros and with an exponent, never expanded.
A UUID whose hexadecimal digits read as a number is that number, so that the form depends on the value alone, never on
what else is in the column. Where a choice has to be made, two persons are taken for one rather than one for two.
"""

import datetime as dt
import re
import unicodedata

from castleguard.kernels.spelling import MOST_DIGITS

# Letters and marks that show nothing, beside the format characters (Cf): fillers, joiners, variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_DIGIT = re.compile(r"(?![0-9])\d")  # of other scripts
_NUMBER = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_UUID = re.compile(r"([0-9a-f]{8})(-?)([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{12})")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?")
_INSTANT = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})(?:[T ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?)?"
    r" ?(Z|UTC|GMT|([+-])([0-9]{2}):?([0-9]{2})?)?)?",
    re.IGNORECASE,
)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_MOST_EXPONENT = 4000  # digits of an exponent that is reckoned with; a number beyond is indistinguishable
_ROUNDS = 4


def canonical(text: str, *, fold: bool, whole: bool = False) -> str | None:
    """The canonical form of a text; None if it is missing, or a number that says nothing ("nan").

    `fold` takes letters in both cases for the same. `whole` takes a number for its whole part.

    >>> [canonical(text, fold=True) for text in (" Jane\\u00a0 DOE\\ufeff", "-000", "1e20", "2020-01-02T00:00Z")]
    ['jane doe', '0', '100000000000000000000', '@1577923200']
    """
    clean = _clean(text, fold=fold)
    if not clean or _NO_NUMBER.fullmatch(clean):
        return None
    if any("0" <= character <= "9" for character in clean):
        if clean[0] in "0123456789+-.":
            if _NUMBER.fullmatch(clean):
                return canonical_number(clean, whole=whole)
            instant = _instant(clean) or _time(clean)
            if instant is not None:
                return instant
        return _uuid(clean, whole=whole) or clean
    lower = clean.lower()
    return lower if lower in ("true", "false") else _uuid(clean, whole=whole) or clean


def reads_as(text: str, kind: str) -> bool:
    """Whether a text is missing, or a number ("number") or UUID ("uuid") in any spelling."""
    clean = _clean(text, fold=False)
    if not clean or _NO_NUMBER.fullmatch(clean):
        return True
    return bool(_NUMBER.fullmatch(clean)) if kind == "number" else _uuid(clean, whole=False) is not None


def canonical_number(text: str, *, whole: bool = False) -> str | None:
    """A number that is spelt in ASCII; None if its exponent cannot be reckoned with.

    >>> [canonical_number(text) for text in ("0012.50", "1200", "1e999999999", "-0")]
    ['12.5', '1200', '1e999999999', '0']
    """
    found = _NUMBER.fullmatch(text)
    assert found is not None
    sign, left, right, power = found.groups()
    right = (right or "").rstrip("0")
    digits = (left + right).lstrip("0")
    if power is not None and len(power) > _MOST_EXPONENT:
        return None
    exponent = int(power or "0") - len(right)
    if whole and exponent < 0:
        digits, exponent = digits[: max(len(digits) + exponent, 0)], 0
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    if not kept:
        return "0"
    minus = "-" if sign == "-" else ""
    if exponent >= 0 and len(kept) + exponent <= MOST_DIGITS:
        return f"{minus}{kept}{'0' * exponent}"
    if -MOST_DIGITS < exponent < 0 and max(len(kept), 1 - exponent) <= MOST_DIGITS:
        padded = kept.rjust(1 - exponent, "0")
        return f"{minus}{padded[:exponent]}.{padded[exponent:]}"
    return f"{minus}{kept}e{exponent}"


def canonical_instant(seconds: int, fraction: str) -> str:
    """A moment, by its seconds since 1970 in UTC and the decimal digits of a part of a second."""
    fraction = fraction.rstrip("0")
    return f"@{seconds}.{fraction}" if fraction else f"@{seconds}"


def _clean(text: str, *, fold: bool) -> str:
    """Text as it shows: what folds, composes or vanishes does so until nothing changes any more."""
    for _ in range(_ROUNDS):
        before = text
        text = unicodedata.normalize("NFKC", text)
        if not text.isprintable():
            text = "".join(character for character in text if _shows(character))
        text = _DASHES.sub("-", _INVISIBLE.sub("", text))
        if not text.isascii():
            text = _DIGIT.sub(_ascii_digit, text)
        if fold:
            # By way of capitals, which the Turkish i without a dot shares with i; a dot of its own is none.
            text = text.upper().casefold().replace("i\u0307", "i")
        if text == before:
            break
    return " ".join(text.split())


def _shows(character: str) -> bool:
    category = unicodedata.category(character)
    return category != "Cf" and (category != "Cc" or character.isspace())


def _ascii_digit(found: re.Match[str]) -> str:
    return str(unicodedata.decimal(found.group()))


def _uuid(text: str, *, whole: bool) -> str | None:
    """A UUID in the usual spelling, or as the number that its digits are."""
    if len(text) < 32 or len(text) > 47:
        return None
    inner = text.lower().removeprefix("urn:uuid:")
    if inner[0] + inner[-1] in ("{}", "()"):
        inner = inner[1:-1]
    found = _UUID.fullmatch(inner)
    if found is None:
        return None
    digits = "".join(part for at, part in enumerate(found.groups()) if at != 1)
    if _NUMBER.fullmatch(digits):
        return canonical_number(digits, whole=whole)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _instant(text: str) -> str | None:
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, hour, minute, second, fraction, zone, sign, east_hours, east_minutes = found.groups()
    try:
        days = dt.date(int(year), int(month), int(day)).toordinal() - _EPOCH
        clock = dt.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    seconds = days * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second
    if zone is not None and sign is not None:
        east = int(east_hours) * 3600 + int(east_minutes or 0) * 60
        seconds += east if sign == "-" else -east
    return canonical_instant(seconds, fraction or "")


def _time(text: str) -> str | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second, fraction = found.groups()
    try:
        clock = dt.time(int(hour), int(minute), int(second or 0))
    except ValueError:
        return None
    part = (fraction or "").rstrip("0")
    return f"{clock.isoformat()}.{part}" if part else clock.isoformat()
