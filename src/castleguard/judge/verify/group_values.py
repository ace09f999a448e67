"""Diversity and closeness of published groups, computed from their definitions.

This code shares no formula with `privacy`: here a distance is a sum of absolute differences between coordinates of the
distributions, where the engine moves probability mass. Counts are of distinct (person, value) pairs, as defined in
docs/concepts/criteria.md; without persons, of rows.

A promise about a distribution holds at the moment of a release, but a file only shows the union of all releases. Let
S_1, S_2, ... be the releases of one box, each of which passed. If no pair occurs in two of them, the pairs of the whole
group are a mixture of theirs, and

    entropy        is concave, so the group has at least the smallest entropy of any release;
    recursive      is additive: the group's largest count is at most the sum of theirs, and its tail at least the sum;
    distance       is convex, so the group is within t of the mixture of their references.

A failing group without repeated pairs therefore proves that a release failed. A failing group with repeated pairs does
not: each release may have passed by itself. `Failures` keeps the two cases apart.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading import equality
from castleguard.judge.reading.values import Codes, Numbers, numbers_of, texts_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.sensitive import Sensitive

Flags = NDArray[np.bool_]  # (groups,)
Table = NDArray[np.float64]  # (groups or moments, values)
Distance = Literal["equal", "ordered", "hierarchical"]

SLACK = 1e-9  # sums are rounded


class Tally(NamedTuple):
    """Counts of values per group: one entry per group and value that occurs in it."""

    group: Codes
    value: Codes
    times: Codes
    groups: int
    repeated: Flags
    """True for groups in which a person has the same value twice, so that not all rows are counted."""

    @property
    def totals(self) -> Codes:
        """Sum of the counts of each group."""
        return np.bincount(self.group, self.times, minlength=self.groups).astype(np.int64)

    @property
    def largest(self) -> Codes:
        """Count of each group's most frequent value."""
        largest: Codes = np.zeros(self.groups, dtype=np.int64)
        np.maximum.at(largest, self.group, self.times)
        return largest

    def shares(self, values: int) -> Table:
        """Distribution of each group over `values` values."""
        table = np.zeros((self.groups, values))
        table[self.group, self.value] = self.times
        return table / np.maximum(self.totals, 1)[:, None]


@dataclass(frozen=True)
class Failures:
    """Groups that failed, and those for which the file alone proves a broken promise."""

    failed: Flags
    proved: Flags


def value_codes(column: pa.ChunkedArray, role: Sensitive, *, whole: bool = False) -> Codes:
    """Codes of a sensitive column, published or original: label numbers, and the next number for missing or unknown.

    Without declared labels, the codes are arbitrary and only equal or different. `whole`: compare integer parts only.

    >>> value_codes(pa.chunked_array([["< 10", "[10, 20)", "7", None]]), Sensitive("fare", bins=[10, 20])).tolist()
    [0, 1, 0, 3]
    """
    if role.labels is None:
        return equality.value_codes(column, whole=whole)
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
    """Count the distinct (person, value) pairs in each of `count` groups; without persons, the rows."""
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
    """Distinct values per group."""
    return np.bincount(counted.group, minlength=counted.groups).astype(np.int64)


def persons_apart(groups: Codes, values: Codes, persons: Codes, *, most: int) -> Codes:
    """Size of the largest matching of values to persons per group, up to `most`, by augmenting paths."""
    pairs = np.unique(np.stack([groups, values, persons], axis=1), axis=0)
    found: Codes = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(pairs)], strict=True):
        holders: dict[int, list[int]] = {}
        for _, value, person in pairs[start:stop].tolist():
            holders.setdefault(value, []).append(person)
        matched: dict[int, int] = {}
        for value in holders:
            found[pairs[start, 0]] += _augment(value, holders, matched, set())
            if found[pairs[start, 0]] >= most:
                break
    return found


def entropies(counted: Tally) -> Numbers:
    """Entropy of each group's distribution in nats; 0 for an empty group."""
    share = counted.times / np.maximum(counted.totals, 1)[counted.group]
    found: Numbers = np.bincount(counted.group, -share * np.log(share), minlength=counted.groups).astype(np.float64)
    return found


def judge_entropy(counted: Tally, l: int) -> Failures:
    """Check entropy l-diversity: entropy of at least ln l (Machanavajjhala et al. 2006, Definition 4.1)."""
    failed = entropies(counted) < np.log(l) - SLACK
    return Failures(failed, failed & ~counted.repeated)


def recursive_margins(counted: Tally, l: int) -> tuple[Codes, Codes]:
    """Count of the most frequent value, and sum of the counts from the l-th on, per group."""
    order = np.lexsort((-counted.times, counted.group))
    group, count = counted.group[order], counted.times[order]
    rank = np.arange(group.size) - np.searchsorted(group, group)
    tail = np.bincount(group[rank >= l - 1], count[rank >= l - 1], minlength=counted.groups)
    return counted.largest, tail.astype(np.int64)


def judge_recursive(counted: Tally, *, c: float, l: int) -> Failures:
    """Check recursive (c, l)-diversity: r_1 < c (r_l + r_(l+1) + ...) (the same paper, Definition 4.2)."""
    largest, tail = recursive_margins(counted, l)
    failed = ~(largest < c * tail)
    return Failures(failed, failed & ~counted.repeated)


def coordinates(shares: Table, distance: Distance, hierarchy: Hierarchy | None = None) -> Table:
    """Map distributions (one per row) to points whose L1 distance is the earth mover's distance.

    The last value is the missing one; in a tree it is a leaf directly below the root. Equal: half of each share.
    Ordered: cumulative shares, divided by the number of steps from the first value to the last. Hierarchical: the share
    below each node, times half the height difference to its parent.
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
    """L1 distance between points, row by row."""
    found: Numbers = np.abs(points - other).sum(axis=1)
    return found


def _augment(value: int, holders: dict[int, list[int]], matched: dict[int, int], seen: set[int]) -> bool:
    """Match a value to a person, reassigning other persons if necessary."""
    for person in holders[value]:
        if person in seen:
            continue
        seen.add(person)
        if person not in matched or _augment(matched[person], holders, matched, seen):
            matched[person] = value
            return True
    return False
