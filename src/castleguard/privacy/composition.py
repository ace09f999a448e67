"""Privacy loss of several uses of a mechanism, and the effect of sampling and of groups on one use.

Every use of an (epsilon, dp_delta)-differentially private mechanism on rows of the same person adds to the loss. Three
bounds on the total are known, and none is always the smallest:

    basic      epsilons and deltas add up                             Dwork, McSherry, Nissim and Smith 2006
    advanced   epsilon grows with the root of the number of uses,     Dwork, Rothblum and Vadhan 2010, with the mean
               at the cost of a further delta                         loss of Kairouz, Oh and Viswanath 2015
    zCDP       the same through concentrated differential privacy,    Bun and Steinke 2016; converted as in Canonne,
               for uses without their own delta                       Kamath and Steinke 2020

All three hold, so `compose` takes the smallest. See docs/proofs/accounting.md for the formulas.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from castleguard.errors import PolicyError
from castleguard.privacy.parameters import check_count, check_epsilon, check_probability, rounded_up

Method = Literal["basic", "advanced", "zCDP", "subsampled", "group"]

_ROUNDING = 1e-12
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Bound on a privacy loss: (epsilon, dp_delta)-differential privacy, and the method that gives it."""

    epsilon: float
    dp_delta: float
    method: Method

    def __str__(self) -> str:
        return f"epsilon {rounded_up(self.epsilon)}, delta {rounded_up(self.dp_delta, 3)} ({self.method})"


def compose(*, epsilon: float, times: int, dp_delta: float = 0.0, total_delta: float, tight: bool = False) -> Loss:
    """Smallest known epsilon for `times` uses at one total delta.

    Basic composition may leave part of the total unused: its delta is `times` times `dp_delta`.
    See `zcdp_rho` for `tight`.

    >>> compose(epsilon=0.1, times=1000, total_delta=1e-6).method
    'zCDP'
    >>> str(compose(epsilon=1, times=3, dp_delta=1e-7, total_delta=1e-6))
    'epsilon 3, delta 3e-07 (basic)'
    """
    losses = compositions(epsilon=epsilon, times=times, dp_delta=dp_delta, total_delta=total_delta, tight=tight)
    return min(losses, key=lambda loss: loss.epsilon)


def compositions(
    *, epsilon: float, times: int, dp_delta: float = 0.0, total_delta: float, tight: bool = False
) -> tuple[Loss, ...]:
    """Every bound that applies at this total delta: basic always, advanced and zCDP if some delta is left for them."""
    allowed = check_probability("total_delta", total_delta, zero=True)
    basic = compose_basic(epsilon=epsilon, times=times, dp_delta=dp_delta)
    # A total equal to the sum of the deltas may be below it by rounding.
    if basic.dp_delta > allowed * (1 + _ROUNDING):
        raise PolicyError(_overspent(times, basic.dp_delta, allowed))
    losses = [basic]
    if basic.dp_delta < allowed * (1 - _ROUNDING):
        losses.append(compose_advanced(epsilon=epsilon, times=times, dp_delta=dp_delta, total_delta=total_delta))
        if dp_delta == 0:
            losses.append(compose_zcdp(epsilon=epsilon, times=times, total_delta=total_delta, tight=tight))
    return tuple(losses)


def compose_basic(*, epsilon: float, times: int, dp_delta: float = 0.0) -> Loss:
    """Epsilons and deltas add up.

    >>> compose_basic(epsilon=0.5, times=8, dp_delta=1e-6)
    Loss(epsilon=4.0, dp_delta=8e-06, method='basic')
    """
    count = check_count("times", times)
    delta = check_probability("dp_delta", dp_delta, zero=True)
    return Loss(epsilon=count * check_epsilon(epsilon), dp_delta=min(count * delta, 1.0), method="basic")


def compose_advanced(*, epsilon: float, times: int, dp_delta: float = 0.0, total_delta: float) -> Loss:
    """Epsilon grows with the root of the number of uses, at the cost of the delta that the uses leave.

    With c uses and d' = total_delta - c dp_delta: epsilon sqrt(2 c ln(1/d')) + c epsilon tanh(epsilon/2).
    """
    loss, count = check_epsilon(epsilon), check_count("times", times)
    total = check_probability("total_delta", total_delta)
    spent = count * check_probability("dp_delta", dp_delta, zero=True)
    if spent >= total:
        raise PolicyError(_overspent(times, spent, total))
    spread = loss * math.sqrt(2 * count * -math.log(total - spent))
    return Loss(epsilon=spread + count * zcdp_rho(epsilon=loss, tight=True), dp_delta=total, method="advanced")


