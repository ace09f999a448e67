"""Find the rows inside each of many published boxes."""

import numpy as np

from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes


class RowsInside:
    """Search for the rows inside the box of a group: a sorted range over its narrowest side, then all other sides."""

    def __init__(self, sides: tuple[Side, ...], groups: Codes, originals: Originals) -> None:
        usable = np.flatnonzero(~originals.rejected)
        self.persons, self._to_root = originals.persons[usable], originals.to_root[usable]
        self._values = [column[usable] for column in originals.values]
        _, first = np.unique(groups, return_index=True)
        self.count = first.size
        self._low, self._high = ([getattr(side, end)[first] for side in sides] for end in ("low", "largest"))
        self._widest = np.logical_and.reduce([side.is_widest()[first] for side in sides])
        # Missing values are NaN, which sorts to the end, beyond every bound.
        self._order = [np.argsort(column, kind="stable") for column in self._values]
        ranges = []
        for column, order, low, high in zip(self._values, self._order, self._low, self._high, strict=True):
            ordered = column[order]
            ranges.append((np.searchsorted(ordered, low), np.searchsorted(ordered, high, side="right")))
        sizes = np.array([stop - start for start, stop in ranges])
        self._best = np.argmin(sizes, axis=0) if self.count else np.zeros(0, np.int64)
        self._cost = np.where(self._widest, usable.size, sizes.min(axis=0)) if self.count else np.zeros(0, np.int64)
        self._ranges = ranges

    def choose(self, most_pairs: int) -> Codes:
        """All groups, or an evenly spaced sample that needs at most `most_pairs` comparisons."""
        stride = -(-int(self._cost.sum()) // most_pairs)
        return np.arange(0, self.count, max(stride, 1))

    def inside(self, group: int) -> Codes:
        """Rows whose values all lie in the box of a group; at the root, also rows without usable values."""
        if self._widest[group]:
            return np.arange(self.persons.size)
        best = int(self._best[group])
        start, stop = (edge[group] for edge in self._ranges[best])
        rows: Codes = self._order[best][start:stop]
        for at, column in enumerate(self._values):
            if at != best:
                rows = rows[(self._low[at][group] <= column[rows]) & (column[rows] <= self._high[at][group])]
        return rows[~self._to_root[rows]]
