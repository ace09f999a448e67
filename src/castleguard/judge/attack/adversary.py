"""Attacks of CASTLEGUARD's adversary (its sections II-B and III-B) on a published table.

* Enumeration: does the number of published rows tell whether a person's row was in the input?
* Boundary observation: are published bounds the values of persons?
* Homogeneity: do the rows of a group share a sensitive value?
* Duplication: do groups have enough rows but too few persons?
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.judge.attack.evidence import lower_limit, upper_limit
from castleguard.judge.attack.membership_game import Publish
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes, Numbers
from castleguard.judge.verify.group_values import Tally
from castleguard.schema.roles import Numeric


@dataclass(frozen=True)
class Observed:
    """Published bounds of numbers that equal a value of the same group."""

    bounds: int
    """Bounds in total: two per group and numeric column."""
    own: int
    """Bounds that equal a member's value."""
    by_chance: float
    """Expected number if the members of each group were drawn at random from all rows inside its bounds."""

    @property
    def share(self) -> float:
        """Share of bounds that equal a member's value."""
        return self.own / self.bounds if self.bounds else 0.0

    @property
    def chance(self) -> float:
        """Share expected by chance: values can lie on the grid."""
        return self.by_chance / self.bounds if self.bounds else 0.0


@dataclass(frozen=True)
class Uniform:
    """Agreement within groups in one sensitive column."""

    column: str
    shares: Numbers
    """Share of the most frequent value in each group: the success rate of guessing that value."""
    rows: Codes
    """Counted rows of each group."""
    prior: float
    """Share of the most frequent value among all rows: the success rate without seeing the groups."""

    @property
    def highest(self) -> float:
        """Share in the worst group."""
        return float(self.shares.max(initial=0.0))

    @property
    def mean(self) -> float:
        """Mean share over groups."""
        return float(self.shares.mean()) if self.shares.size else 0.0

    @property
    def same(self) -> int:
        """Groups in which all rows have the same value."""
        return int(np.count_nonzero(self.shares == 1.0))

    @property
    def gain(self) -> float:
        """Increase of the success rate over all rows from seeing the groups."""
        together = int(self.rows.sum())
        return float(np.sum(self.shares * self.rows) / together) - self.prior if together else 0.0


@dataclass(frozen=True)
class Counted:
    """Guesses from the number of published rows, with and without one input row, over many runs."""

    runs: int
    """Test runs per stream; the same number of training runs came before."""
    right: int
    """Right guesses in 2 `runs` test runs."""
    always: bool
    """Whether the number was constant on each stream and different between them, so that guessing is certain."""
    confidence: float

    @property
    def chance(self) -> float:
        """Share of right guesses; a coin achieves 0.5."""
        return self.right / (2 * self.runs)

    @property
    def limits(self) -> tuple[float, float]:
        """Confidence limits of the true probability (Clopper and Pearson)."""
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
        own_values = values[row]
        every = np.sort(values[~np.isnan(values)])
        inside = _between(every, side.low[known][first], side.largest[known][first])
        for bound in (side.low[known], side.high[known]):
            hit = np.zeros(int(present.max(initial=-1)) + 1, dtype=np.bool_)
            hit[groups[own_values == bound]] = True
            bounds += present.size
            own += int(np.count_nonzero(hit))
            # The upper bound of half-open cells cannot be a member's value, even if other rows have that value.
            possible = bound[first] <= side.largest[known][first]
            equal = np.where(possible, _between(every, bound[first], bound[first]), 0) / np.maximum(inside, 1)
            by_chance += float(np.sum(1.0 - (1.0 - np.minimum(equal, 1.0)) ** members))
    return Observed(bounds, own, by_chance)


def observe_values(column: str, counted: Tally) -> Uniform:
    """Measure the agreement within groups from the counts of values."""
    there = np.flatnonzero(counted.totals > 0)
    totals = counted.totals[there]
    together = np.bincount(counted.value, counted.times) if counted.times.size else np.zeros(1)
    prior = float(together.max() / max(together.sum(), 1))
    return Uniform(column, counted.largest[there] / totals, totals, prior)


def count_duplicated(linked: Linked, k: int) -> int:
    """Count groups with at least k rows but fewer than k persons."""
    return int(np.count_nonzero((linked.rows_per_group >= k) & (linked.persons_per_group < k)))


def enumerate_rows(
    publish: Publish, stream: pa.Table, *, at: int, runs: int, seed: int = 0, confidence: float = 0.95
) -> Counted:
    """Guess from the number of published rows whether row `at` was in the stream.

    Publishes the stream with and without the row, 2 `runs` times each with fresh seeds. The first half of the runs
    trains the guess, the second half tests it.
    """
    without = pa.concat_tables([stream.slice(0, at), stream.slice(at + 1)])
    seeds = [[seed + side * 2 * runs + run for run in range(2 * runs)] for side in range(2)]
    one, other = (
        np.array([sum(part.num_rows for part in publish(table, each)) for each in some])
        for table, some in zip((stream, without), seeds, strict=True)
    )
    always = bool(one.min() == one.max() and other.min() == other.max() and one[0] != other[0])
    numbers = np.unique(np.concatenate([one, other]))
    # For each number, guess the stream that produced it more often; for ties and unseen numbers, the nearer mean.
    more = {int(n): np.count_nonzero(one[:runs] == n) - np.count_nonzero(other[:runs] == n) for n in numbers}
    middle = (one[:runs].mean() + other[:runs].mean()) / 2
    guess = {n: seen > 0 or (seen == 0 and (n > middle) == (one[:runs].mean() > middle)) for n, seen in more.items()}
    right = sum(guess[int(n)] for n in one[runs:]) + sum(not guess[int(n)] for n in other[runs:])
    return Counted(runs, int(right), always, confidence)


def highest_chance(epsilon: float, dp_delta: float) -> float:
    """Largest success rate of a guess between two equally likely neighbours under (epsilon, delta)-DP.

    It is (exp(epsilon) + delta) / (exp(epsilon) + 1).

    >>> highest_chance(0.0, 0.0), round(highest_chance(1.0, 0.0), 3)
    (0.5, 0.731)
    """
    return min(1.0, (1.0 + dp_delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))


def _between(ordered: Numbers, low: Numbers, high: Numbers) -> Codes:
    """Count the values between each pair of bounds, both inclusive."""
    return np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
