"""Profile of a column of a sample: kind, count and range of its values."""

from collections import Counter
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.schema.column import FINE, as_text, distinct, is_text
from castleguard.schema.grid import Kind, resolution
from castleguard.schema.numbers import read_numbers

READABLE = 0.9  # share of values that must be numbers for a numeric column
MANY = 20  # rows: so many numbers do not increase by chance
ONE_DAY = 86_400_000_000  # microseconds

Values = NDArray[np.float64]


class Profile(NamedTuple):
    """One column of a sample."""

    name: str
    rows: int
    """Number of values that are not missing."""
    kind: Kind | Literal["text", "nothing"]
    labels: Counter[str]
    """Count of each text; empty if values have no text form."""
    values: Values
    """Numbers, dates or timestamps in coded units."""

    @property
    def distinct(self) -> int:
        """Number of distinct values."""
        return len(self.labels)

    @property
    def readable(self) -> float:
        """Share of values of the column's kind."""
        return self.values.size / self.rows if self.values.size else 1.0

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool(np.all(self.values == np.rint(self.values)))

    @property
    def counts_up(self) -> bool:
        """Whether the values are whole numbers in increasing order."""
        return self.kind == "number" and self.rows >= MANY and self.whole and bool(np.all(np.diff(self.values) > 0))

    @property
    def finest(self) -> float:
        """The common spacing of the values; 0 without one."""
        return resolution(self.values) or 0.0


def profile_column(name: str, column: pa.ChunkedArray) -> Profile:
    """Profile a column, read as the decoder reads it."""
    nothing = Profile(name, 0, "nothing", Counter(), np.empty(0))
    try:
        found = distinct(column)
        array = found.values if found.rows is None else found.values.take(pa.array(found.rows))
        text = as_text(array)
    except pa.ArrowException:
        return nothing
    if text is None:
        return nothing
    present = array.filter(text.is_valid())
    counts = pc.value_counts(text.drop_null())
    labels = Counter({entry["values"].as_py(): entry["counts"].as_py() for entry in counts})
    if not labels:
        return nothing
    if not _is_code(array.type, labels):
        for kind in ("number", "timestamp"):
            read = read_numbers(present, kind)
            good = read.values[read.problem == FINE]
            if good.size >= READABLE * len(present):
                return Profile(name, len(present), *_times_or_numbers(kind, labels, good))
    return Profile(name, len(present), "text", labels, np.empty(0))


def _times_or_numbers(kind: str, labels: Counter[str], values: Values) -> tuple[Kind, Counter[str], Values]:
    if kind == "number":
        return "number", labels, values
    if np.all(values % ONE_DAY == 0):
        return "date", labels, values // ONE_DAY
    return "timestamp", labels, values


def _is_code(kind: pa.DataType, labels: Counter[str]) -> bool:
    """Whether the column holds codes, not quantities: 01067 is a postcode."""
    return is_text(kind) and any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in labels)
