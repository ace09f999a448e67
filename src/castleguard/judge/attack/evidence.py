"""Lower bounds on epsilon and delta from counted runs, to refute a claim of differential privacy.

An event E is counted in n runs on one stream and in n runs on its neighbour. If a claim of (epsilon, delta) is true,
the two probabilities satisfy

    P(E | one) <= exp(epsilon) P(E | other) + delta,

for E, for its complement, and with the streams exchanged. Exact confidence limits of both probabilities (Clopper and
Pearson 1934) turn the counts into lower bounds on the true values, with a stated confidence. Runs can refute a claim
but never prove it; `ceiling` is the largest epsilon that they could have shown.
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
    """Limits of the event's probability: at least `least` on one stream and, at once, at most `most` on the other."""

    least: Numbers
    most: Numbers

    def epsilon(self, dp_delta: float) -> Numbers:
        """Lower bound on epsilon at this delta, from the event or its complement; values below 0 show nothing."""
        with np.errstate(divide="ignore", invalid="ignore"):
            event = np.log(np.maximum(self.least - dp_delta, 0.0) / self.most)
            complement = np.log(np.maximum(1 - self.most - dp_delta, 0.0) / (1 - self.least))
        return np.fmax(event, complement)

    def dp_delta(self, epsilon: float) -> Numbers:
        """Lower bound on delta at this epsilon; values below 0 show nothing."""
        factor = math.exp(min(epsilon, 700.0))
        event = self.least - factor * self.most
        complement = (1 - self.most) - factor * (1 - self.least)
        return np.maximum(event, complement)


def limits(seen: Counts, seen_other: Counts, *, runs: int, alpha: float) -> ConfidenceLimits:
    """Limits that fail with probability at most `alpha`, half of it on each side."""
    return ConfidenceLimits(
        lower_limit(seen, runs=runs, alpha=alpha / 2), upper_limit(seen_other, runs=runs, alpha=alpha / 2)
    )


def lower_limit(seen: Counts, *, runs: int, alpha: float) -> Numbers:
    """Lower confidence limit of an event's probability, from its count in `runs`; fails with probability `alpha`."""
    from scipy.special import betaincinv

    counts = _check_counts(seen, runs, alpha)
    found: Numbers = np.where(counts == 0, 0.0, betaincinv(np.maximum(counts, 1), runs - counts + 1, alpha))
    return found


def upper_limit(seen: Counts, *, runs: int, alpha: float) -> Numbers:
    """Upper confidence limit of the probability; fails with probability `alpha`."""
    return 1 - lower_limit(runs - np.asarray(seen), runs=runs, alpha=alpha)


def ceiling(*, runs: int, alpha: float, dp_delta: float = 0.0) -> float:
    """Largest epsilon that `runs` runs on each stream can show.

    This needs an event that always happens on one stream and never on the other. With sampling, an event cannot happen
    more often than a row is kept, and the largest epsilon is lower accordingly.

    >>> round(ceiling(runs=1500, alpha=0.05), 1)
    6.0
    """
    return max(float(limits(np.array(runs), np.array(0), runs=runs, alpha=alpha).epsilon(dp_delta)), 0.0)


class Claim(NamedTuple):
    """A claim to be refuted: (epsilon, dp_delta)-differential privacy."""

    epsilon: float
    dp_delta: float

    def check(self) -> "Claim":
        """Return the claim; raise PolicyError if its parameters are invalid."""
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
        raise PolicyError(f"counts of an event must be between 0 and the number of runs ({runs})")
    return counts
