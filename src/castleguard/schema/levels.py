"""Levels of values: whole numbers from 0 to a public maximum, the input of the exact mechanisms.

The level of a number is its nearest grid point, of a category its leaf, of a sensitive value its index among the
declared ones, with one more level for a missing value.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema

Levels = NDArray[np.int64]  # (rows, quasi-identifiers, then sensitive columns)


def levels_of(schema: Schema, rows: CodedRows) -> Levels:
    """Levels of all columns."""
    quasi = [role_levels(role, rows.quasi[:, at]) for at, role in enumerate(schema.quasi_identifiers)]
    return np.column_stack([*quasi, rows.sensitive])


def role_levels(role: QuasiIdentifier, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Levels of one quasi-identifier's coded values."""
    return numeric_levels(role, values) if isinstance(role, Numeric) else values.astype(np.int64)


def label_counts(schema: Schema) -> dict[str, int]:
    """Number of levels of every column that is not numeric."""
    leaves = {
        role.name: len(role.hierarchy.leaves) for role in schema.quasi_identifiers if not isinstance(role, Numeric)
    }
    return leaves | {column.name: len(column.labels or ()) + 1 for column in schema.sensitive}


def numeric_levels(role: Numeric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index of the grid point nearest to each value, halves up; any value gets an index within the grid."""
    assert role.domain is not None
    edges, cells = role.edges, role.edges.size - 1
    if cells == 0:
        return np.zeros(values.size, dtype=np.int64)
    with np.errstate(over="ignore"):  # an overflow is beyond the grid, and a warning would reveal it
        nearest = np.clip(np.floor((values - role.domain[0]) / _spacing(role) + 0.5), 0, cells - 1)
        # The last cell may be shorter than the others.
        last = values - edges[-2] >= edges[-1] - values
    return np.where(last, cells, nearest).astype(np.int64)


def numeric_means(role: Numeric, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of levels in coded units of the column."""
    assert role.domain is not None
    if role.edges.size == 1:
        return np.full(levels.size, role.domain[0])
    return np.minimum(role.domain[0] + _spacing(role) * levels, role.domain[1])


def check_declared(schema: Schema) -> None:
    """Refuse columns without declared values: noise must not depend on the data."""
    for role in schema.quasi_identifiers:
        check_domain(role)
    check_labels(schema)


def check_domain(role: QuasiIdentifier) -> None:
    """Refuse a numeric column without a declared domain."""
    if isinstance(role, Numeric) and role.domain is None:
        raise SchemaError(
            f"column {role.name!r} needs lower and upper: noise is scaled to a public range, and an observed range "
            f"would reveal values"
        )


def check_labels(schema: Schema) -> None:
    """Refuse sensitive columns without declared values."""
    for column in schema.sensitive:
        if column.labels is None:
            raise SchemaError(
                f"column {column.name!r} needs declared values, because it is randomised among them: "
                f"Sensitive({column.name!r}, values=[...]), bins=[...] for numbers, or hierarchy=..."
            )


def _spacing(role: Numeric) -> float:
    assert role.grid is not None
    return float(role.grid.step)
