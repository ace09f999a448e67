"""The canonical form of an identity: one text for all spellings of the same person or value.

    numbers     12, 12.0, "012", "+ 12", "1.2e1", full-width digits    12
                thousands separators, trailing minus: "1 234-"         -1234
    text        after NFKC, without invisible characters and outer
                blanks, runs of blanks as one; case folded or kept      jane doe
    UUIDs       16 bytes, any usual spelling, any case                  6ba7b810-9dad-11d1-80b4-00c04fd430c8
    days        dates, timestamps at midnight UTC and their text, the
                number of their digits                                  20200102
    moments     other timestamps and their text, in UTC (`canonical_times.py`)  @1577968200
    times       of day                                                  12:30:00
    booleans    and their names in any case, as numbers                 1

A number is its sign and digits: written out up to 40 digits, else without outer zeros and with an exponent. A UUID
whose hexadecimal digits read as a number is that number, so the form depends on the value alone, never on the rest of
the column. Where a spelling is ambiguous, two persons are counted as one rather than one as two.
"""

import re
import unicodedata

from castleguard.kernels.spelling_scan import MOST_DIGITS
from castleguard.schema.canonical_times import read_moment, read_time

# Invisible letters and marks besides the format characters (Cf): fillers, joiners, variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_SIGNS = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("`\u02bb\u02bc\u2018\u2019\u201b\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201f", '"')
    | {"\u066b": ".", "\u066c": ","}  # of Arabic numbers
)
_ACUTE = "\u00b4"  # typed for an apostrophe; NFKC would turn it into a blank
_DIGIT = re.compile(r"(?![0-9])\d")  # of other scripts
_NUMBER = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
_GROUPED = re.compile(r"[0-9]{1,3}(?P<mark>[ ,'])[0-9]{3}(?P<more>(?:(?P=mark)[0-9]{3})*)(?P<part>\.[0-9]*)?")
_COMMA = re.compile(r"(?![1-9][0-9]{0,2},[0-9]{3}$)[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")  # "1,234" is ambiguous
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_UUID = re.compile(r"([0-9a-f]{8})(-?)([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{12})")
_MOST_EXPONENT = 4000  # digits of the longest exponent that is read; longer ones are indistinguishable
_ROUNDS = 4
_TRUTHS = {"true": "1", "false": "0"}


def canonical(text: str, *, fold: bool, whole: bool = False) -> str | None:
    """Canonical form of a text; None if it is missing or not a number ("nan").

    `fold`: ignore case. `whole`: numbers count by their whole part.

    >>> [canonical(text, fold=True) for text in (" Jane\\u00a0 DOE\\ufeff", "-000", "1e20", "2020-01-02T00:00Z")]
    ['jane doe', '0', '100000000000000000000', '20200102']
    """
    clean = _clean(text, fold=fold)
    if not clean or _NO_NUMBER.fullmatch(clean):
        return None
    if any("0" <= character <= "9" for character in clean):
        if clean[0] in "0123456789+-.tT":
            number = _plain_number(clean)
            if number is not None:
                return canonical_number(number, whole=whole)
            moment = read_moment(clean) or read_time(clean)
            if moment is not None:
                return moment
        return _uuid(clean, whole=whole) or clean
    return _TRUTHS.get(clean.lower()) or _uuid(clean, whole=whole) or clean


def reads_as(text: str, kind: str) -> bool:
    """Whether a text is missing, or reads as a number ("number") or UUID ("uuid") in any spelling."""
    clean = _clean(text, fold=False)
    if not clean or _NO_NUMBER.fullmatch(clean):
        return True
    return _plain_number(clean) is not None if kind == "number" else _uuid(clean, whole=False) is not None


def canonical_number(text: str, *, whole: bool = False) -> str | None:
    """Canonical form of a number in ASCII; None if its exponent is too long.

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


def _plain_number(text: str) -> str | None:
    """A number with its sign in front, a decimal point, no blanks or separators; None if the text is not a number.

    "1,234" is left alone: it may be more than a thousand or less than two.
    """
    if _NUMBER.fullmatch(text):
        return text
    sign, digits = ("-", text[:-1].rstrip()) if text[-1] == "-" else ("", text)
    if not sign and text[0] in "+-":
        sign, digits = text[0], text[1:].lstrip()
    grouped = _GROUPED.fullmatch(digits)
    if grouped is not None and (grouped["mark"] != "," or grouped["more"] or grouped["part"]):
        digits = digits.replace(grouped["mark"], "")
    elif _COMMA.fullmatch(digits):
        digits = digits.replace(",", ".")
    return sign + digits if _NUMBER.fullmatch(sign + digits) else None


def _clean(text: str, *, fold: bool) -> str:
    """Text as it is displayed: normalised, composed and folded until nothing changes."""
    for _ in range(_ROUNDS):
        before = text
        text = unicodedata.normalize("NFKC", text.replace(_ACUTE, "'"))
        if not text.isprintable():
            text = "".join(character for character in text if _is_visible(character))
        text = _INVISIBLE.sub("", text).translate(_SIGNS)
        if not text.isascii():
            text = _DIGIT.sub(_ascii_digit, text)
        if fold:
            # Via capitals, which i shares with the Turkish dotless i; a combining dot above is dropped.
            text = text.upper().casefold().replace("i\u0307", "i")
        if text == before:
            break
    return " ".join(text.split())


def _is_visible(character: str) -> bool:
    category = unicodedata.category(character)
    return category != "Cf" and (category != "Cc" or character.isspace())


def _ascii_digit(found: re.Match[str]) -> str:
    return str(unicodedata.decimal(found.group()))


def _uuid(text: str, *, whole: bool) -> str | None:
    """A UUID in its usual spelling, or as a number if its digits read as one; None if the text is not a UUID."""
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
