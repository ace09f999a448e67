"""Columns of a window as strict DOCA publishes them: noisy means of sorted runs, noisy counts of labels.

The sensitivity of both is bounded when any c rows of a window are replaced (docs/proofs/doca.md): the sums of a
number's runs change by at most c times its range in total, the counts of labels by at most 2 c. Exact discrete Laplace
noise of that scale gives each column its share of epsilon. Everything after the noise reads noisy numbers only.
"""

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.doca.policy import Doca
from castleguard.kernels.state import Arrays
from castleguard.privacy.mechanisms import DiscreteLaplace, Mechanism
from castleguard.privacy.noise import Noise
from castleguard.schema.levels import Levels, label_counts, numeric_means
from castleguard.schema.roles import Numeric, Schema

Ints = NDArray[np.int64]
Points = NDArray[np.float64]  # (rows, columns)


class NumberColumn(NamedTuple):
    """A numeric column: its index, its role, and the noise exponent of one level."""

    at: int
    role: Numeric
    decay: Fraction
    """P(N = n) is proportional to exp(-decay |n|)."""

    @property
    def top(self) -> int:
        """Highest level."""
        return self.role.edges.size - 1


class LabelColumn(NamedTuple):
    """A column of labels: its index, the number of labels, and the noise exponent of one count."""

    at: int
    labels: int
    decay: Fraction


def number_columns(schema: Schema, policy: Doca) -> list[NumberColumn]:
    """Numeric columns of a schema: replacing c rows changes the sums by at most c times the highest level."""
    shares = policy.shares(schema)
    return [
        NumberColumn(at, role, shares[role.name] / max(policy.contributions * (role.edges.size - 1), 1))
        for at, role in enumerate(schema.quasi_identifiers)
        if isinstance(role, Numeric)
    ]


def label_columns(schema: Schema, policy: Doca) -> list[LabelColumn]:
    """Categories and sensitive columns: replacing c rows changes the counts by at most 2 c."""
    shares, places = policy.shares(schema), schema.described
    return [
        LabelColumn(places.index(name), labels, shares[name] / (2 * policy.contributions))
        for name, labels in label_counts(schema).items()
    ]


