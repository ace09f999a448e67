"""Noise on every value of every row, without grouping: no delay, and its cost."""

import numpy as np

from castleguard.errors import UsageError
from castleguard.lab.baselines.coded_boxes import Coded
from castleguard.lab.baselines.naive import naive_laplace
from castleguard.schema.roles import Numeric


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
