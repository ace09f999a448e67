"""Who is left when a person's rows are followed over time: what k-anonymity does not promise.

Every group that holds a row of a person has k persons. Somebody who knows that several rows are of one person, and
where they are, intersects these groups, and may be left with one. Two attackers are played: the first knows in which
group each row is, and is the worst there is. The second knows the person's values at each row, and takes for a
candidate whoever is in any group whose box has them.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes

PERCENTILES = (5, 25, 50, 75)


@dataclass(frozen=True)
class LeftOver:
    """How many persons remain for each person that was followed, himself included."""

    sizes: Codes
    followed: int
    """Persons with several published rows."""

    @property
    def alone(self) -> float:
        """The share of those followed that are left alone: found."""
        return float(np.mean(self.sizes <= 1)) if self.sizes.size else 0.0

    def below(self, k: int) -> float:
        """The share of those followed for whom fewer than k are left."""
        return float(np.mean(self.sizes < k)) if self.sizes.size else 0.0

    def percentiles(self) -> dict[str, int]:
        """Sizes that so many percent of persons do not exceed."""
        if not self.sizes.size:
            return {}
        found = np.percentile(self.sizes, PERCENTILES, method="lower")
        return {f"{percent} %": int(size) for percent, size in zip(PERCENTILES, found, strict=True)}


def by_groups(linked: Linked, *, most: int = 20_000, seed: int = 0) -> LeftOver:
    """Intersect the groups that hold a person's rows; of a sample of persons if there are more than `most`."""
    books = _Books(linked)
    persons = books.choose(most, seed)
    return LeftOver(np.array([len(books.common(books.groups_of(person))) for person in persons]), books.several.size)


def by_values(linked: Linked, *, most: int = 200, seed: int = 0) -> LeftOver:
    """Intersect, over a person's rows, whoever is in a group whose box has the values of the row; of a sample."""
    books = _Books(linked)
    _, first = np.unique(linked.groups, return_index=True)
    sizes = []
    for person in books.choose(most, seed):
        left: set[int] | None = None
        for row in np.unique(linked.row[books.rows_of(person)]):
            inside = np.ones(first.size, dtype=np.bool_)
            for side, values in zip(linked.sides, linked.originals.values, strict=True):
                inside &= (side.low[first] <= values[row]) & (values[row] <= side.largest[first])
            if linked.originals.to_root[row]:
                inside = np.logical_and.reduce([side.is_widest()[first] for side in linked.sides])
            members = set().union(*(books.members(group) for group in np.flatnonzero(inside).tolist()))
            left = members if left is None else left & members
        sizes.append(len(left or ()))
    return LeftOver(np.array(sizes, dtype=np.int64), books.several.size)


class _Books:
    """Who is in which group."""

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
        """Persons with several rows: all, or so many of them at random."""
        if self.several.size <= most:
            return self.several
        return np.sort(np.random.default_rng(seed).choice(self.several, most, replace=False))

    def rows_of(self, person: int) -> Codes:
        """The published rows of a person."""
        return self._known[self._order[self._starts[person] : self._starts[person + 1]]]

    def groups_of(self, person: int) -> Codes:
        """The groups that hold them."""
        return np.unique(self._group[self._order[self._starts[person] : self._starts[person + 1]]])

    def members(self, group: int) -> set[int]:
        """The persons of a group."""
        return self._members[group]

    def common(self, groups: Codes) -> set[int]:
        """The persons that all of these groups have; the smallest first, so that it stays cheap."""
        return set.intersection(*sorted((self._members[group] for group in groups), key=len))
