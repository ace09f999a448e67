"""The baseline of DOCA's paper: noise on every value by itself, without grouping.

For comparison only. The noise is drawn in floating point by a generator that is not secret, and a sum of floating-point
numbers discloses more about its terms than the formula admits (Mironov 2012). `castleguard.privacy.noise` is exact and
may be published.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.measure.error import finite_numbers
from castleguard.judge.reading.values import Numbers
from castleguard.lab.baselines.coded_boxes import Coded
from castleguard.privacy.parameters import check_count, check_positive
from castleguard.schema.roles import Numeric


def naive_laplace(values: ArrayLike, *, epsilon: float, sensitivity: float, seed: int) -> Numbers:
    """Every value plus independent Laplace noise of scale sensitivity / epsilon. NOT to be published.

    The mean squared error is about 2 (sensitivity / epsilon)^2 for any values. Epsilon 0 would be infinite noise and
    sensitivity 0 none at all; both are refused.

    >>> naive_laplace([10, 20, 30], epsilon=1, sensitivity=2, seed=1).round(2).tolist()
    [10.05, 24.62, 27.51]
    """
    numbers = finite_numbers("values", values)
    scale = check_positive("sensitivity", sensitivity) / check_positive("epsilon", epsilon)
    if not 0 < scale < math.inf:
        raise PolicyError(f"sensitivity / epsilon must be a finite number above 0, got {sensitivity} / {epsilon}")
    return numbers + np.random.default_rng(check_count("seed", seed, least=0)).laplace(0.0, scale, numbers.size)


def laplace_error(coded: Coded, *, epsilon: float, seed: int = 0) -> float:
    """Mean distance of a noisy number from the true one, as a share of the domain; NaN without rows.

    A row's epsilon is split evenly among its columns, each value may be anything within its public bounds, and noisy
    values beyond these are moved to the nearest bound.
    """
    for role in coded.schema.quasi_identifiers:
        if not isinstance(role, Numeric):
            raise UsageError(f"Laplace noise is for numbers, and column {role.name!r} holds categories")
    lower, upper = coded.domain
    values = coded.rows.quasi[coded.usable]
    if not values.size:
        return float("nan")
    shares = (values - lower) / coded.widths
    columns = shares.shape[1]
    noisy = naive_laplace(shares.ravel(), epsilon=epsilon / columns, sensitivity=1.0, seed=seed).reshape(shares.shape)
    return float(np.abs(np.clip(noisy, 0.0, (upper - lower) / coded.widths) - shares).mean())
