"""Local noise on every value of a row (strict CASTLEGUARD).

Discrete Laplace for numbers on public grids, randomised response for the rest (papers: `privacy/mechanisms.py`). Each
column is epsilon-locally private with its own epsilon, a row with the sum. See docs/proofs/local.md.

A value is first mapped to a level (`schema/levels.py`). Only levels are randomised, in integer arithmetic.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.state import Arrays
from castleguard.privacy.epsilon_shares import Shares
from castleguard.privacy.mechanisms import DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise
from castleguard.schema.cells import cell_starts
from castleguard.schema.coded import CodedRows
from castleguard.schema.levels import Levels, check_domain, check_labels, label_counts, role_levels
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema


class LocalNoise:
    """Randomises the rows of one stream. `shares`: epsilon of every quasi-identifier and sensitive column.

    Without `numbers`, numeric columns are left alone: paper-mode DOCA adds its own noise to them. With `cells`, a
    noisy number is the lower edge of its cell, for engines that publish cells; the last level lies in the last cell.
    Without `cells` it is the grid point itself.
    """

    def __init__(
        self, schema: Schema, shares: Shares, *, key: NDArray[np.uint32], numbers: bool = True, cells: bool = False
    ) -> None:
        check_labels(schema)
        self._cells = cells
        self._roles = [
            (at, role) for at, role in enumerate(schema.quasi_identifiers) if numbers or not isinstance(role, Numeric)
        ]
        for _, role in self._roles:
            check_domain(role)
        self._noise = Noise(mechanisms(schema, shares, numbers=numbers), key=key)

    def apply(self, rows: CodedRows, first: int, present: NDArray[np.bool_]) -> CodedRows:
        """Noisy rows; row i has arrival number first + i. The values of rows that are not present are erased."""
        levels = self._to_levels(rows)
        self._noise.randomise(levels, first, present)
        levels[~present] = 0
        quasi = rows.quasi.copy()
        quasi[~present] = 0.0
        for at, (column, role) in enumerate(self._roles):
            quasi[:, column] = self._coded(role, levels[:, at])
        return CodedRows(quasi, rows.person, levels[:, len(self._roles) :].copy(), rows.to_root)

    def snapshot(self) -> Arrays:
        """State of the generator."""
        return self._noise.snapshot()

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Restore from a snapshot."""
        self._noise.restore(arrays)

    def _coded(self, role: QuasiIdentifier, levels: Levels) -> NDArray[np.float64]:
        if not isinstance(role, Numeric):
            return levels.astype(np.float64)
        points = role.edges[levels]
        return cell_starts(role.edges, points) if self._cells else points

    def _to_levels(self, rows: CodedRows) -> Levels:
        levels = np.empty((rows.person.size, len(self._roles) + rows.sensitive.shape[1]), dtype=np.int64)
        for at, (column, role) in enumerate(self._roles):
            levels[:, at] = role_levels(role, rows.quasi[:, column])
        levels[:, len(self._roles) :] = rows.sensitive
        return levels


def mechanisms(schema: Schema, shares: Shares, *, numbers: bool = True) -> list[Mechanism]:
    """Mechanism of each column; without `numbers`, of the columns that are not numeric."""
    found: list[Mechanism] = []
    labels = label_counts(schema)
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric):
            if numbers:
                found.append(DiscreteLaplace(cells=role.edges.size - 1, epsilon=shares[role.name]))
        else:
            found.append(RandomisedResponse(values=labels[role.name], epsilon=shares[role.name]))
    for column in schema.sensitive:
        found.append(RandomisedResponse(values=labels[column.name], epsilon=shares[column.name]))
    return found
