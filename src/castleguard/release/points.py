"""Encode points as the published table: a number under its column's own name, labels for categories.

For engines that publish values instead of boxes (DOCA). The encoder never gets persons or positions.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.release.encode import numeric_type, numeric_values, sensitive_labels
from castleguard.schema.roles import Numeric, Schema

Points = NDArray[np.float64]  # (rows, columns)

# Days and microseconds since 1970 of the years 1 to 9999, the range of Python's dates. The upper bound is the largest
# float64 in the year 9999: the microsecond that ends in 999999 would be rounded into the year 10000.
_RANGE = {"date": (-719162, 2932896), "timestamp": (-62135596800000000, 253402300799999968)}


class PointEncoder:
    """Encodes the points of one stream.

    `sensitive`: points contain the codes of sensitive columns, which replace those columns of the payload.
    """

    def __init__(self, schema: Schema, *, sensitive: bool) -> None:
        self._columns: list[_Numbers | _Labels] = []
        for role in schema.quasi_identifiers:
            if isinstance(role, Numeric):
                self._columns.append(_Numbers(role))
            else:
                self._columns.append(_Labels(role.name, pa.array(role.hierarchy.leaves, pa.string())))
        self.fields = [pa.field(column.name, column.kind) for column in self._columns]
        """The published quasi-identifier columns."""
        self._dropped = [role.name for role in schema.sensitive] if sensitive else []
        if sensitive:
            self._columns += [_Labels(role.name, sensitive_labels(role)) for role in schema.sensitive]

    def encode(self, points: Points, payload: pa.Table) -> pa.Table:
        """One row per point: its values, then its payload."""
        payload = payload.drop_columns(self._dropped)
        arrays = [column.encode(points[:, at]) for at, column in enumerate(self._columns)]
        fields = [pa.field(column.name, array.type) for column, array in zip(self._columns, arrays, strict=True)]
        return pa.table([*arrays, *payload.columns], schema=pa.schema([*fields, *payload.schema]))


class _Numbers:
    """A number, a date or a timestamp. A mean of integers may be a fraction."""

    def __init__(self, role: Numeric) -> None:
        self.name = role.name
        self._role = role
        self.kind = numeric_type(role, exact=True)

    def encode(self, coded: NDArray[np.float64]) -> pa.Array:
        """Coded numbers as published values."""
        if self._role.kind != "number":
            coded = np.clip(np.floor(coded), *_RANGE[self._role.kind])
        return numeric_values(self._role, self.kind, coded)


class _Labels:
    """A column whose points are indices of labels."""

    def __init__(self, name: str, labels: pa.Array) -> None:
        self.name, self.kind = name, labels.type
        self._labels = labels

    def encode(self, coded: NDArray[np.float64]) -> pa.Array:
        """Labels with these indices."""
        return self._labels.take(pa.array(coded.astype(np.int64)))
