"""Guarantees independent of any stream: criteria, mechanisms, accounting, and the privacy statement.

>>> from castleguard.privacy import min_k
>>> min_k(sample_rate=0.1, epsilon=1, dp_delta=1e-6)
9
"""

from castleguard.privacy.composition import (
    Loss,
    compose,
    compose_advanced,
    compose_basic,
    compose_zcdp,
    compositions,
    group,
    subsampled,
    zcdp_epsilon,
    zcdp_rho,
)
from castleguard.privacy.parameters import least_epsilon
from castleguard.privacy.perturbation import distance_for, phi_for, probability_within
from castleguard.privacy.sdgs import min_epsilon, min_k, sdgs_delta, sdgs_delta_tight

__all__ = [
    "Loss",
    "compose",
    "compose_advanced",
    "compose_basic",
    "compose_zcdp",
    "compositions",
    "distance_for",
    "group",
    "least_epsilon",
    "min_epsilon",
    "min_k",
    "phi_for",
    "probability_within",
    "sdgs_delta",
    "sdgs_delta_tight",
    "subsampled",
    "zcdp_epsilon",
    "zcdp_rho",
]
