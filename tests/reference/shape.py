"""Criteria on the distribution of sensitive values in a group, from the definitions.

Entropy and recursive (c, l)-diversity: Machanavajjhala et al., definitions 4.1 and 4.2. t-closeness: Li et al., section
4. For CASTLE a group is the set of its distinct (person, value) pairs: a person counts once for a value. For Citadel it
is all its rows. Every call recomputes its result from sets and lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Literal

from .measure import EPS, Row, Tree

Pair = tuple[Hashable, int]  # a person and the number of a value

LEAST_LACK = 1e-9  # of a group that misses (c, l), even by nothing


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The criteria, and what is public about the sensitive columns."""

    l: int
    sizes: Sequence[int]  # per column: its values, the last of which is the missing one
    trees: Sequence[Tree]  # per column: over all its values but the missing one
    room: int  # pairs that are remembered before all are forgotten
    diversity: Literal["distinct", "entropy", "recursive"] = "distinct"
    c: float = 0.0
    t: float | None = None  # None: closeness is not asked for
    distance: Literal["equal", "ordered", "hierarchical"] = "equal"
    reference: Literal["cumulative", "window", "decay", "public"] = "cumulative"
    window: int = 0
    decay: float = 1.0
    public: Sequence[Sequence[float]] = ()
    alpha: float = 1.0
    burn_in: int = 0

    def number(self, column: int, code: Hashable) -> int:
        """Number of a value; an unknown value counts as missing."""
        last = self.sizes[column] - 1
        return code if isinstance(code, int) and 0 <= code < last else last

    def pairs(self, rows: Iterable[Row], column: int) -> set[Pair]:
        return {(row.person, self.number(column, row.sensitive[column])) for row in rows}

    def lack(self, pairs: set[Pair], column: int, shares: Sequence[float]) -> float:
        """Shortfall of the pairs against the criteria; 0 if they are met. `shares`: see the method of this name."""
        counts = self.counts(pairs, column)
        # Rows without a person must not make a group diverse: it has to be with them and without them.
        named = self.counts({pair for pair in pairs if pair[0] is not None}, column)
        lack = max(self.lack_of_diversity(counts), self.lack_of_diversity(named))
        return lack + self.lack_of_closeness(counts, column, shares)

    def lack_by_row(self, rows: Sequence[Row], column: int, shares: Sequence[float]) -> float:
        """Shortfall if every row counts, regardless of its person."""
        counts = _counts((self.number(column, row.sensitive[column]) for row in rows), self.sizes[column])
        return self.lack_of_diversity(counts) + self.lack_of_closeness(counts, column, shares)

    def lack_of_closeness(self, counts: Sequence[int], column: int, shares: Sequence[float]) -> float:
        lack = 0.0
        if self.t is not None:
            total = sum(counts)
            p = [count / total for count in counts]
            far = self.earth_mover(p, shares, column) - self.t
            lack += far if far > EPS else 0.0
        return lack

    def counts(self, pairs: set[Pair], column: int) -> list[int]:
        return _counts((value for _, value in pairs), self.sizes[column])

    def lack_of_diversity(self, counts: Sequence[int]) -> float:
        if self.diversity == "entropy":
            missing = log(self.l) - entropy(counts)
            return missing if missing > EPS else 0.0
        if self.diversity == "recursive":
            falling = sorted(counts, reverse=True)
            excess = falling[0] - self.c * sum(falling[self.l - 1 :])
            return max(excess / max(sum(counts), 1), LEAST_LACK) if excess >= 0 else 0.0
        return 0.0

    def shares(self, history: Sequence[Row], column: int) -> list[float]:
        """The distribution of all rows that have arrived, oldest first; empty if closeness is not asked for."""
        if self.t is None:
            return []
        if self.reference == "public":
            return list(self.public[column])
        recent = history[-self.window :] if self.reference == "window" else history
        weights = [0.0] * self.sizes[column]
        for age, row in enumerate(reversed(recent)):
            weights[self.number(column, row.sensitive[column])] += self.decay**age
        total = sum(weights) + self.alpha * len(weights)
        return [(weight + self.alpha) / total for weight in weights]

    def earth_mover(self, p: Sequence[float], q: Sequence[float], column: int) -> float:
        if self.distance == "equal":
            return sum(abs(x - y) for x, y in zip(p, q, strict=True)) / 2
        if self.distance == "ordered":
            steps = len(p) - 1
            return sum(abs(sum(p[: i + 1]) - sum(q[: i + 1])) for i in range(steps)) / steps
        return hierarchical(p, q, self.trees[column])


def _counts(values: Iterable[int], size: int) -> list[int]:
    count_of = Counter(values)
    return [count_of[value] for value in range(size)]


def entropy(counts: Sequence[int]) -> float:
    total = sum(counts)
    return -sum(count / total * log(count / total) for count in counts if count)


def hierarchical(p: Sequence[float], q: Sequence[float], tree: Tree) -> float:
    """Li et al., section 4.3: the cost of all inner nodes. The missing value hangs directly below the root."""
    grown = _with_missing(tree)
    extra: dict[int, float] = {}
    for node in reversed(grown.order):
        below = grown.children[node]
        value = grown.value_of.get(node)
        extra[node] = sum(extra[child] for child in below) if value is None else p[value] - q[value]

    def cost(node: int) -> float:
        below = [extra[child] for child in grown.children[node]]
        positive = sum(x for x in below if x > 0)
        negative = -sum(x for x in below if x < 0)
        return grown.heights[node] / grown.heights[0] * min(positive, negative)

    return sum(cost(node) for node in grown.children if grown.children[node])


@dataclass(frozen=True)
class _Grown:
    """A tree with a leaf for the missing value."""

    children: dict[int, list[int]]
    value_of: dict[int, int]  # leaf -> number of its value
    heights: dict[int, int]
    order: list[int]  # parents before their children


@lru_cache(maxsize=16)
def _with_missing(tree: Tree) -> _Grown:
    children: dict[int, list[int]] = {node: [] for node in range(len(tree.parents) + 1)}
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(node)
    missing = len(tree.parents)
    children[0].append(missing)

    def height(node: int) -> int:
        return max((1 + height(child) for child in children[node]), default=0)

    return _Grown(
        children=children,
        value_of={node: value for value, node in enumerate([*tree.leaf_nodes, missing])},
        heights={node: height(node) for node in children},
        order=list(children),
    )
