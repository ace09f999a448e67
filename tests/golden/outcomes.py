"""What a case published and counted, and its digests: values, order, types and books apart."""

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_DIGITS = 32  # hexadecimal ones of a SHA-256

BOOKS = (
    "rows_in",
    "published",
    "suppressed",
    "sampled_out",
    "over_budget",
    "rejected",
    "clamped",
    "handed_over",
    "undecided",
    "pending",
    "at_root",
    "reused",
    "gate_refused",
    "received",
    "groups",
    "information_loss",
    "oldest_wait",
    "open_clusters",
    "threshold",
)
"""The numbers of a report that are compared. One that is added later changes no digest."""


@dataclass
class Outcome:
    """Published rows, piece by piece, and books."""

    pieces: list[list[str]] = field(default_factory=list)
    """Rows as text. How rows are spread over calls is part of their order."""
    columns: list[list[str]] = field(default_factory=list)
    """Names and types of the pieces; equal neighbours are kept once."""
    books: list[Any] = field(default_factory=list)

    def add_table(self, table: pa.Table) -> None:
        """Rows as a call returned them."""
        columns = [f"{column.name}: {column.type}" for column in table.schema]
        values = [[_text(value) for value in column.to_pylist()] for column in table.columns]
        rows = ["\t".join(row) for row in zip(*values, strict=True)] if values else [""] * table.num_rows
        self.add_rows(columns, rows)

    def add_rows(self, columns: list[str], rows: list[str]) -> None:
        """Rows that are text."""
        self.pieces.append(rows)
        if not self.columns or self.columns[-1] != columns:
            self.columns.append(columns)

    def join(self) -> None:
        """Forget the pieces: where a job cuts its output depends on the time that it takes."""
        self.pieces = [[row for piece in self.pieces for row in piece]]

    def add_report(self, report: Any) -> None:
        """The books of a stream, or of a job: a value or a mapping."""
        found = report if isinstance(report, Mapping) else dataclasses.asdict(report)
        self.books.append({name: found[name] for name in BOOKS})

    @property
    def rows(self) -> list[str]:
        """All rows in their order."""
        return [row for piece in self.pieces for row in piece]


@dataclass(frozen=True)
class Digests:
    """A case in short."""

    rows: str
    """Published rows, in any order."""
    order: str
    """Published rows in their order, and the number that each call returned."""
    types: str
    """Names and types of all columns."""
    books: str
    count: int
    """Published rows."""


def digests_of(outcome: Outcome) -> Digests:
    """The digests of a case."""
    return Digests(
        rows=_digest(sorted(outcome.rows)),
        order=_digest([*outcome.rows, *(str(len(piece)) for piece in outcome.pieces)]),
        types=_digest(column for columns in outcome.columns for column in [*columns, ""]),
        books=_digest([json.dumps(outcome.books, sort_keys=True, default=_text)]),
        count=len(outcome.rows),
    )


def _digest(texts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        found.update(len(encoded).to_bytes(8, "little") + encoded)
    return found.hexdigest()[:_DIGITS]


def _text(value: object) -> str:
    """A value in one spelling that tells its type and every bit of it."""
    if isinstance(value, float):
        return f"float {value.hex()}"
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return f"{type(value).__name__} {value.isoformat()}"
    return f"{type(value).__name__} {value!r}"
