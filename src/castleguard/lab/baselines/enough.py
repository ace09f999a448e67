"""The criterion of the methods of comparison: k persons, and l values of every sensitive column."""

from dataclasses import dataclass

import numpy as np

from castleguard.lab.baselines.coded_boxes import Coded, Codes
from castleguard.privacy.parameters import check_count


@dataclass(frozen=True)
class Enough:
    """Counts persons and values of groups of rows."""

    coded: Coded
    k: int
    l: int

    def __post_init__(self) -> None:
        check_count("k", self.k, least=1)
        check_count("l", self.l, least=1)

    def __call__(self, rows: Codes) -> bool:
        """Whether these rows may share a box."""
        return rows.size >= self.k and self.persons(rows) >= self.k and not self.lacks_values(rows)

    def persons(self, rows: Codes) -> int:
        """Distinct persons of these rows; a missing person (-1) does not count."""
        # With one row per person a count suffices, which saves most of the time.
        if self.coded.is_one_row_each:
            return int(rows.size)
        return int(np.count_nonzero(np.unique(self.coded.persons[rows]) >= 0))

    def lacks_values(self, rows: Codes) -> bool:
        """Whether a sensitive column has fewer than l distinct values."""
        if self.l == 1:
            return False
        codes = self.coded.rows.sensitive[rows]
        return any(np.unique(codes[:, at]).size < self.l for at in range(codes.shape[1]))
