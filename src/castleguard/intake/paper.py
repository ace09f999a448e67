"""CASTLEGUARD's perturb as printed (Algorithm 2): Laplace noise scaled by the range seen so far. For experiments.

The first row of a stream is not perturbed at all, and an extreme value changes the noise of all later rows: see
docs/concepts/castleguard.md for the consequences. Sensitive values are not perturbed.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import PURPOSES, Draws, new_words
from castleguard.kernels.perturb import Ranges, perturb_rows
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, Schema


class PaperNoise:
    """Perturbs the quasi-identifiers of one stream by Laplace(R / phi); `range_floor`: smallest R."""

    def __init__(self, schema: Schema, *, phi: float, range_floor: float, key: NDArray[np.uint32]) -> None:
        self._phi = phi
        self._floor = range_floor
        roles = schema.quasi_identifiers
        limits = np.full((2, len(roles)), np.nan)
        for at, role in enumerate(roles):
            if isinstance(role, Numeric):
                limits[:, at] = role.domain or (np.nan, np.nan)
            else:
                limits[:, at] = (0, len(role.hierarchy.leaves) - 1)
        self._ranges = Ranges(
            seen=np.repeat(np.array([[np.inf], [-np.inf]]), len(roles), axis=1),
            limits=limits,
            leaves=np.array([not isinstance(role, Numeric) for role in roles]),
        )
        self._draws = Draws(new_words(key), *np.full((3, PURPOSES), -1, dtype=np.int64))

    def apply(self, rows: CodedRows, first: int, present: NDArray[np.bool_]) -> CodedRows:
        """Perturbed rows; row i has arrival number first + i. Rows that are not present do not change the range."""
        quasi = rows.quasi.copy()
        perturb_rows(self._draws, self._ranges, quasi, ~present | rows.to_root, self._phi, self._floor, first)
        quasi[~present] = 0.0
        return rows._replace(quasi=quasi)

    def snapshot(self) -> Arrays:
        """State of the generator, and the ranges seen."""
        draws = self._draws
        return {
            "seen": self._ranges.seen.copy(),
            "words": draws.words.copy(),
            "drawn": np.stack([draws.position, draws.number, draws.drawn]),
        }

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Restore from a snapshot."""
        self._ranges.seen[...] = arrays["seen"]
        self._draws = Draws(arrays["words"].copy(), *(row.copy() for row in arrays["drawn"]))
