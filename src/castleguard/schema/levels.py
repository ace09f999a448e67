"""Values as levels: whole numbers from 0 to a public maximum, which is what exact noise is made for.

The level of a number is its nearest grid point, of a category its leaf, of a sensitive value its place among the
declared ones, with one more for what is missing.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema

Levels = NDArray[np.int64]  # (rows, quasi-identifiers, then sensitive columns)


def levels_of(schema: Schema, rows: CodedRows) -> Levels:
    """The levels of all columns."""
    quasi = [role_levels(role, rows.quasi[:, at]) for at, role in enumerate(schema.quasi_identifiers)]
    return np.column_stack([*quasi, rows.sensitive])


def role_levels(role: QuasiIdentifier, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The levels of one quasi-identifier's coded values."""
    return numeric_levels(role, values) if isinstance(role, Numeric) else values.astype(np.int64)


def label_counts(schema: Schema) -> dict[str, int]:
    """How many levels every column has that is no number."""
    leaves = {
        role.name: len(role.hierarchy.leaves) for role in schema.quasi_identifiers if not isinstance(role, Numeric)
    }
    return leaves | {column.name: len(column.labels or ()) + 1 for column in schema.sensitive}


def numeric_levels(role: Numeric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of the grid point nearest to each value, halves up; whatever the value, it is one of the grid's."""
    assert role.domain is not None
    edges, cells = role.edges, role.edges.size - 1
    if cells == 0:
        return np.zeros(values.size, dtype=np.int64)
    with np.errstate(over="ignore"):  # beyond a float64 is beyond the grid, and a warning would tell of a value
        nearest = np.clip(np.floor((values - role.domain[0]) / _spacing(role) + 0.5), 0, cells - 1)
        # The last cell may be shorter than the others.
        last = values - edges[-2] >= edges[-1] - values
    return np.where(last, cells, nearest).astype(np.int64)


def numeric_means(role: Numeric, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of levels in the column's own units, coded."""
    assert role.domain is not None
    if role.edges.size == 1:
        return np.full(levels.size, role.domain[0])
    return np.minimum(role.domain[0] + _spacing(role) * levels, role.domain[1])


def check_declared(schema: Schema) -> None:
    """Refuse a column whose values are not declared: noise must not depend on the data."""
    for role in schema.quasi_identifiers:
        check_domain(role)
    check_labels(schema)


def check_domain(role: QuasiIdentifier) -> None:
    """Refuse a number without a declared range."""
    if isinstance(role, Numeric) and role.domain is None:
        raise SchemaError(
            f"column {role.name!r}: lower and upper are needed: the noise is made for a public range, and one that "
            f"is observed gives values away"
        )


def check_labels(schema: Schema) -> None:
    """Refuse a sensitive column whose values are not declared."""
    for column in schema.sensitive:
        if column.labels is None:
            raise SchemaError(
                f"column {column.name!r}: its values must be declared, because it is randomised among them: "
                f"Sensitive({column.name!r}, values=[...]), bins=[...] for numbers, or hierarchy=..."
            )


def _spacing(role: Numeric) -> float:
    assert role.grid is not None
    return float(role.grid.step)
