"""The gate's own running distribution of sensitive values, counted from the decoded rows.

It shares no code with the engine's reference, and contains the rows up to the moment at which a group was decided.
See docs/proofs/criteria.md.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.closeness import Closeness, Shares

Codes = NDArray[np.int64]  # (rows, sensitive columns), each a value of its column


class Reference:
    """Weights of the values of each sensitive column over the rows so far; `public` shares never change."""

    def __init__(self, closeness: Closeness, sizes: list[int], public: list[Shares]) -> None:
        self._closeness = closeness
        self._sizes = sizes
        self._public = public
        self._weights = np.zeros((len(sizes), max(sizes)))
        self._total = 0.0
        self._recent = np.zeros((closeness.window or 0, len(sizes)), dtype=np.int64)
        self.rows = 0
        """Rows counted so far."""

    @property
    def is_burnt_in(self) -> bool:
        """Whether the burn-in is over."""
        return self.rows >= self._closeness.chosen_burn_in()

    def count(self, codes: Codes) -> None:
        """Count rows in their order."""
        window = self._recent.shape[0]
        if self._closeness.reference == "window":
            for at in range(0, len(codes), window):
                self._count_recent(codes[at : at + window], self.rows + at)
        elif self._closeness.reference != "public":
            decay = 1.0 if self._closeness.decay is None else self._closeness.decay
            ages = decay ** np.arange(len(codes) - 1, -1, -1, dtype=np.float64)
            self._weights *= decay ** len(codes)
            self._add(codes, ages)
            self._total = self._total * decay ** len(codes) + float(ages.sum())
        self.rows += len(codes)

    def shares(self, column: int) -> Shares:
        """Current distribution of a column's values."""
        if self._public:
            return self._public[column]
        size, alpha = self._sizes[column], self._closeness.alpha
        smoothed: Shares = (self._weights[column, :size] + alpha) / (self._total + alpha * size)
        return smoothed

    def snapshot(self) -> dict[str, NDArray[np.float64] | Codes]:
        """The whole state."""
        return {
            "weights": self._weights.copy(),
            "recent": self._recent.copy(),
            "referred": np.array([self._total, float(self.rows)]),
        }

    def restore(self, arrays: dict[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Restore from a snapshot."""
        self._weights = arrays["weights"].copy()
        self._recent = arrays["recent"].copy()
        self._total, self.rows = float(arrays["referred"][0]), int(arrays["referred"][1])

    def _count_recent(self, codes: Codes, first: int) -> None:
        """Count at most a window of rows, each replacing the row that leaves the window."""
        number = first + np.arange(len(codes))
        place = number % self._recent.shape[0]
        leaving = self._recent[place[number >= self._recent.shape[0]]]
        self._add(leaving, np.full(len(leaving), -1.0))
        self._add(codes, np.ones(len(codes)))
        self._recent[place] = codes
        self._total += len(codes) - len(leaving)

    def _add(self, codes: Codes, weights: NDArray[np.float64]) -> None:
        for column in range(len(self._sizes)):
            self._weights[column] += np.bincount(codes[:, column], weights, minlength=self._weights.shape[1])