def run_sizes(rows: int, k: int) -> Ints:
    """Sizes of runs: k rows each, and the last takes the remainder. They depend on the number of rows alone."""
    sizes = np.full(rows // k, k, dtype=np.int64)
    sizes[-1] += rows % k
    return sizes


class WindowNoise:
    """Noise keyed by the contents of a window: the same rows get the same noise, different rows independent noise.

    A restored stream may cut its windows at other rows, by a flush or by the clock. If noise depended on the window
    number alone, two sums would get the same noise, and their difference would be exact. The key is replaced after
    each release, so a snapshot does not contain the keys of released windows.
    """

    def __init__(self, mechanisms: Sequence[Mechanism], *, key: NDArray[np.uint32]) -> None:
        self._noise = Noise(mechanisms, key=key)
        self._key = key
        self._drawn = bool(mechanisms)

    def randomise(self, numbers: Ints, contents: bytes) -> None:
        """Add noise to the numbers of a window, in place; `contents` is a digest of the whole window."""
        if not self._drawn:
            return
        fresh = np.stack([self._derived(contents), np.zeros(8, dtype=np.uint32)])
        self._noise.restore({"keys": fresh, "key_positions": np.array([0, -1], dtype=np.int64)})
        self._noise.randomise(numbers, 0, np.ones(len(numbers), dtype=np.bool_))
        self._key = self._derived(b"")

    def snapshot(self) -> Arrays:
        """Key of all later noise."""
        return {"key": self._key.copy()}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore a snapshot."""
        self._key = arrays["key"].copy()

    def _derived(self, what: bytes) -> NDArray[np.uint32]:
        secret = self._key.astype("<u4").tobytes()
        derived = hashlib.blake2b(what, key=secret, digest_size=32, person=b"window noise").digest()
        return np.frombuffer(derived, dtype="<u4").astype(np.uint32)


class NoisyMeans:
    """Publish the numbers of windows: each run of k sorted values as its noisy mean."""

    def __init__(self, columns: Sequence[NumberColumn], *, k: int, key: NDArray[np.uint32]) -> None:
        self._columns = columns
        self._k = k
        most = 2 * k - 1  # rows per run; with the largest k and the finest grid their sums stay below 2^53
        self.noise = WindowNoise(
            [
                DiscreteLaplace(cells=most * column.top, epsilon=column.decay * max(most * column.top, 1))
                for column in columns
            ],
            key=key,
        )

    def release(self, levels: Levels, points: Points, contents: bytes) -> tuple[Ints, float]:
        """Write the noisy mean of every run to its rows in `points`; return the noisy sums and the mean spread.

        The sums are (runs, columns). The spread of the runs is not noisy: it is for the operator only.
        """
        if not self._columns:
            return np.empty((0, 0), dtype=np.int64), 0.0
        sizes = run_sizes(len(levels), self._k)
        starts = np.cumsum(sizes) - sizes
        ranked = np.sort(levels[:, [column.at for column in self._columns]], axis=0)
        sums = np.add.reduceat(ranked, starts, axis=0)
        self.noise.randomise(sums, contents)
        for number, column in enumerate(self._columns):
            means = np.clip(sums[:, number] / sizes, 0, column.top)
            points[:, column.at] = np.repeat(numeric_means(column.role, means), sizes)
        tops = np.array([max(column.top, 1) for column in self._columns])
        spread = (ranked[starts + sizes - 1] - ranked[starts]) / tops
        return sums, float(np.average(spread.mean(axis=1), weights=sizes))


class NoisyCounts:
    """Publish the labels of windows, repeated by their noisy counts."""

    def __init__(self, columns: Sequence[LabelColumn], *, most: int, key: NDArray[np.uint32]) -> None:
        """`most`: maximum number of rows per window."""
        self._columns = columns
        self.noise = WindowNoise(
            [DiscreteLaplace(cells=most, epsilon=column.decay * most) for column in columns], key=key
        )
        self._height = max((column.labels for column in columns), default=0)

    def release(self, levels: Levels, points: Points, contents: bytes) -> Ints:
        """Write sorted labels to `points`, repeated by their noisy counts, adjusted to the number of rows.

        Returns the noisy counts (labels, columns).
        """
        if not self._columns:
            return np.empty((0, 0), dtype=np.int64)
        counts = np.zeros((self._height, len(self._columns)), dtype=np.int64)
        for number, column in enumerate(self._columns):
            counts[: column.labels, number] = np.bincount(levels[:, column.at], minlength=column.labels)
        self.noise.randomise(counts, contents)
        for number, column in enumerate(self._columns):
            rows = fit_counts(counts[: column.labels, number], len(levels))
            points[:, column.at] = np.repeat(np.arange(column.labels), rows)
        return counts


def fit_counts(counts: Ints, rows: int) -> Ints:
    """Non-negative integers nearest to `counts` that sum to `rows`.

    The same amount is subtracted from all counts that stay positive (the projection onto the simplex), or added to all;
    remainders go to the largest fractions, the smaller label first. If only a few of many labels occur, this removes
    most of the noise; scaling would keep it.
    """
    amount = _excess(counts, rows)
    # (counts - amount) as multiples of 1 / denominator: integers throughout, so that ties are exact.
    exact = np.maximum(counts * amount.denominator - amount.numerator, 0)
    whole = exact // amount.denominator
    order = np.argsort(-(exact % amount.denominator), kind="stable")
    whole[order[: rows - int(whole.sum())]] += 1
    return whole


def _excess(counts: Ints, rows: int) -> Fraction:
    """Amount to subtract from each count that stays positive, so that they sum to `rows`."""
    highest = np.sort(counts)[::-1]
    total = np.cumsum(highest)
    # If the j largest stay positive, each loses (total_j - rows) / j: correct for the largest such j.
    stays = highest * np.arange(1, counts.size + 1) > total - rows
    last = int(np.flatnonzero(stays)[-1])
    return Fraction(int(total[last]) - rows, last + 1)
