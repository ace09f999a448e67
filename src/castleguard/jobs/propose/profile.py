"""What a sample shows about one of its columns: the kind of its values, how many there are, how far they reach."""

from collections import Counter
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.schema.column import FINE, as_text, distinct, is_text
from castleguard.schema.grid import Kind, resolution
from castleguard.schema.numbers import read_numbers

READABLE = 0.9  # the share of values that must be numbers, for a column to be one of numbers
MANY = 20  # rows: so many numbers do not rise by chance
ONE_DAY = 86_400_000_000  # microseconds

Values = NDArray[np.float64]


class Profile(NamedTuple):
    """One column of a sample."""

    name: str
    rows: int
    """How many values are not missing."""
    kind: Kind | Literal["text", "nothing"]
    labels: Counter[str]
    """How often each text occurs; empty where a value has no text."""
    values: Values
    """In coded units, where they are numbers, dates or timestamps."""

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.labels)

    @property
    def readable(self) -> float:
        """The share of values that are of the column's kind."""
        return self.values.size / self.rows if self.values.size else 1.0

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool(np.all(self.values == np.rint(self.values)))

    @property
    def counts_up(self) -> bool:
        """Whether every value is a whole number above the one before it."""
        return self.kind == "number" and self.rows >= MANY and self.whole and bool(np.all(np.diff(self.values) > 0))

    @property
    def finest(self) -> float:
        """The spacing that the values have in common; 0 if they have none."""
        return resolution(self.values) or 0.0


def profile_column(name: str, column: pa.ChunkedArray) -> Profile:
    """Look at a column as the decoder would read it."""
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
    """Whether digits are no quantity: 01067 is a postcode."""
    return is_text(kind) and any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in labels)
