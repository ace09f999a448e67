"""Intersection attacks on persons with several rows, against which k-anonymity makes no promise.

Every group with a row of a person has at least k persons. An attacker who knows which rows belong to one person can
intersect their groups, and may be left with a single person. Two attackers are simulated. The first knows the group of
each row, which is the worst case. The second knows the person's values at each row; the candidates are all persons in
any group whose box contains these values.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes

PERCENTILES = (5, 25, 50, 75)


@dataclass(frozen=True)
class LeftOver:
    """Number of candidates left for each attacked person, including that person."""

    sizes: Codes
    followed: int
    """Persons with several published rows."""

    @property
    def alone(self) -> float:
        """Share of attacked persons who are the only candidate left."""
        return float(np.mean(self.sizes <= 1)) if self.sizes.size else 0.0

    def below(self, k: int) -> float:
        """Share of attacked persons with fewer than k candidates left."""
        return float(np.mean(self.sizes < k)) if self.sizes.size else 0.0

    def percentiles(self) -> dict[str, int]:
        """Percentiles of the number of candidates left."""
        if not self.sizes.size:
            return {}
        found = np.percentile(self.sizes, PERCENTILES, method="lower")
        return {f"{percent} %": int(size) for percent, size in zip(PERCENTILES, found, strict=True)}


def by_groups(linked: Linked, *, most: int = 20_000, seed: int = 0) -> LeftOver:
    """Intersect the groups of each person's rows; for a sample if more than `most` persons have several rows."""
    index = _Index(linked)
    persons = index.choose(most, seed)
    return LeftOver(np.array([len(index.common(index.groups_of(person))) for person in persons]), index.several.size)


def by_values(linked: Linked, *, most: int = 200, seed: int = 0) -> LeftOver:
    """Intersect the candidates of each row: all persons in groups whose box contains its values; for a sample."""
    index = _Index(linked)
    _, first = np.unique(linked.groups, return_index=True)
    sizes = []
    for person in index.choose(most, seed):
        left: set[int] | None = None
        for row in np.unique(linked.row[index.rows_of(person)]):
            inside = np.ones(first.size, dtype=np.bool_)
            for side, values in zip(linked.sides, linked.originals.values, strict=True):
                inside &= (side.low[first] <= values[row]) & (values[row] <= side.largest[first])
            if linked.originals.to_root[row]:
                inside = np.logical_and.reduce([side.is_widest()[first] for side in linked.sides])
            members = set().union(*(index.members(group) for group in np.flatnonzero(inside).tolist()))
            left = members if left is None else left & members
        sizes.append(len(left or ()))
    return LeftOver(np.array(sizes, dtype=np.int64), index.several.size)


class _Index:
    """Index of persons by group and of rows by person."""

    def __init__(self, linked: Linked) -> None:
        self._known = linked.known
        _, self._person = np.unique(linked.originals.persons[linked.row[self._known]], return_inverse=True)
        self._group = linked.groups[self._known]
        rows = np.bincount(self._person)
        self.several: Codes = np.flatnonzero(rows > 1)
        many = int(self._person.max(initial=0)) + 1
        pairs = np.unique(self._group * many + self._person)
        edges = np.searchsorted(pairs // many, np.arange(int(self._group.max(initial=-1)) + 2))
        self._members = [set((pairs[low:high] % many).tolist()) for low, high in pairwise(edges)]
        self._order = np.argsort(self._person, kind="stable")
        self._starts = np.searchsorted(self._person[self._order], np.arange(many + 1))

    def choose(self, most: int, seed: int) -> Codes:
        """Persons with several rows: all, or a random sample of `most`."""
        if self.several.size <= most:
            return self.several
        return np.sort(np.random.default_rng(seed).choice(self.several, most, replace=False))

    def rows_of(self, person: int) -> Codes:
        """Published rows of a person."""
        return self._known[self._order[self._starts[person] : self._starts[person + 1]]]

    def groups_of(self, person: int) -> Codes:
        """Groups of a person's published rows."""
        return np.unique(self._group[self._order[self._starts[person] : self._starts[person + 1]]])

    def members(self, group: int) -> set[int]:
        """Persons of a group."""
        return self._members[group]

    def common(self, groups: Codes) -> set[int]:
        """Persons in all of these groups; intersects the smallest first, to stay cheap."""
        return set.intersection(*sorted((self._members[group] for group in groups), key=len))
