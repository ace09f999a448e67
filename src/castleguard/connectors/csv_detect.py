"""Finds out how a CSV file is written, from its beginning and from places further on."""

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from castleguard.connectors.csv_input import CsvInput
from castleguard.errors import InputError

_PLACES = 8
_PLACE_BYTES = 1 << 16
_SEPARATORS = ",;\t|"
_MOST = 0.9  # share of a column's values that decides what it holds
_NULLS = frozenset(
    {"NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "None", "none", "-", "--", ".", "?", "\\N"}
)
_ALWAYS_NULL = frozenset({"N/A", "#N/A", "NULL", "\\N", "?"})
_DATE_FORMATS = tuple(
    f"{date}{time}"
    for date in (
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d-%m-%Y",
        "%Y/%m/%d",
        "%d.%m.%y",
        "%m/%d/%y",
        "%d/%m/%y",
        "%d %b %Y",
    )
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
)
_PLAIN_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_COMMA_NUMBER = re.compile(r"[-+]?\d*,\d+")
_GROUPED = {
    (",", "."): re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)?"),
    (".", ","): re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?"),
    (",", " "): re.compile(r"[-+]?\d{1,3}( \d{3})+(,\d+)?"),
    (".", "'"): re.compile(r"[-+]?\d{1,3}('\d{3})+(\.\d+)?"),
}


def detect_csv(path: Path) -> CsvInput:
    """The options that read this file; plain CSV where nothing speaks for another dialect. Raises InputError."""
    head, *places = _read_places(path)
    encoding = _encoding_of(head, places)
    lines = [line for place in (head, *places) for line in _whole_lines(place, encoding, is_head=place is head)]
    if not lines:
        return CsvInput(encoding=encoding)
    separator = _separator_of(lines)
    rows = list(csv.reader(lines, delimiter=separator))
    names, width = rows[0], len(rows[0])
    columns = list(zip(*(row for row in rows[1:] if len(row) == width), strict=True)) or [()] * width
    values = [[value.strip() for value in column if value.strip()] for column in columns]
    nulls = _nulls_of(values)
    values = [[value for value in column if value not in nulls] for column in values]
    decimal, thousands = _marks_of(values)
    formats = _formats_of(values)
    is_tsv = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    usual = "\t" if is_tsv else ","
    return CsvInput(
        separator=None if separator == usual else separator,
        encoding=encoding,
        header=not _is_row(names, values),
        null_values=sorted(nulls) or None,
        decimal=decimal,
        thousands=thousands,
        date_format=None if not formats else formats[0] if len(formats) == 1 else formats,
    )


