"""From codes back to values that can be published: numbers, dates, timestamps, labels."""

import datetime as dt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.schema.roles import Numeric
from castleguard.schema.sensitive import Sensitive


def numeric_type(role: Numeric, *, exact: bool = False) -> pa.DataType:
    """The type of a numeric column's published values; `exact` values need not be whole where the grid is."""
    if role.kind == "date":
        return pa.date32()
    if role.kind == "timestamp":
        aware = isinstance(role.lower, dt.datetime) and role.lower.tzinfo is not None
        return pa.timestamp("us", tz="UTC" if aware else None)
    return pa.int64() if role.integral and not exact else pa.float64()


def numeric_values(
    role: Numeric, kind: pa.DataType, coded: NDArray[np.float64], rows: NDArray[np.int64] | None = None
) -> pa.Array:
    """Coded numbers as values of that type, or those that `rows` point at; null where a number is not finite."""
    missing = ~np.isfinite(coded)
    values: NDArray[np.generic] = coded
    if kind != pa.float64():
        values = np.where(missing, 0.0, coded).astype(np.int32 if role.kind == "date" else np.int64)
    mask = missing if missing.any() else None
    if rows is not None:
        values, mask = values[rows], None if mask is None else mask[rows]
    return pa.array(values, mask=mask).cast(kind)


def sensitive_labels(role: Sensitive) -> pa.Array:
    """The public values of a sensitive column by code; the last one is null: a missing or unknown value."""
    labels = role.labels or ()
    whole = bool(labels) and all(isinstance(label, int) for label in labels)
    return pa.array([*labels, None], pa.int64() if whole else pa.string())
