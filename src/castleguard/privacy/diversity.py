"""Entropy and recursive (c, l)-diversity of a group (Machanavajjhala, Gehrke, Kifer, Venkitasubramaniam: l-Diversity,
ACM TKDD 1(1), 2007), from how often each value occurs in it. See docs/concepts/criteria.md.

Plain numpy, for the gate and for whoever wants to know: the engine's own kernels are written apart.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64] | NDArray[np.int64]  # (values,) how often each value occurs, 0 for one that does not
Diversity = Literal["distinct", "entropy", "recursive"]

SLACK = 1e-9  # what rounding may take from an entropy: l values of the same count have exactly ln l


def entropy(counts: Counts) -> float:
    """Shannon's entropy of the counts, in nats; 0 for no counts at all.

    >>> round(entropy(np.array([5, 5, 0])), 6) == round(float(np.log(2)), 6)
    True
    """
    present = np.asarray(counts, dtype=np.float64)
    present = present[present > 0]
    if present.size == 0:
        return 0.0
    shares = present / present.sum()
    return max(0.0, float(-np.sum(shares * np.log(shares))))


def is_entropy_diverse(counts: Counts, l: int, *, slack: float = SLACK) -> bool:
    """Whether the entropy is at least ln l: as uncertain as l values of the same count."""
    return bool(np.any(np.asarray(counts) > 0)) and entropy(counts) >= np.log(l) - slack


def is_recursive_diverse(counts: Counts, c: float, l: int) -> bool:
    """Whether the most frequent value occurs less than c times as often as the l-th, (l+1)-th, ... together.

    >>> is_recursive_diverse(np.array([3, 2, 2]), c=2.0, l=2), is_recursive_diverse(np.array([4, 1, 1]), c=2.0, l=2)
    (True, False)
    """
    falling = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
    return falling.size > 0 and bool(falling[0] < c * falling[l - 1 :].sum())
