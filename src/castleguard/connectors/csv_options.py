"""How CSV is written: the `csv` section of a sink."""

from dataclasses import dataclass, fields
from typing import Any

from castleguard.connectors.base import Unfit
from castleguard.connectors.formulas import Formulas, formulas_in


@dataclass(frozen=True, kw_only=True)
class CsvOutput:
    """How CSV is written."""

    formulas: Formulas = "escape"
    """What becomes of text that a spreadsheet would run, since it begins with = + - @, a tab or a line end: escape (an
    apostrophe before it), refuse (its row is rejected) or keep. Numbers are never changed."""

    def __str__(self) -> str:
        """What differs from the defaults: the identity of a job, which a new key with a default must not change."""
        return ", ".join(
            f"{field.name}: {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )

    def unfit(self) -> Unfit | None:
        """Which values of a column are not to be written, as a function; None: all are."""
        return formulas_in if self.formulas == "refuse" else None


DEFAULT = CsvOutput()


def csv_of(options: Any) -> CsvOutput | None:
    """How a sink with these options writes CSV; None: it does not."""
    csv = getattr(options, "csv", None)
    return csv if isinstance(csv, CsvOutput) and getattr(options, "format", "csv") == "csv" else None


def unfit_for_csv(options: Any) -> Unfit | None:
    """Which values a sink with these options is not to write; None: it writes all."""
    csv = csv_of(options)
    return None if csv is None else csv.unfit()


def check_csv_section(format: str, csv: CsvOutput) -> None:
    """Raise ValueError for a section that would do nothing."""
    if format != "csv" and csv != DEFAULT:
        raise ValueError(f"csv is for format csv, and this one is {format}: delete it")
