"""Delta of sampling with suppression: (k, beta)-SDGS by Theorem 2 of CASTLEGUARD, and its inverses.

SDGS keeps every row with probability beta (`sample_rate`), generalises the kept rows by a rule that does not depend on
the data, and publishes a group only if it has k rows (Li, Qardaji and Su 2012). This is (epsilon, delta)-differentially
private for adding or removing one row, where delta is

    d(k, beta, eps) = max over n >= ceil(k/gamma - 1) of P[Bin(n, beta) > gamma n],   gamma = 1 - (1-beta) exp(-eps),

and n is the number of rows of the group before sampling. `sdgs_delta` is this value, `sdgs_delta_tight` the smallest
delta that holds for the same algorithm. The theorem covers SDGS only, not algorithms whose groups depend on the data,
such as CASTLEGUARD as printed.

Both maxima run over infinitely many n, and neither is always at the smallest n. docs/proofs/accounting.md shows that
only a few n can attain them, and when it is safe to stop.
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

Counts = NDArray[np.float64]  # whole numbers; those of the theorem can exceed int64

_LEAST_DELTA = sys.float_info.min
_TIE = 1e-12
_AT_ONCE = 32
_ENDLESS = 800.0  # exp(-800) is 0 in float64
_TAIL = np.arange(64.0)


class WorstCase(NamedTuple):
    """The group at which the maximum is attained: its rows are exposed most."""

    dp_delta: float
    gamma: float
    first_rows: int
    """Smallest n of the maximum's range."""
    rows: int
    """n at the maximum: rows of the group before sampling, including the row in question."""


class _Sampling(NamedTuple):
    """Quantities of Theorem 2 that do not depend on k."""

    rate: float
    dropped: float
    """1 - gamma, computed directly: near gamma = 1 the difference would lose its digits."""
    gamma: float
    odds: float
    """(1 - gamma) / gamma: m sampled rows expose a group of n rows if the other n - m are fewer than m odds."""
    divergence: float
    """KL(gamma || beta): P[Bin(n, beta) > gamma n] <= exp(-n divergence), by Chernoff."""


class _Teeth(NamedTuple):
    """Candidates for the maximum, n ascending: the last (tight: the first) n at which `kept` rows expose a group."""

    kept: Counts
    lost: Counts

    @property
    def rows(self) -> Counts:
        return self.kept + self.lost


def sdgs_delta(*, k: int, sample_rate: float, epsilon: float) -> float:
    """Delta of SDGS at this epsilon by Theorem 2 of CASTLEGUARD.

    It never grows with k, is a step function of epsilon, and is never below sample_rate ** k, because a group of
    exactly k rows is published only if all of them are kept. The smallest value returned is 2.2e-308.

    >>> sdgs_delta(k=5, sample_rate=0.5, epsilon=1)  # P[Bin(6, 1/2) >= 5] = 7/64
    0.109375
    """
    return worst_case(k=k, sample_rate=sample_rate, epsilon=epsilon).dp_delta


def sdgs_delta_tight(*, k: int, sample_rate: float, epsilon: float) -> float:
    """Smallest delta for which SDGS is (epsilon, delta)-DP: the hockey-stick divergence of the worst group.

    Theorem 2 counts the full probability of an outcome that exposes a row; here only the excess over exp(epsilon)
    counts.

    >>> sdgs_delta_tight(k=5, sample_rate=0.5, epsilon=1)  # five of five
    0.03125
    """
    return worst_case(k=k, sample_rate=sample_rate, epsilon=epsilon, tight=True).dp_delta


def worst_case(*, k: int, sample_rate: float, epsilon: float, tight: bool = False) -> WorstCase:
    """Maximum of Theorem 2 (or of its tight form) and the group that attains it."""
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
        # Later teeth have more rows, and so a smaller bound.
        settled = bool(bounds[-1] <= max(best, _LEAST_DELTA))
        taken += _AT_ONCE
    return WorstCase(max(best, _LEAST_DELTA), sampling.gamma, first_rows, rows)


