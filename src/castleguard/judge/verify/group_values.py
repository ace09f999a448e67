"""Diversity and closeness of published groups, from their definitions, for whoever holds the published file.

Written anew, and not with the formulas of `privacy`: distances are sums of absolute differences in coordinates that a
distance gives to a distribution, where the engine moves shares about. What is counted are distinct pairs of a person
and a value, as docs/concepts/criteria.md has it; without persons, rows.

A promise about a distribution is one for the moment of a release, and a file holds only what came of all releases. Let
S_1, S_2, ... be what a box was released with, each of which passed. As long as no pair occurs in two of them, the pairs
of the whole group are a mixture of theirs, and

    entropy        is concave, so the group has at least the entropy of the least of them;
    recursive      adds up: the largest count of the group is no larger than all theirs together, its tail no smaller;
    distance       is convex, so the group is no farther from the mixture of their references than t.

So a group without a repeated pair that fails is proof of a release that failed. A group with repeated pairs that fails
is not: each release may have passed by itself. `Failures` keeps the two apart.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading import identities
from castleguard.judge.reading.values import Codes, Numbers, numbers_of, texts_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.sensitive import Sensitive

Flags = NDArray[np.bool_]  # (groups,)
Table = NDArray[np.float64]  # (groups or moments, values)
Distance = Literal["equal", "ordered", "hierarchical"]

SLACK = 1e-9  # sums are rounded


class Tally(NamedTuple):
    """How often each value occurs in each group: one entry per group and value that is there."""

    group: Codes
    value: Codes
    times: Codes
    groups: int
    repeated: Flags
    """Per group whether a person has the same value twice: then not all rows are counted."""

    @property
    def totals(self) -> Codes:
        """All counts of each group together."""
        return np.bincount(self.group, self.times, minlength=self.groups).astype(np.int64)

    @property
    def largest(self) -> Codes:
        """The count of each group's most frequent value."""
        largest: Codes = np.zeros(self.groups, dtype=np.int64)
        np.maximum.at(largest, self.group, self.times)
        return largest

    def shares(self, values: int) -> Table:
        """Each group's distribution over `values` values."""
        table = np.zeros((self.groups, values))
        table[self.group, self.value] = self.times
        return table / np.maximum(self.totals, 1)[:, None]


@dataclass(frozen=True)
class Failures:
    """Which groups failed, and of which of them a file alone proves that a promise was broken."""

    failed: Flags
    proved: Flags


def value_codes(column: pa.ChunkedArray, role: Sensitive, *, whole: bool = False) -> Codes:
    """What counts as one value of a sensitive column, published or original: the number of its label, and one more for
    a missing or unknown one. Where no labels are declared, any number that tells values apart; `whole` takes a number
    for its whole part.

    >>> value_codes(pa.chunked_array([["< 10", "[10, 20)", "7", None]]), Sensitive("fare", bins=[10, 20])).tolist()
    [0, 1, 0, 3]
    """
    if role.labels is None:
        return identities.value_codes(column, whole=whole)
    known = {str(label): code for code, label in enumerate(role.labels)}
    texts, codes = texts_of(column)
    found = np.array([len(known) if text is None else known.get(text, -1) for text in texts], dtype=np.int64)
    by_label: Codes = found[codes] if len(texts) else np.zeros(0, np.int64)
    if role.edges is None:
        return np.where(by_label < 0, len(known), by_label)
    numbers, _ = numbers_of(column, role.kind)
    bins = np.searchsorted(role.edges, numbers, side="right")
    return np.where(by_label >= 0, by_label, np.where(np.isnan(numbers), len(known), bins))