def _read_places(path: Path) -> list[bytes]:
    """The beginning of the file, and the same number of bytes from places spread over the rest of it."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path, "rb") as file:
                return [file.read(_PLACES * _PLACE_BYTES)]
        size = path.stat().st_size
        with open(path, "rb") as file:
            starts = [size * number // _PLACES for number in range(_PLACES)]
            if size <= _PLACES * _PLACE_BYTES:
                return [file.read()]
            places = []
            for start in starts:
                file.seek(start - start % 4)  # a whole number of UTF-16 and UTF-32 units
                places.append(file.read(_PLACE_BYTES))
            return places
    except (OSError, EOFError, zlib.error) as exc:
        reason = (exc.strerror if isinstance(exc, OSError) else None) or "its compression is damaged"
        raise InputError(f"{path} cannot be read: {reason}") from exc


def _encoding_of(head: bytes, places: Sequence[bytes]) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for place in (head, *places):
        inner = place[4:-4] if places else place  # a place may begin and end inside a character
        try:
            inner.strip(bytes(range(0x80, 0xC0))).decode()
        except UnicodeDecodeError as exc:
            if exc.end < len(inner) - 4:
                return "cp1252"
    return "utf-8"


def _whole_lines(place: bytes, encoding: str, *, is_head: bool) -> list[str]:
    """The lines of a place without its first and last, which may be cut. The beginning of the file keeps its first."""
    codec = "utf-8-sig" if encoding == "utf-8" else encoding if is_head or encoding != "utf-16" else "utf-16-le"
    lines = place.decode(codec, errors="replace").splitlines()
    kept = lines if len(place) < _PLACE_BYTES else lines[:-1]
    return [line for line in (kept if is_head else kept[1:]) if line.strip()]


def _separator_of(lines: Sequence[str]) -> str:
    """The separator that divides most lines into the same number of values, and into the most of them."""

    def rank(separator: str) -> tuple[float, int]:
        widths = Counter(len(row) for row in csv.reader(lines[:500], delimiter=separator))
        width, count = widths.most_common(1)[0]
        return (count / sum(widths.values()) if width > 1 else 0.0), width

    ranked = {separator: rank(separator) for separator in _SEPARATORS}
    good = {separator: found for separator, found in ranked.items() if found[0] >= _MOST}
    if not good:
        return max(ranked, key=lambda separator: ranked[separator])
    head_width = {mark: len(next(csv.reader(lines[:1], delimiter=mark))) for mark in good}
    return max(good, key=lambda mark: (head_width[mark] == good[mark][1], good[mark][1]))


def _share(values: Sequence[str], matches: Iterable[bool]) -> float:
    return sum(matches) / len(values) if values else 0.0


def _is_number(value: str) -> bool:
    return _PLAIN_NUMBER.fullmatch(value) is not None or _COMMA_NUMBER.fullmatch(value) is not None


def _nulls_of(columns: Sequence[Sequence[str]]) -> set[str]:
    """Texts that stand for missing values: they interrupt a column of numbers or dates, or can mean nothing else."""
    found: set[str] = set()
    for values in columns:
        marks = _NULLS.intersection(values)
        found |= marks & _ALWAYS_NULL
        rest = [value for value in values if value not in _NULLS]
        if marks and rest and _share(rest, map(_is_value, rest)) >= _MOST:
            found |= marks
    return found


def _is_value(text: str) -> bool:
    return _is_number(text) or (text[:1].isdigit() and any(_reads(text, format) for format in _DATE_FORMATS[::5]))


def _marks_of(columns: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Decimal mark, and mark between groups of digits."""
    decimal = thousands = None
    for values in columns:
        comma = [value for value in values if _COMMA_NUMBER.fullmatch(value)]
        plain = [value for value in values if _PLAIN_NUMBER.fullmatch(value)]
        if comma and len(comma) + len(plain) >= _MOST * len(values):
            grouped = all(re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", value) for value in comma)
            if grouped and all(len(value.lstrip("+-")) <= 3 or "." in value for value in plain):
                thousands = thousands or ","  # 1,234 beside 7 and 950.5
            elif not any("." in value for value in plain):
                decimal = ","
        for (mark, group), pattern in _GROUPED.items():
            whole = [value for value in values if pattern.fullmatch(value)]
            several = [value for value in whole if value.count(group) > 1 or mark in value]
            numbers = len(whole) + sum(_is_number(value) for value in values if not pattern.fullmatch(value))
            if several and numbers >= _MOST * len(values):
                decimal, thousands = mark, group
    return (decimal or ".", "" if thousands == (decimal or ".") else thousands or "")


def _formats_of(columns: Sequence[Sequence[str]]) -> list[str]:
    """The formats of dates that are not ISO 8601. Where a day and a month cannot be told apart, the day comes first
    with points and dashes, and the month with slashes.
    """
    found: list[str] = []
    for values in columns:
        few = values[:400]
        if not few or not _share(few, (value[0].isdigit() and not _is_number(value) for value in few)) >= _MOST:
            continue
        for format in _DATE_FORMATS:
            if format not in found and _share(few, (_reads(value, format) for value in few)) >= _MOST:
                found.append(format)
                break
    return found


def _reads(text: str, format: str) -> bool:
    try:
        return datetime.strptime(text, format).year >= 1000
    except ValueError:
        return False


def _is_row(names: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether the first line is a row: it has a number or a date in a column of them."""
    return any(
        _is_value(name.strip()) and _share(values, map(_is_value, values)) >= _MOST
        for name, values in zip(names, columns, strict=True)
        if name.strip() and values
    )
