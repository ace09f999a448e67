"""Training examples for classifiers: lower and upper bound of every quasi-identifier, and a label.

CASTLEGUARD (section V-B) uses two features per attribute, its minimum and maximum. For an original value they are
equal. For a category they are the numbers of the first and last leaf under its node.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import UsageError
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.reading.values import Codes, column_of, comparable, numbers_of, texts_of
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive

MOST_CLASSES = 50
"""A label with more values counts as a number and is refused."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows for training or testing."""

    features: NDArray[np.float64]
    """(rows, 2 * attributes): minimum and maximum of every attribute; NaN for missing values."""
    labels: Codes
    """(rows,): class of every row; -1 if missing."""

    def __len__(self) -> int:
        return self.labels.size

    @property
    def complete(self) -> NDArray[np.bool_]:
        """True for rows without missing values."""
        whole: NDArray[np.bool_] = (self.labels >= 0) & ~np.isnan(self.features).any(axis=1)
        return whole

    def take(self, rows: Codes | NDArray[np.bool_]) -> "Examples":
        """Select rows."""
        return Examples(self.features[rows], self.labels[rows])


class Classes:
    """Numbering of the label's values across tables, in the order of their first occurrence."""

    def __init__(self, schema: Schema, name: str) -> None:
        roles = {role.name: role for role in schema.sensitive}
        if name not in roles and name not in schema.public:
            raise UsageError(f"the label {name!r} must be a sensitive or public column of the schema")
        self.name = name
        self._role = roles.get(name, Sensitive(name))
        self._numbers: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, table: pa.Table, which: str) -> Codes:
        """Class of every row; -1 if missing. With bins, a class is a bin."""
        texts, codes = texts_of(column_of(table, self.name, which))
        names: list[object] = [None if text is None else comparable(text) for text in texts]
        edges, labels = self._role.edges, self._role.labels
        if edges is not None and labels is not None:
            # The published value is the number, or the label of its bin if noise was added.
            values, _ = numbers_of(pa.chunked_array([texts], pa.string()), self._role.kind)
            bins = [None if np.isnan(value) else labels[int((value >= edges).sum())] for value in values]
            names = [text if text in labels else found for text, found in zip(texts, bins, strict=True)]
        found = [-1 if name is None else self._numbers.setdefault(name, len(self._numbers)) for name in names]
        if len(self._numbers) > MOST_CLASSES:
            raise UsageError(
                f"the label {self.name!r} has more than {MOST_CLASSES} values: declare bins or use another label"
            )
        classes: Codes = np.array(found, dtype=np.int64)[codes]
        return classes


def published_examples(published: pa.Table, schema: Schema, classes: Classes) -> Examples:
    """Published rows as examples."""
    sides = read_boxes(published, schema)
    features = np.stack([bound for side in sides for bound in (side.low, side.high)], axis=1)
    return Examples(features, classes.of(published, "published"))


def original_examples(original: pa.Table, schema: Schema, classes: Classes) -> Examples:
    """Original rows as examples: minimum and maximum are the value itself."""
    values = read_originals(original, schema).values
    features = np.stack([value for values_ in values for value in (values_, values_)], axis=1)
    return Examples(features, classes.of(original, "original"))
