"""Noise on every value of a row (strict CASTLEGUARD): discrete Laplace on public grids, randomised response for the
rest. Each column is epsilon-locally private by itself, a row by the sum. See docs/proofs/local.md.

A value is first made a level (`schema/levels.py`). Only levels are randomised, with integers throughout.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.state import Arrays
from castleguard.privacy.budget import Shares
from castleguard.privacy.mechanisms import DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise
from castleguard.schema.cells import cell_starts
from castleguard.schema.coded import CodedRows
from castleguard.schema.levels import Levels, check_domain, check_labels, label_counts, role_levels
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema


class LocalNoise:
    """Randomises the rows of one stream. `shares` has the epsilon of every quasi-identifier and sensitive column.

    Without `numbers` only what is no number is randomised: for paper-mode DOCA, which has noise of its own for those.
    With `cells` a noisy number is handed on as the lower edge of its cell, for an engine that publishes cells: the last
    level then lies in the last cell. Without, it is the grid point itself.
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
        """Noisy rows; row i has arrival number first + i. Of a row that is not present nothing stays."""
        levels = self._to_levels(rows)
        self._noise.randomise(levels, first, present)
        levels[~present] = 0
        quasi = rows.quasi.copy()
        quasi[~present] = 0.0
        for at, (column, role) in enumerate(self._roles):
            quasi[:, column] = self._coded(role, levels[:, at])
        return CodedRows(quasi, rows.person, levels[:, len(self._roles) :].copy(), rows.to_root)

    def snapshot(self) -> Arrays:
        """The generator's state."""
        return self._noise.snapshot()

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Continue from a snapshot."""
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
    """What randomises each column; without `numbers` each that is none."""
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
