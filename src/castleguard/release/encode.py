"""Encode the published table: ranges or values for numbers, labels for categories, then the payload.

`Encoder` writes boxes; `PointEncoder` writes points, for engines that publish values instead of boxes (DOCA). Encoders
never get persons or positions, so these cannot be published.
"""

import datetime as dt
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive


def numeric_type(role: Numeric, *, exact: bool = False) -> pa.DataType:
    """Type of a numeric column's published values; `exact` values may be fractions even if the grid is integral."""
    if role.kind == "date":
        return pa.date32()
    if role.kind == "timestamp":
        aware = isinstance(role.lower, dt.datetime) and role.lower.tzinfo is not None
        return pa.timestamp("us", tz="UTC" if aware else None)
    return pa.int64() if role.integral and not exact else pa.float64()


def numeric_values(
    role: Numeric, kind: pa.DataType, coded: NDArray[np.float64], rows: NDArray[np.int64] | None = None
) -> pa.Array:
    """Coded numbers as values of type `kind`, those at `rows` or all; null where a number is not finite."""
    missing = ~np.isfinite(coded)
    values: NDArray[np.generic] = coded
    if kind != pa.float64():
        values = np.where(missing, 0.0, coded).astype(np.int32 if role.kind == "date" else np.int64)
    mask = missing if missing.any() else None
    if rows is not None:
        values, mask = values[rows], None if mask is None else mask[rows]
    return pa.array(values, mask=mask).cast(kind)


def sensitive_labels(role: Sensitive) -> pa.Array:
    """Public values of a sensitive column by code; the last is null, for a missing or unknown value."""
    labels = role.labels or ()
    whole = bool(labels) and all(isinstance(label, int) for label in labels)
    return pa.array([*labels, None], pa.int64() if whole else pa.string())


Numbers = Literal["bounds", "interval", "midpoint"]
"""Form of a published number: two columns `age_min` and `age_max`, one text `[20, 35]`, or the midpoint. In strict
modes the upper bound is included only at the end of the domain (`schema/cells.py`); in paper mode both bounds are."""

Boxes = NDArray[np.float64]  # (groups, columns)
Groups = NDArray[np.int64]  # (rows,)


class Encoder:
    """Encodes the boxes of one stream; names and types of the quasi-identifiers' columns never change."""

    def __init__(self, schema: Schema, *, numbers: Numbers = "bounds", exact: bool = False) -> None:
        if numbers not in get_args(Numbers):
            raise SchemaError(f"numbers must be 'bounds', 'interval' or 'midpoint', got {numbers!r}")
        self._columns = [
            _NumberColumn(role, numbers, exact=exact) if isinstance(role, Numeric) else _CategoryColumn(role)
            for role in schema.quasi_identifiers
        ]

    @property
    def fields(self) -> list[pa.Field]:
        """The published quasi-identifier columns."""
        return [field for column in self._columns for field in column.fields]

    def encode(self, lower: Boxes, upper: Boxes, group: Groups, payload: pa.Table) -> pa.Table:
        """One row per element of `group`: its box, then its payload."""
        arrays: list[pa.Array | pa.ChunkedArray] = []
        for number, column in enumerate(self._columns):
            arrays += column.encode(lower[:, number], upper[:, number], group)
        arrays += payload.columns
        return pa.table(arrays, schema=pa.schema([*self.fields, *payload.schema]))


class _NumberColumn:
    """A numeric quasi-identifier. `exact`: bounds are published as they are, not on a grid."""

    def __init__(self, role: Numeric, numbers: Numbers, *, exact: bool) -> None:
        self._role = role
        self._numbers = numbers
        self._type = numeric_type(role, exact=exact)
        if numbers == "bounds":
            self.fields = [pa.field(f"{role.name}_min", self._type), pa.field(f"{role.name}_max", self._type)]
        elif numbers == "interval":
            self.fields = [pa.field(role.name, pa.string())]
        else:
            self.fields = [pa.field(role.name, pa.float64() if role.kind == "number" else self._type)]

    def encode(self, lower: NDArray[np.float64], upper: NDArray[np.float64], group: Groups) -> list[pa.Array]:
        """The column's arrays; an infinite bound (the root of a column without a domain) is null."""
        if self._numbers == "bounds":
            return [self._values(lower, group), self._values(upper, group)]
        if self._numbers == "interval":
            low, high = self._values(lower, None).to_pylist(), self._values(upper, None).to_pylist()
            texts = ["*" if a is None else f"[{_text(a)}, {_text(b)}]" for a, b in zip(low, high, strict=True)]
            return [pa.array(texts, pa.string()).take(pa.array(group))]
        with np.errstate(invalid="ignore"):  # the midpoint of an infinite range is NaN and becomes null
            middle = lower + (upper - lower) / 2
        if self._role.kind == "number":
            return [pa.array(middle[group], mask=~np.isfinite(middle[group]))]
        return [self._values(np.floor(middle), group)]

    def _values(self, bounds: NDArray[np.float64], group: Groups | None) -> pa.Array:
        """Coded bounds as published values, one per row (or per group)."""
        return numeric_values(self._role, self._type, bounds, group)


