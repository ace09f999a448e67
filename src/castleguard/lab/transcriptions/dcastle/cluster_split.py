"""dSplitCluster (4.9): rows of a cluster in parts of at least k persons with at least l sensitive values each."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from castleguard.lab.transcriptions.dcastle.arrived_rows import Rows
from castleguard.lab.transcriptions.dcastle.space import EPS, Bounds, Space

Pick = Callable[[str, int], int]  # purpose, n: a number in [0, n)
Positions = NDArray[np.int64]  # ascending


@dataclass(eq=False)
class Part:
    """A sub-cluster: its rows, and the smallest box around them."""

    rows: list[int]
    lower: Bounds
    upper: Bounds

    def take(self, points: Bounds, rows: Sequence[int]) -> None:
        """Add rows."""
        self.rows.extend(rows)
        self.lower = np.minimum(self.lower, points[:, rows].min(axis=1, initial=np.inf))
        self.upper = np.maximum(self.upper, points[:, rows].max(axis=1, initial=-np.inf))


@dataclass(frozen=True)
class Split:
    """Splits clusters of one site."""

    space: Space
    rows: Rows
    k: int
    l: int

    def __call__(self, positions: Sequence[int], pick: Pick) -> list[Part] | None:
        """The parts, their rows ascending; None if the rows that represent persons have too few values."""
        buckets = self._buckets(positions, pick)
        if len(buckets) < self.l:
            return None
        parts: list[Part] = []
        while len(buckets) >= self.l and (total := sum(bucket.size for bucket in buckets)) >= self.k:
            parts.append(self._fill(buckets, total, pick))
            buckets = [bucket for bucket in buckets if bucket.size]
        self._place_left_over(parts, [int(row) for bucket in buckets for row in bucket])
        self._place_others(parts, positions)
        for part in parts:
            part.rows.sort()
        return parts

    def _buckets(self, positions: Sequence[int], pick: Pick) -> list[Positions]:
        """Draw one row for each person; by sensitive value, in the order of their oldest rows."""
        by_person: dict[Hashable, list[int]] = {}
        for row in positions:
            by_person.setdefault(self.rows.persons[row], []).append(row)
        chosen = [rows[0] if len(rows) == 1 else rows[pick("person_row", len(rows))] for rows in by_person.values()]
        buckets: dict[Hashable, list[int]] = {}
        for row in sorted(chosen):
            buckets.setdefault(self.rows.values[row], []).append(row)
        return [np.array(bucket, dtype=np.int64) for bucket in buckets.values()]

    def _fill(self, buckets: list[Positions], total: int, pick: Pick) -> Part:
        """One part: a drawn row, and the nearest rows of every bucket in proportion to its share of k."""
        points = self.rows.points
        quotas = [-(-self.k * bucket.size // total) for bucket in buckets]
        chosen = pick("seed_bucket", len(buckets))
        at = pick("row_in_bucket", buckets[chosen].size)
        seed = int(buckets[chosen][at])
        buckets[chosen] = np.delete(buckets[chosen], at)
        quotas[chosen] -= 1
        part = Part([seed], points[:, seed].copy(), points[:, seed].copy())
        for number, quota in enumerate(quotas):
            bucket = buckets[number]
            if quota == 0 or bucket.size == 0:
                continue
            if quota < bucket.size:
                near = points[:, bucket]
                lower, upper = np.minimum(part.lower[:, None], near), np.maximum(part.upper[:, None], near)
                enlargements = self.space.losses(lower, upper) - self.space.loss(part.lower, part.upper)
                # Stable: equally near rows by position.
                order = np.argsort(enlargements, kind="stable")
                taken, buckets[number] = bucket[order[:quota]], np.sort(bucket[order[quota:]])
            else:
                taken, buckets[number] = bucket, bucket[:0]
            part.take(points, taken.tolist())
        return part

    def _place_left_over(self, parts: list[Part], left_over: Sequence[int]) -> None:
        """Assign every row to the first part that it enlarges least."""
        if not left_over:
            return
        lower = np.stack([part.lower for part in parts], axis=1)
        upper = np.stack([part.upper for part in parts], axis=1)
        loss = self.space.losses(lower, upper)
        for row in left_over:
            point = self.rows.points[:, row, None]
            low, high = np.minimum(lower, point), np.maximum(upper, point)
            grown = self.space.losses(low, high)
            enlargements = grown - loss
            at = int(np.flatnonzero(enlargements <= enlargements.min() + EPS)[0])
            lower[:, at], upper[:, at], loss[at] = low[:, at], high[:, at], grown[at]
            parts[at].rows.append(row)
        for at, part in enumerate(parts):
            part.lower, part.upper = lower[:, at], upper[:, at]

    def _place_others(self, parts: list[Part], positions: Sequence[int]) -> None:
        """Assign every further row to the part that has its person."""
        home = {self.rows.persons[row]: part for part in parts for row in part.rows}
        placed = {row for part in parts for row in part.rows}
        for row in positions:
            if row not in placed:
                home[self.rows.persons[row]].take(self.rows.points, [row])
