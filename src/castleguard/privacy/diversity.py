"""Entropy and recursive (c, l)-diversity of a group, from the counts of its values.

Machanavajjhala, Gehrke, Kifer, Venkitasubramaniam: l-Diversity, ACM TKDD 1(1), 2007. See docs/concepts/criteria.md and
docs/proofs/criteria.md. Plain numpy, for the gate; the engine's kernels implement it separately.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64] | NDArray[np.int64]  # (values,) occurrences of each value
Diversity = Literal["distinct", "entropy", "recursive"]

SLACK = 1e-9  # rounding error of an entropy: l values of the same count have exactly ln l


def entropy(counts: Counts) -> float:
    """Shannon entropy of the counts, in nats; 0 if there are none.

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
    """Whether the entropy is at least ln l, the entropy of l equally frequent values."""
    return bool(np.any(np.asarray(counts) > 0)) and entropy(counts) >= np.log(l) - slack


def is_recursive_diverse(counts: Counts, c: float, l: int) -> bool:
    """Whether the most frequent value occurs less than c times as often as the l-th, (l+1)-th, ... together.

    >>> is_recursive_diverse(np.array([3, 2, 2]), c=2.0, l=2), is_recursive_diverse(np.array([4, 1, 1]), c=2.0, l=2)
    (True, False)
    """
    falling = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
    return falling.size > 0 and bool(falling[0] < c * falling[l - 1 :].sum())