class _CategoryColumn:
    """A categorical quasi-identifier."""

    def __init__(self, role: Categorical) -> None:
        self.fields = [pa.field(role.name, pa.string())]
        self._leaves = len(role.hierarchy.leaves)
        self._intervals, self._labels = _labels(role.hierarchy)

    def encode(self, lower: NDArray[np.float64], upper: NDArray[np.float64], group: Groups) -> list[pa.Array]:
        """Label of the node with these leaves."""
        node = np.searchsorted(self._intervals, lower * self._leaves + upper)
        return [self._labels.take(pa.array(node[group]))]


def _labels(tree: Hierarchy) -> tuple[NDArray[np.float64], pa.Array]:
    """Leaf intervals of all nodes, as first * leaves + last, and the label of the lowest node of each."""
    interval = tree.first_leaf.astype(np.float64) * len(tree.leaves) + tree.last_leaf
    # Nodes come in preorder, so the last node with an interval is the lowest.
    unique, last = np.unique(interval[::-1], return_index=True)
    return unique, pa.array([tree.labels[len(tree.labels) - 1 - at] for at in last], pa.string())


def _text(value: object) -> str:
    """A bound as text within an interval."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, dt.date | dt.datetime) else str(value)


Points = NDArray[np.float64]  # (rows, columns)

# Days and microseconds since 1970 of the years 1 to 9999, the range of Python's dates. The upper bound is the largest
# float64 in the year 9999: the microsecond that ends in 999999 would be rounded into the year 10000.
_CALENDAR = {"date": (-719162, 2932896), "timestamp": (-62135596800000000, 253402300799999968)}


class PointEncoder:
    """Encodes the points of one stream.

    `sensitive`: points contain the codes of sensitive columns, which replace those columns of the payload.
    """

    def __init__(self, schema: Schema, *, sensitive: bool) -> None:
        self._columns: list[_PointNumbers | _PointLabels] = []
        for role in schema.quasi_identifiers:
            if isinstance(role, Numeric):
                self._columns.append(_PointNumbers(role))
            else:
                self._columns.append(_PointLabels(role.name, pa.array(role.hierarchy.leaves, pa.string())))
        self.fields = [pa.field(column.name, column.kind) for column in self._columns]
        """The published quasi-identifier columns."""
        self._dropped = [role.name for role in schema.sensitive] if sensitive else []
        if sensitive:
            self._columns += [_PointLabels(role.name, sensitive_labels(role)) for role in schema.sensitive]

    def encode(self, points: Points, payload: pa.Table) -> pa.Table:
        """One row per point: its values, then its payload."""
        payload = payload.drop_columns(self._dropped)
        arrays = [column.encode(points[:, at]) for at, column in enumerate(self._columns)]
        fields = [pa.field(column.name, array.type) for column, array in zip(self._columns, arrays, strict=True)]
        return pa.table([*arrays, *payload.columns], schema=pa.schema([*fields, *payload.schema]))


class _PointNumbers:
    """A number, a date or a timestamp. A mean of integers may be a fraction."""

    def __init__(self, role: Numeric) -> None:
        self.name = role.name
        self._role = role
        self.kind = numeric_type(role, exact=True)

    def encode(self, coded: NDArray[np.float64]) -> pa.Array:
        """Coded numbers as published values."""
        if self._role.kind != "number":
            coded = np.clip(np.floor(coded), *_CALENDAR[self._role.kind])
        return numeric_values(self._role, self.kind, coded)


class _PointLabels:
    """A column whose points are indices of labels."""

    def __init__(self, name: str, labels: pa.Array) -> None:
        self.name, self.kind = name, labels.type
        self._labels = labels

    def encode(self, coded: NDArray[np.float64]) -> pa.Array:
        """Labels with these indices."""
        return self._labels.take(pa.array(coded.astype(np.int64)))
