"""What counted runs prove about a claim of differential privacy: lower bounds on epsilon and delta.

An event was seen in some of n runs on one stream and in some of n runs on its neighbour. If a claim of (epsilon, delta)
were true, the two probabilities would satisfy

    P(E | one) <= exp(epsilon) P(E | other) + delta,

for E, for its complement, and with the streams exchanged. Exact confidence limits of both probabilities (Clopper and
Pearson 1934) turn that into numbers that the truth exceeds, with a stated confidence. Nothing here can show that a
claim is true: runs that find little have found little, and `ceiling` says how much they could have found.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError
from castleguard.privacy.parameters import check_count, check_epsilon, check_probability

Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]


class ConfidenceLimits(NamedTuple):
    """With the stated confidence both hold: the event's probability on one stream is at least `least`, and on the other
    at most `most`.
    """

    least: Numbers
    most: Numbers

    def epsilon(self, dp_delta: float) -> Numbers:
        """The epsilon that is exceeded at this delta, by the event or by its complement; below 0, nothing is shown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            event = np.log(np.maximum(self.least - dp_delta, 0.0) / self.most)
            complement = np.log(np.maximum(1 - self.most - dp_delta, 0.0) / (1 - self.least))
        return np.fmax(event, complement)

    def dp_delta(self, epsilon: float) -> Numbers:
        """The delta that is exceeded at this epsilon; below 0, nothing is shown."""
        factor = math.exp(min(epsilon, 700.0))
        event = self.least - factor * self.most
        complement = (1 - self.most) - factor * (1 - self.least)
        return np.maximum(event, complement)


def limits(seen: Counts, seen_other: Counts, *, runs: int, alpha: float) -> ConfidenceLimits:
    """Limits that fail with probability `alpha` at most, half of it on either side."""
    return ConfidenceLimits(
        lower_limit(seen, runs=runs, alpha=alpha / 2), upper_limit(seen_other, runs=runs, alpha=alpha / 2)
    )


def lower_limit(seen: Counts, *, runs: int, alpha: float) -> Numbers:
    """The probability above which the true one lies, but for `alpha`, when an event was seen so often in `runs`."""
    from scipy.special import betaincinv

    counts = _check_counts(seen, runs, alpha)
    found: Numbers = np.where(counts == 0, 0.0, betaincinv(np.maximum(counts, 1), runs - counts + 1, alpha))
    return found


def upper_limit(seen: Counts, *, runs: int, alpha: float) -> Numbers:
    """The probability below which the true one lies, but for `alpha`."""
    return 1 - lower_limit(runs - np.asarray(seen), runs=runs, alpha=alpha)


def ceiling(*, runs: int, alpha: float, dp_delta: float = 0.0) -> float:
    """The largest epsilon that so many runs on either side can prove, whatever is true.

    It takes an event that always happens on one stream, and never on the other. Where rows are sampled it cannot
    happen more often than a row is kept, and the most that can be proved is lower accordingly.

    >>> round(ceiling(runs=1500, alpha=0.05), 1)
    6.0
    """
    return max(float(limits(np.array(runs), np.array(0), runs=runs, alpha=alpha).epsilon(dp_delta)), 0.0)


class Claim(NamedTuple):
    """What is to be refuted: (epsilon, dp_delta)-differential privacy."""

    epsilon: float
    dp_delta: float

    def check(self) -> "Claim":
        """The claim itself, if it is one."""
        check_epsilon(self.epsilon)
        check_probability("dp_delta", self.dp_delta, zero=True, one=True)
        return self

    def __str__(self) -> str:
        return f"({self.epsilon:.4g}, {self.dp_delta:.3g})"


def _check_counts(seen: Counts, runs: int, alpha: float) -> Counts:
    check_count("runs", runs)
    check_probability("alpha", alpha)
    counts = np.asarray(seen)
    if np.any((counts < 0) | (counts > runs)):
        raise PolicyError(f"an event cannot be seen more often than there are runs ({runs}), nor less than never")
    return counts
