"""The attacks of CASTLEGUARD's adversary (its sections II-B and III-B), played on what was published.

* Enumeration: does the number of published rows tell whether a person's row was in the input?
* Boundary observation: are published bounds somebody's own values?
* Homogeneity: do the rows of a group share a sensitive value?
* Duplication: do groups have enough rows, but of too few persons?
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.judge.attack.evidence import lower_limit, upper_limit
from castleguard.judge.attack.membership import Publish
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes, Numbers
from castleguard.judge.verify.group_values import Tally
from castleguard.schema.roles import Numeric


@dataclass(frozen=True)
class Observed:
    """Published bounds of numbers beside the values of those inside."""

    bounds: int
    """Two for every group and numeric column."""
    own: int
    """How many of them equal the value of a member."""
    by_chance: float
    """How many would, if each group had as many members as it has, drawn from all rows inside the same bounds."""

    @property
    def share(self) -> float:
        """The share of bounds that are a member's value."""
        return self.own / self.bounds if self.bounds else 0.0

    @property
    def chance(self) -> float:
        """The same share by chance alone: values can lie on the grid."""
        return self.by_chance / self.bounds if self.bounds else 0.0


@dataclass(frozen=True)
class Uniform:
    """How far the rows of a group agree in one sensitive column."""

    column: str
    shares: Numbers
    """Per group the share of its most frequent value: how often whoever guesses that value is right."""
    rows: Codes
    """Per group how many were counted."""
    prior: float
    """The same for all rows together: how often he is right who has not seen the groups."""

    @property
    def highest(self) -> float:
        """In the worst group."""
        return float(self.shares.max(initial=0.0))

    @property
    def mean(self) -> float:
        """The mean over groups."""
        return float(self.shares.mean()) if self.shares.size else 0.0

    @property
    def same(self) -> int:
        """Groups in which all have the same value."""
        return int(np.count_nonzero(self.shares == 1.0))

    @property
    def gain(self) -> float:
        """How much more often he is right who has seen the groups, over all rows."""
        together = int(self.rows.sum())
        return float(np.sum(self.shares * self.rows) / together) - self.prior if together else 0.0


@dataclass(frozen=True)
class Counted:
    """The number of published rows with and without one row of the input, over many runs."""

    runs: int
    """On either stream that the guesses were judged in; as many before served to find the best guess."""
    right: int
    """Right guesses of 2 `runs`."""
    always: bool
    """Whether the number was the same in all runs of a stream, and another one in the other: nothing has to be guessed.
    """
    confidence: float

    @property
    def chance(self) -> float:
        """The share of right guesses. 0.5 is what a coin achieves."""
        return self.right / (2 * self.runs)

    @property
    def limits(self) -> tuple[float, float]:
        """Where the true probability lies, with that confidence (Clopper and Pearson)."""
        seen, alpha = np.array(self.right), (1 - self.confidence) / 2
        low, high = (limit(seen, runs=2 * self.runs, alpha=alpha) for limit in (lower_limit, upper_limit))
        return float(low), float(high)


def observe_bounds(linked: Linked) -> Observed:
    """Compare the bounds of every group with the values of its own members."""
    known = linked.known
    groups, row = linked.groups[known], linked.row[known]
    present, first, members = np.unique(groups, return_index=True, return_counts=True)
    bounds = own = 0
    by_chance = 0.0
    for role, side, values in zip(linked.schema.quasi_identifiers, linked.sides, linked.originals.values, strict=True):
        if not isinstance(role, Numeric):
            continue
        mine = values[row]
        every = np.sort(values[~np.isnan(values)])
        inside = _between(every, side.low[known][first], side.largest[known][first])
        for bound in (side.low[known], side.high[known]):
            hit = np.zeros(int(present.max(initial=-1)) + 1, dtype=np.bool_)
            hit[groups[mine == bound]] = True
            bounds += present.size
            own += int(np.count_nonzero(hit))
            # The upper bound of half-open cells is no value of a member, whoever else has it.
            possible = bound[first] <= side.largest[known][first]
            equal = np.where(possible, _between(every, bound[first], bound[first]), 0) / np.maximum(inside, 1)
            by_chance += float(np.sum(1.0 - (1.0 - np.minimum(equal, 1.0)) ** members))
    return Observed(bounds, own, by_chance)


def observe_values(column: str, counted: Tally) -> Uniform:
    """How far groups agree, from how often each value occurs in each."""
    there = np.flatnonzero(counted.totals > 0)
    totals = counted.totals[there]
    together = np.bincount(counted.value, counted.times) if counted.times.size else np.zeros(1)
    prior = float(together.max() / max(together.sum(), 1))
    return Uniform(column, counted.largest[there] / totals, totals, prior)


def count_duplicated(linked: Linked, k: int) -> int:
    """Groups that have k rows or more, but of fewer than k persons."""
    return int(np.count_nonzero((linked.rows_per_group >= k) & (linked.persons_per_group < k)))


def enumerate_rows(
    publish: Publish, stream: pa.Table, *, at: int, runs: int, seed: int = 0, confidence: float = 0.95
) -> Counted:
    """Publish a stream with and without its row `at`, 2 `runs` times each with fresh seeds, and guess by the number of
    rows that came out which it was. The first half of the runs serves to find the best guess, the second to judge it.
    """
    without = pa.concat_tables([stream.slice(0, at), stream.slice(at + 1)])
    seeds = [[seed + side * 2 * runs + run for run in range(2 * runs)] for side in range(2)]
    one, other = (
        np.array([sum(part.num_rows for part in publish(table, each)) for each in some])
        for table, some in zip((stream, without), seeds, strict=True)
    )
    always = bool(one.min() == one.max() and other.min() == other.max() and one[0] != other[0])
    numbers = np.unique(np.concatenate([one, other]))
    # For each number, guess the stream in which it was seen more often; what was never seen, that of the nearer mean.
    more = {int(n): np.count_nonzero(one[:runs] == n) - np.count_nonzero(other[:runs] == n) for n in numbers}
    middle = (one[:runs].mean() + other[:runs].mean()) / 2
    guess = {n: seen > 0 or (seen == 0 and (n > middle) == (one[:runs].mean() > middle)) for n, seen in more.items()}
    right = sum(guess[int(n)] for n in one[runs:]) + sum(not guess[int(n)] for n in other[runs:])
    return Counted(runs, int(right), always, confidence)


def highest_chance(epsilon: float, dp_delta: float) -> float:
    """How often a guess can be right at most, of two equally likely neighbours, under (epsilon, delta)-differential
    privacy: (exp(epsilon) + delta) / (exp(epsilon) + 1).

    >>> highest_chance(0.0, 0.0), round(highest_chance(1.0, 0.0), 3)
    (0.5, 0.731)
    """
    return min(1.0, (1.0 + dp_delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def _between(ordered: Numbers, low: Numbers, high: Numbers) -> Codes:
    """How many values lie between each two bounds, both included."""
    return np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
