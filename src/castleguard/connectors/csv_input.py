"""Options of CSV input: the `csv` section of a source, for files that are not plain CSV."""

import codecs
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from castleguard.errors import InputError

_NOT_SEPARATORS = frozenset("\r\n\"'.+-_") | frozenset(map(chr, (*range(48, 58), *range(65, 91), *range(97, 123))))
_NAMES = {"tab": "\t", "space": " ", "none": ""}


@dataclass(frozen=True, kw_only=True)
class CsvInput:
    """How a CSV file is written. Without options: commas, double quotes, UTF-8, a header line, decimal points."""

    separator: str | None = None
    """Between two values: one ASCII character, or tab or space. Default: a tab in files that end in .tsv or .tab,
    otherwise a comma."""
    quote: str = '"'
    """Around values that contain separators or line ends: ", ' or none."""
    encoding: str = "utf-8"
    """Encoding of the file, such as latin-1, cp1252 or utf-16."""
    header: bool | list[str] = True
    """Whether the first line names the columns; or their names, from left to right, if no line does. false names them
    column_1, column_2 and so on."""
    null_values: list[str] | None = None
    """Texts that stand for a missing value, such as NA. An empty value is always missing."""
    decimal: str = "."
    """Decimal mark of numbers: . or ,"""
    thousands: str = ""
    """Mark between groups of three digits: . , ' or space."""
    date_format: list[str] | str | None = None
    """How dates and times are written, such as %d.%m.%Y or %m/%d/%Y %H:%M; several are tried in their order. Without
    it they are read as ISO 8601."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a dialect."""
        for name in ("separator", "quote", "thousands"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _NAMES.get(value, value))
        if self.separator is not None and (
            len(self.separator) != 1 or not self.separator.isascii() or self.separator in _NOT_SEPARATORS
        ):
            raise ValueError("separator must be one ASCII character that is not a letter, a digit, a quote or a sign")
        if self.quote not in ('"', "'", ""):
            raise ValueError("quote must be \", ' or none")
        if self.decimal not in (".", ","):
            raise ValueError("decimal must be . or ,")
        if self.thousands not in ("", ".", ",", "'", " ") or self.thousands == self.decimal:
            raise ValueError("thousands must be . , ' or space, and differ from decimal")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(
                f"encoding {self.encoding!r} is unknown; known are utf-8, latin-1, cp1252, utf-16"
            ) from None
        if any(zone in format for format in self.formats for zone in ("%z", "%Z")):
            raise ValueError("date_format cannot have a time zone: times with one are read as ISO 8601")
        if isinstance(self.header, list) and len(set(self.header)) != len(self.header):
            raise ValueError("header names a column twice")

    def __str__(self) -> str:
        """Keys that differ from their defaults: the identity of a job, which a new key must not change."""
        return ", ".join(f"{name}: {value!r}" for name, value in self.changed().items())

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {field.name: values[field.name] for field in fields(self) if values[field.name] != field.default}

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of dates, in the order in which they are tried."""
        given = self.date_format
        return () if given is None else (given,) if isinstance(given, str) else tuple(given)

    def separator_of(self, path: Path) -> str:
        """The separator of a file."""
        if self.separator is not None:
            return self.separator
        name = path.name.lower().removesuffix(".gz")
        return "\t" if name.endswith((".tsv", ".tab")) else ","


PLAIN = CsvInput()


def csv_input_of(options: Any) -> CsvInput:
    """The options of CSV input of a source with these options; plain CSV if it has none."""
    csv = getattr(options, "csv", None)
    return csv if isinstance(csv, CsvInput) else PLAIN


def parse_csv_input(pairs: tuple[str, ...]) -> CsvInput:
    """Options from texts such as "separator=;". Raises InputError.

    >>> parse_csv_input(("separator=;", "decimal=,")).changed()
    {'separator': ';', 'decimal': ','}
    """
    known = [field.name for field in fields(CsvInput)]
    given: dict[str, Any] = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found or key not in known:
            raise InputError(f"{pair!r} is not an option of CSV: write one of {', '.join(known)} as KEY=VALUE")
        if key == "header":
            given[key] = {"true": True, "false": False}.get(value.lower(), value.split(","))
        elif key in ("null_values", "date_format"):
            given[key] = [*given.get(key, []), value]
        else:
            given[key] = value
    try:
        return CsvInput(**given)
    except ValueError as exc:
        raise InputError(str(exc)) from None
