"""What random sampling with suppression is worth: delta of (k, beta)-SDGS, Theorem 2 of CASTLEGUARD, and its inverses.

SDGS keeps every row with probability beta (`sample_rate`), generalises what is left by a rule that was fixed without
looking at the data, and publishes a group only if it has k rows (Li, Qardaji and Su 2012). Adding or removing one row
then changes what can be seen by at most (epsilon, delta), where delta is

    d(k, beta, eps) = max over n >= ceil(k/gamma - 1) of P[Bin(n, beta) > gamma n],   gamma = 1 - (1-beta) exp(-eps),

and n is the number of rows of the group before sampling. `sdgs_delta` is this value, `sdgs_delta_tight` the smallest
delta that is true of the same algorithm. The theorem speaks of SDGS alone: it does not cover an algorithm whose groups
depend on the data, such as CASTLEGUARD as its paper prints it.

Both maxima run over infinitely many n and neither is always at the first. docs/proofs/accounting.md shows that few of
them can hold it, and when it is safe to stop.
"""

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError
from castleguard.privacy.parameters import (
    LARGEST_COUNT,
    check_count,
    check_probability,
    check_sample_rate,
    check_sampling,
    least_epsilon,
    rounded_up,
)

Counts = NDArray[np.float64]  # whole numbers: those of the theorem pass what int64 can hold

_LEAST_DELTA = sys.float_info.min
_TIE = 1e-12
_AT_ONCE = 32
_ENDLESS = 800.0  # exp(-800) is 0 in float64
_TAIL = np.arange(64.0)


class WorstCase(NamedTuple):
    """Where the maximum lies: the group whose rows are exposed most."""

    dp_delta: float
    gamma: float
    first_rows: int
    """The smallest n that the maximum runs over."""
    rows: int
    """The n of the maximum: rows of the group before sampling, the one in question included."""


class _Sampling(NamedTuple):
    """The quantities of Theorem 2 that do not depend on k."""

    rate: float
    dropped: float
    """1 - gamma, computed by itself: near gamma = 1 the difference would have lost its digits."""
    gamma: float
    odds: float
    """(1 - gamma) / gamma: a group of n rows is exposed by m survivors if the other n - m are fewer than m odds."""
    divergence: float
    """KL(gamma || beta): P[Bin(n, beta) > gamma n] <= exp(-n divergence), by Chernoff."""


class _Teeth(NamedTuple):
    """Candidates for the maximum, n growing: the last (or, for the tight value, first) n for which `kept` expose."""

    kept: Counts
    lost: Counts

    @property
    def rows(self) -> Counts:
        return self.kept + self.lost


def sdgs_delta(*, k: int, sample_rate: float, epsilon: float) -> float:
    """Delta of SDGS at this epsilon by Theorem 2 of CASTLEGUARD.

    It never grows with k; it is a step function of epsilon; and no epsilon brings it below sample_rate ** k, because
    a group of exactly k rows is published only if all of them are kept. What is below 2.2e-308 is returned as that.

    >>> sdgs_delta(k=5, sample_rate=0.5, epsilon=1)  # P[Bin(6, 1/2) >= 5] = 7/64
    0.109375
    """
    return worst_case(k=k, sample_rate=sample_rate, epsilon=epsilon).dp_delta


def sdgs_delta_tight(*, k: int, sample_rate: float, epsilon: float) -> float:
    """The smallest delta for which SDGS is (epsilon, delta)-DP: the hockey-stick divergence at the worst group.

    Theorem 2 counts an outcome that exposes a row in full; here it counts only by as much as it exceeds exp(epsilon).

    >>> sdgs_delta_tight(k=5, sample_rate=0.5, epsilon=1)  # five of five
    0.03125
    """
    return worst_case(k=k, sample_rate=sample_rate, epsilon=epsilon, tight=True).dp_delta


def worst_case(*, k: int, sample_rate: float, epsilon: float, tight: bool = False) -> WorstCase:
    """The maximum of Theorem 2 (or its tight form) and the group it belongs to."""
    k = check_count("k", k, least=2)
    rate, loss = check_sampling(sample_rate=sample_rate, epsilon=epsilon)
    sampling = _sampling(rate, loss)
    probability = _exposed_tightly if tight else _exposed
    first_rows = int(_teeth(k, sampling, 0, tight=False).rows[0])
    best, rows, taken, settled = 0.0, first_rows, 0, False
    while not settled:
        teeth = _teeth(k, sampling, taken, tight=tight)
        bounds = np.exp(-teeth.rows * sampling.divergence * (1 - _TIE))
        worth = bounds > max(best, _LEAST_DELTA)
        worth[0] |= taken == 0
        found = probability(_Teeth(teeth.kept[worth], teeth.lost[worth]), sampling)
        if found.max(initial=0.0) > best:
            best, rows = float(found.max()), int(teeth.rows[worth][found.argmax()])
        # Later teeth have more rows, and so a smaller bound still.
        settled = bool(bounds[-1] <= max(best, _LEAST_DELTA))
        taken += _AT_ONCE
    return WorstCase(max(best, _LEAST_DELTA), sampling.gamma, first_rows, rows)