def min_k(*, sample_rate: float, epsilon: float, dp_delta: float, tight: bool = False) -> int:
    """Smallest k, at least 2, for which SDGS is (epsilon, dp_delta)-DP.

    >>> min_k(sample_rate=0.1, epsilon=1, dp_delta=1e-5)
    7
    """
    rate, loss = check_sampling(sample_rate=sample_rate, epsilon=epsilon)
    bound = _check_target(dp_delta)

    def enough(k: int) -> bool:
        return worst_case(k=k, sample_rate=rate, epsilon=loss, tight=tight).dp_delta <= bound

    # Below this k even sample_rate ** k exceeds the bound.
    too_few = min(max(1, math.ceil(math.log(bound) / math.log(rate)) - 2), LARGEST_COUNT - 1)
    while too_few > 1 and enough(too_few):
        too_few //= 2
    step = 1
    while not enough(min(too_few + step, LARGEST_COUNT)):
        if too_few + step >= LARGEST_COUNT:
            raise PolicyError(
                f"no k up to 2**53 reaches dp_delta {bound:g} with sample_rate {rate:g}: lower sample_rate"
            )
        too_few += step
        step *= 2
    return _first_whole(enough, too_few, min(too_few + step, LARGEST_COUNT))


def min_epsilon(*, k: int, sample_rate: float, dp_delta: float, tight: bool = False) -> float:
    """Smallest epsilon for which SDGS is (epsilon, dp_delta)-DP, to about one part in 10**12, rounded up.

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
            f"no epsilon reaches dp_delta {bound:g}: with k {k} and sample_rate {rate:g} "
            f"it is at least sample_rate ** k = {rounded_up(least, 3)} (raise k or lower sample_rate)"
        )
    high = 2 * low
    while not enough(high):
        low, high = high, 2 * high
    return _first_number(enough, low, high)


def _sampling(rate: float, epsilon: float) -> _Sampling:
    """Quantities for an epsilon that is smaller by one part in 10**12, which can only raise delta.

    Rounding therefore never loses a tie: whether n counts depends on whether gamma n is a whole number.
    """
    epsilon *= 1 - _TIE
    gained = (1 - rate) * -math.expm1(-epsilon)
    gamma, dropped = rate + gained, (1 - rate) * math.exp(-epsilon)
    divergence = gamma * math.log1p(gained / rate) - epsilon * dropped
    return _Sampling(rate, dropped, gamma, dropped / gamma, divergence)


def _teeth(k: int, sampling: _Sampling, skip: int, *, tight: bool) -> _Teeth:
    """Next candidates after the first `skip`.

    As a function of n the probability is a sawtooth: for each number m of sampled rows, m or more expose the group in a
    run of consecutive n. In Theorem 2 the probability grows along a run, so the last n counts: ceil(m odds) - 1 lost
    rows. The tight value falls along a run, so the first n counts: ceil((m-1) odds) - 1 lost. Among teeth with equally
    many lost rows the first is the highest in both cases. If odds < 1 many teeth are equal, so only one is made for
    each number of lost rows.
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
    """Sum over j >= kept of f(j; n, beta) (1 - (n - j) / (n (1 - gamma))), for each tooth.

    Computed as the probability times the mean weight of j. Each f(j) is at most half of the one before, so 64 terms
    suffice for float64; the difference of two tails would lose digits.
    """
    missing = np.maximum(teeth.lost[:, None] - _TAIL, 0.0)  # n - j
    ratio = missing / (teeth.kept[:, None] + _TAIL + 1) * (sampling.rate / (1 - sampling.rate))
    share = np.cumprod(np.hstack([np.ones((len(ratio), 1)), ratio[:, :-1]]), axis=1)
    expected = np.maximum(teeth.rows[:, None] * sampling.dropped, _LEAST_DELTA)
    weight = np.maximum(1 - missing / expected, 0.0)
    mean_weight: NDArray[np.float64] = (share * weight).sum(axis=1) / share.sum(axis=1)
    return _exposed(teeth, sampling) * mean_weight


def _check_target(dp_delta: object) -> float:
    """Check a target delta: above 0, because sampling never reaches 0."""
    return check_probability("dp_delta", dp_delta)


def _first_whole(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest number that is enough, given that `low` is not and `high` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _first_number(enough: Callable[[float], bool], low: float, high: float) -> float:
    """`_first_whole` for real numbers, to the resolution of float64."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        low, high = (low, middle) if enough(middle) else (middle, high)
