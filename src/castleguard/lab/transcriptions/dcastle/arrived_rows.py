"""Rows that have arrived at one site of dCASTLE, by position. All are kept, because experiments look back at them."""

from collections.abc import Hashable

import numpy as np

from castleguard.lab.transcriptions.dcastle.space import Bounds


class Rows:
    """Positions are 0, 1, 2, ..."""

    def __init__(self, columns: int) -> None:
        self.points: Bounds = np.empty((columns, 256))  # (columns, at least as many as there are rows)
        self.persons: list[Hashable] = []
        self.values: list[Hashable] = []  # of the sensitive column that counts; None without one

    def __len__(self) -> int:
        return len(self.persons)

    def append(self, point: Bounds, person: Hashable, value: Hashable) -> int:
        """Add a row; return its position."""
        position = len(self.persons)
        if position == self.points.shape[1]:
            self.points = np.concatenate([self.points, self.points], axis=1)
        self.points[:, position] = point
        self.persons.append(person)
        self.values.append(value)
        return position