def min_k(*, sample_rate: float, epsilon: float, dp_delta: float, tight: bool = False) -> int:
    """The smallest k, at least 2, with which SDGS is (epsilon, dp_delta)-DP.

    >>> min_k(sample_rate=0.1, epsilon=1, dp_delta=1e-5)
    7
    """
    rate, loss = check_sampling(sample_rate=sample_rate, epsilon=epsilon)
    bound = _check_target(dp_delta)

    def enough(k: int) -> bool:
        return worst_case(k=k, sample_rate=rate, epsilon=loss, tight=tight).dp_delta <= bound

    # Below this k even sample_rate ** k is too much.
    too_few = min(max(1, math.ceil(math.log(bound) / math.log(rate)) - 2), LARGEST_COUNT - 1)
    while too_few > 1 and enough(too_few):
        too_few //= 2
    step = 1
    while not enough(min(too_few + step, LARGEST_COUNT)):
        if too_few + step >= LARGEST_COUNT:
            raise PolicyError(f"no k up to 2**53 reaches dp_delta {bound:g} with sample_rate {rate:g}: sample less")
        too_few += step
        step *= 2
    return _first_whole(enough, too_few, min(too_few + step, LARGEST_COUNT))


def min_epsilon(*, k: int, sample_rate: float, dp_delta: float, tight: bool = False) -> float:
    """The smallest epsilon for which SDGS is (epsilon, dp_delta)-DP, to about one part in 10**12, rounded up.

    >>> round(min_epsilon(k=7, sample_rate=0.5, dp_delta=1e-2), 9) == round(math.log(5), 9)
    True
    """
    k, rate, bound = check_count("k", k, least=2), check_sample_rate(sample_rate), _check_target(dp_delta)

    def enough(epsilon: float) -> bool:
        return worst_case(k=k, sample_rate=rate, epsilon=epsilon, tight=tight).dp_delta <= bound

    low = least_epsilon(sample_rate=rate)
    if enough(low):
        return low
    if not enough(_ENDLESS):
        least = worst_case(k=k, sample_rate=rate, epsilon=_ENDLESS).dp_delta
        raise PolicyError(
            f"dp_delta {bound:g} cannot be reached at any epsilon: with k {k} and sample_rate {rate:g} "
            f"it is at least sample_rate ** k = {rounded_up(least, 3)}"
        )
    high = 2 * low
    while not enough(high):
        low, high = high, 2 * high
    return _first_number(enough, low, high)


def _sampling(rate: float, epsilon: float) -> _Sampling:
    """Everything is computed for an epsilon that is smaller by one part in 10**12, which can only raise delta.

    So a tie (gamma n is a whole number, which decides whether n counts) is never lost to rounding.
    """
    epsilon *= 1 - _TIE
    gained = (1 - rate) * -math.expm1(-epsilon)
    gamma, dropped = rate + gained, (1 - rate) * math.exp(-epsilon)
    divergence = gamma * math.log1p(gained / rate) - epsilon * dropped
    return _Sampling(rate, dropped, gamma, dropped / gamma, divergence)


def _teeth(k: int, sampling: _Sampling, skip: int, *, tight: bool) -> _Teeth:
    """The next candidates after the first `skip`.

    As a function of n the probability is a saw: for each number m of survivors there is a run of n in which exactly
    m and more expose. By Theorem 2 the probability grows along a run, so its last n counts: ceil(m odds) - 1 lost. The
    tight value falls along a run, so its first n counts: ceil((m-1) odds) - 1 lost. Among teeth with equally many lost
    the first is the highest in both, so where odds < 1, and many are equal, one tooth is made for each number lost.
    """
    index = skip + np.arange(float(_AT_ONCE))
    shift = 1 if tight else 0
    first = k - shift
    odds = sampling.odds
    if odds >= 1:
        reach = first + index
        lost = np.ceil(reach * odds) - 1
    else:
        lost = max(math.ceil(first * odds) - 1, 0) + index
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reach = np.floor(lost / odds) + 1
        reach[0] = first if skip == 0 else reach[0]
    return _Teeth(reach + shift, lost)


def _exposed(teeth: _Teeth, sampling: _Sampling) -> NDArray[np.float64]:
    """P[Bin(n, beta) >= kept], for each tooth."""
    from scipy.special import betainc

    found: NDArray[np.float64] = betainc(teeth.kept, teeth.lost + 1, sampling.rate)
    return found


def _exposed_tightly(teeth: _Teeth, sampling: _Sampling) -> NDArray[np.float64]:
    """The sum over j >= kept of f(j; n, beta) (1 - (n - j) / (n (1 - gamma))), for each tooth.

    It is the probability times the mean weight of j under it. Each f(j) is at most half of the one before, so 64 terms
    are all there is to a float64; differences of two tails would lose digits instead.
    """
    missing = np.maximum(teeth.lost[:, None] - _TAIL, 0.0)  # n - j
    ratio = missing / (teeth.kept[:, None] + _TAIL + 1) * (sampling.rate / (1 - sampling.rate))
    share = np.cumprod(np.hstack([np.ones((len(ratio), 1)), ratio[:, :-1]]), axis=1)
    expected = np.maximum(teeth.rows[:, None] * sampling.dropped, _LEAST_DELTA)
    weight = np.maximum(1 - missing / expected, 0.0)
    mean_weight: NDArray[np.float64] = (share * weight).sum(axis=1) / share.sum(axis=1)
    return _exposed(teeth, sampling) * mean_weight


def _check_target(dp_delta: object) -> float:
    """A delta to be reached: above 0, because sampling never reaches 0."""
    return check_probability("dp_delta", dp_delta)


def _first_whole(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number that is enough, where `low` is not and `high` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _first_number(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The same for real numbers, as far as float64 can tell them apart."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        low, high = (low, middle) if enough(middle) else (middle, high)