def compose_zcdp(*, epsilon: float | Iterable[float], times: int = 1, total_delta: float, tight: bool = False) -> Loss:
    """`times` uses of pure epsilon-DP mechanisms: a single one, or a list that is used as a whole each time.

    >>> both = compose_zcdp(epsilon=[0.1, 0.3], times=50, total_delta=1e-6)
    >>> both.epsilon < 50 * (0.1 + 0.3)
    True
    """
    epsilons = list(epsilon) if isinstance(epsilon, Iterable) else [epsilon]
    rho = check_count("times", times) * math.fsum(zcdp_rho(epsilon=each, tight=tight) for each in epsilons)
    total = check_probability("total_delta", total_delta)
    return Loss(epsilon=zcdp_epsilon(rho=rho, total_delta=total), dp_delta=total, method="zCDP")


def zcdp_rho(*, epsilon: float, tight: bool = False) -> float:
    """Rho for which every pure epsilon-DP mechanism is rho-zCDP. Rhos add up.

    epsilon**2 / 2 by default. If `tight`, epsilon tanh(epsilon/2): never more, and exact for randomised response.
    """
    loss = check_epsilon(epsilon)
    return loss * math.tanh(loss / 2) if tight else loss * loss / 2


def zcdp_epsilon(*, rho: float, total_delta: float) -> float:
    """Epsilon of a rho-zCDP mechanism at this delta.

    The minimum over orders a > 1 of a rho + ln(1 - 1/a) + ln(1/(a delta)) / (a-1). Every order gives a valid bound, so
    a search that ends early errs on the safe side; rho + 2 sqrt(rho ln(1/delta)) is never exceeded.
    """
    rho, delta = check_epsilon(rho, name="rho"), check_probability("total_delta", total_delta)
    if rho == 0:
        return 0.0
    simple = rho + 2 * math.sqrt(rho * -math.log(delta))

    def at(log_order: float) -> float:
        above = math.exp(log_order)  # a - 1
        return (1 + above) * rho - math.log1p(1 / above) - (math.log(delta) + math.log1p(above)) / above

    best_of_simple = 0.5 * math.log(-math.log(delta) / rho)
    return max(min(simple, _minimum(at, best_of_simple - 8, best_of_simple + 8)), 0.0)


def subsampled(*, epsilon: float, dp_delta: float = 0.0, sample_rate: float) -> Loss:
    """Loss of one use on a Poisson sample: every row is kept with probability `sample_rate` before the mechanism.

    epsilon' = ln(1 + rate (exp(epsilon) - 1)), delta' = rate delta (Li, Qardaji and Su 2012; Balle, Barthe and Gaboardi
    2018). This holds only if the mechanism is (epsilon, dp_delta)-DP for adding and removing a row and the sample stays
    secret, as with noisy counts. It does NOT apply where each row is published with its own noise, as in local
    randomisation: a published row shows that it was sampled, so sampling gains nothing.

    >>> subsampled(epsilon=1, sample_rate=0.1).epsilon < 0.16
    True
    """
    loss, rate = check_epsilon(epsilon), check_probability("sample_rate", sample_rate, one=True)
    if loss < 1:
        amplified = math.log1p(rate * math.expm1(loss))
    else:  # exp(epsilon) may be too large for a float
        amplified = loss + math.log(rate + (1 - rate) * math.exp(-loss))
    delta = rate * check_probability("dp_delta", dp_delta, zero=True)
    return Loss(epsilon=amplified, dp_delta=delta, method="subsampled")


def group(*, epsilon: float, dp_delta: float = 0.0, size: int) -> Loss:
    """Loss of one use for a group of `size` rows: (size epsilon, delta (e^(size epsilon)-1)/(e^epsilon-1)).

    >>> group(epsilon=0.5, size=4)
    Loss(epsilon=2.0, dp_delta=0.0, method='group')
    """
    loss, rows = check_epsilon(epsilon), check_count("size", size)
    delta = check_probability("dp_delta", dp_delta, zero=True)
    if loss == 0:
        grown = rows * delta
    elif rows * loss < 700:
        grown = delta * math.expm1(rows * loss) / math.expm1(loss)
    else:
        grown = 1.0 if delta else 0.0
    return Loss(epsilon=rows * loss, dp_delta=min(grown, 1.0), method="group")


def _overspent(times: int, spent: float, total: float) -> str:
    return (
        f"total_delta {total:g} is too small: {times} uses alone have a delta of {rounded_up(spent, 3)} "
        "(raise total_delta or lower dp_delta)"
    )


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Smallest value that a golden-section search finds."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-9:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(at_left, at_right)
