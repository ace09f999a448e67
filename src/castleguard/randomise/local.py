"""Noise on every value of a row (strict CASTLEGUARD): discrete Laplace on public grids, randomised response for the
rest. Each column is epsilon-locally private by itself, a row by the sum. See docs/proofs/local.md.

A value is first made a level, a whole number from 0 to a public maximum: the nearest grid point of a number, the leaf
of a category, the place of a sensitive value among the declared ones (one more for what is missing). Only levels are
randomised, with integers throughout.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.kernels.state import Arrays
from castleguard.privacy.budget import Shares
from castleguard.privacy.mechanisms import DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, Schema

Levels = NDArray[np.int64]  # (rows, quasi-identifiers, then sensitive columns)


class LocalNoise:
    """Randomises the rows of one stream. `shares` has the epsilon of every quasi-identifier and sensitive column."""

    def __init__(self, schema: Schema, shares: Shares, *, key: NDArray[np.uint32]) -> None:
        check_domains(schema)
        self._schema = schema
        self._noise = Noise(mechanisms(schema, shares), key=key)

    def apply(self, rows: CodedRows, first: int, present: NDArray[np.bool_]) -> CodedRows:
        """Noisy rows; row i has arrival number first + i. Of a row that is not present nothing stays."""
        levels = self._to_levels(rows)
        self._noise.randomise(levels, first, present)
        levels[~present] = 0
        columns = len(self._schema.quasi_identifiers)
        return CodedRows(self._from_levels(levels), rows.person, levels[:, columns:].copy(), rows.to_root)

    def snapshot(self) -> Arrays:
        """The generator's state."""
        return self._noise.snapshot()

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Continue from a snapshot."""
        self._noise.restore(arrays)

    def _to_levels(self, rows: CodedRows) -> Levels:
        columns = len(self._schema.quasi_identifiers)
        levels = np.empty((rows.person.size, columns + len(self._schema.sensitive)), dtype=np.int64)
        for at, role in enumerate(self._schema.quasi_identifiers):
            levels[:, at] = numeric_levels(role, rows.quasi[:, at]) if isinstance(role, Numeric) else rows.quasi[:, at]
        levels[:, columns:] = rows.sensitive
        return levels

    def _from_levels(self, levels: Levels) -> NDArray[np.float64]:
        quasi = np.empty((len(levels), len(self._schema.quasi_identifiers)))
        for at, role in enumerate(self._schema.quasi_identifiers):
            quasi[:, at] = role.edges[levels[:, at]] if isinstance(role, Numeric) else levels[:, at]
        return quasi


def numeric_levels(role: Numeric, values: NDArray[np.float64]) -> Levels:
    """The number of the grid point nearest to each value, halves up; whatever the value, it is one of the grid's."""
    assert role.domain is not None
    cells = role.edges.size - 1
    if cells == 0:
        return np.zeros(values.size, dtype=np.int64)
    # The spacing of the grid; a last cell that is shorter counts as a whole one.
    step = float(role.edges[1] - role.edges[0])
    nearest = np.floor((values - role.domain[0]) / step + 0.5)
    return np.clip(nearest, 0, cells).astype(np.int64)


def mechanisms(schema: Schema, shares: Shares) -> list[Mechanism]:
    """What randomises each column."""
    found: list[Mechanism] = []
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric):
            found.append(DiscreteLaplace(cells=role.edges.size - 1, epsilon=shares[role.name]))
        else:
            found.append(RandomisedResponse(values=len(role.hierarchy.leaves), epsilon=shares[role.name]))
    for column in schema.sensitive:
        found.append(RandomisedResponse(values=len(column.labels or ()) + 1, epsilon=shares[column.name]))
    return found


def check_domains(schema: Schema) -> None:
    """Refuse a column whose values are not declared: noise must not depend on the data."""
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"column {role.name!r}: lower and upper are needed: the noise is made for a public range, and one that "
                f"is observed gives values away"
            )
    for column in schema.sensitive:
        if column.labels is None:
            raise SchemaError(
                f"column {column.name!r}: its values must be declared, because it is randomised among them: "
                f"Sensitive({column.name!r}, values=[...]), bins=[...] for numbers, or hierarchy=..."
            )