def tally(groups: Codes, values: Codes, persons: Codes | None, *, count: int) -> Tally:
    """Count distinct (person, value) pairs of each of `count` groups; without persons, rows."""
    many = int(values.max(initial=0)) + 1
    cells = groups * many + values
    repeated: Flags = np.zeros(count, dtype=np.bool_)
    if persons is not None:
        _, people = np.unique(persons, return_inverse=True)
        _, cell = np.unique(cells, return_inverse=True)
        _, first = np.unique(cell * (int(people.max(initial=0)) + 1) + people, return_index=True)
        again = np.ones(groups.size, dtype=np.bool_)
        again[first] = False
        repeated[groups[again]] = True
        cells = cells[first]
    cells, counts = np.unique(cells, return_counts=True)
    return Tally(cells // many, cells % many, counts.astype(np.int64), count, repeated)


def distinct_values(counted: Tally) -> Codes:
    """Different values of each group."""
    return np.bincount(counted.group, minlength=counted.groups).astype(np.int64)


def persons_apart(groups: Codes, values: Codes, persons: Codes, *, most: int) -> Codes:
    """Per group how many different persons can each stand for a value of their own, up to `most`: the largest matching
    of values to persons (augmenting paths, as in every textbook).
    """
    pairs = np.unique(np.stack([groups, values, persons], axis=1), axis=0)
    found: Codes = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(pairs)], strict=True):
        holders: dict[int, list[int]] = {}
        for _, value, person in pairs[start:stop].tolist():
            holders.setdefault(value, []).append(person)
        stands_for: dict[int, int] = {}
        for value in holders:
            found[pairs[start, 0]] += _augment(value, holders, stands_for, set())
            if found[pairs[start, 0]] >= most:
                break
    return found


def entropies(counted: Tally) -> Numbers:
    """The entropy of each group's distribution, in nats; 0 for an empty group."""
    share = counted.times / np.maximum(counted.totals, 1)[counted.group]
    found: Numbers = np.bincount(counted.group, -share * np.log(share), minlength=counted.groups).astype(np.float64)
    return found


def judge_entropy(counted: Tally, l: int) -> Failures:
    """Entropy l-diversity: an entropy of at least ln l (Machanavajjhala et al. 2006, Definition 4.1)."""
    failed = entropies(counted) < np.log(l) - SLACK
    return Failures(failed, failed & ~counted.repeated)


def recursive_margins(counted: Tally, l: int) -> tuple[Codes, Codes]:
    """Per group the count of the most frequent value, and the counts from the l-th on together."""
    order = np.lexsort((-counted.times, counted.group))
    group, count = counted.group[order], counted.times[order]
    rank = np.arange(group.size) - np.searchsorted(group, group)
    tail = np.bincount(group[rank >= l - 1], count[rank >= l - 1], minlength=counted.groups)
    return counted.largest, tail.astype(np.int64)


def judge_recursive(counted: Tally, *, c: float, l: int) -> Failures:
    """Recursive (c, l)-diversity: r_1 < c (r_l + r_(l+1) + ...) (the same paper, Definition 4.2)."""
    largest, tail = recursive_margins(counted, l)
    failed = ~(largest < c * tail)
    return Failures(failed, failed & ~counted.repeated)


def coordinates(shares: Table, distance: Distance, hierarchy: Hierarchy | None = None) -> Table:
    """Distributions, a row each, as points whose distance by absolute differences is the earth mover's.

    The last value is the missing one; in a tree it is a leaf directly below the root. Equal: half the difference of
    every share. Ordered: the difference of what lies up to each value, over the steps between the first and the last.
    By a tree: the difference of what lies below each node, times half of what the node above it is higher.
    """
    if distance == "equal":
        return shares / 2
    if distance == "ordered":
        steps: Table = np.cumsum(shares, axis=1)[:, :-1] / max(shares.shape[1] - 1, 1)
        return steps
    assert hierarchy is not None
    parents, heights = np.append(hierarchy.parents, 0), np.zeros(hierarchy.parents.size + 1)
    for node in range(parents.size - 1, 0, -1):
        heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
    below = np.zeros((parents.size, shares.shape[1]))
    for node in range(hierarchy.parents.size):
        below[node, hierarchy.first_leaf[node] : hierarchy.last_leaf[node] + 1] = 1.0
    below[-1, -1] = 1.0
    edge = (heights[parents] - heights) / heights[0] / 2
    edge[0] = 0.0
    points: Table = shares @ (below * edge[:, None]).T
    return points


def distances(points: Table, other: Table) -> Numbers:
    """The distance between points, row by row."""
    found: Numbers = np.abs(points - other).sum(axis=1)
    return found


def _augment(value: int, holders: dict[int, list[int]], stands_for: dict[int, int], seen: set[int]) -> bool:
    """Find somebody for a value, if need be by giving others another value."""
    for person in holders[value]:
        if person in seen:
            continue
        seen.add(person)
        if person not in stands_for or _augment(stands_for[person], holders, stands_for, seen):
            stands_for[person] = value
            return True
    return False
