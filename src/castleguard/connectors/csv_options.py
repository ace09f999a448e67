"""Options of CSV output: the `csv` section of a sink."""

from dataclasses import dataclass, fields
from typing import Any

from castleguard.connectors.base import Unfit
from castleguard.connectors.formulas import Formulas, formulas_in


@dataclass(frozen=True, kw_only=True)
class CsvOutput:
    """Options of CSV output."""

    formulas: Formulas = "escape"
    """Text that a spreadsheet would run, because it begins with = + - @, a tab or a line end: escape (puts an
    apostrophe before it), refuse (rejects its row) or keep. Numbers are never changed."""

    def __str__(self) -> str:
        """Keys that differ from their defaults: the identity of a job, which a new key must not change."""
        return ", ".join(
            f"{field.name}: {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )

    def unfit(self) -> Unfit | None:
        """Function that finds the values that must not be written; None: all may be."""
        return formulas_in if self.formulas == "refuse" else None


DEFAULT = CsvOutput()


def csv_of(options: Any) -> CsvOutput | None:
    """The options of CSV output of a sink with these options; None if it does not write CSV."""
    csv = getattr(options, "csv", None)
    return csv if isinstance(csv, CsvOutput) and getattr(options, "format", "csv") == "csv" else None


def unfit_for_csv(options: Any) -> Unfit | None:
    """Function that finds the values that a sink with these options must not write; None: it writes all."""
    csv = csv_of(options)
    return None if csv is None else csv.unfit()


def check_csv_section(format: str, csv: CsvOutput) -> None:
    """Raise ValueError for a section that has no effect."""
    if format != "csv" and csv != DEFAULT:
        raise ValueError(f"csv has no effect with format {format}: delete it")
