"""Size of CASTLEGUARD's noise: Theorem 1 of its paper, solved for each of its three quantities.

A value of an attribute with range R gets Laplace noise of scale R/phi, so

    P[|noise| < distance R] = 1 - exp(-distance phi).

If the range is public and values are clamped to it, the attribute is phi-differentially private: phi is the epsilon of
one numeric attribute of one row, and several attributes add up. If the range is the one seen so far, as in the paper,
no such claim holds. See docs/proofs/castleguard.md.
"""

import math

from castleguard.privacy.parameters import check_positive, check_probability


def probability_within(*, phi: float, distance: float) -> float:
    """Probability that a value moves by less than `distance`, a share of the attribute's range.

    >>> round(probability_within(phi=100, distance=0.05), 6)
    0.993262
    """
    return -math.expm1(-check_positive("distance", distance) * check_positive("phi", phi))


def phi_for(*, probability: float, distance: float) -> float:
    """Phi for which a value moves by less than `distance`, a share of the range, with this probability.

    >>> round(phi_for(probability=0.9, distance=0.05), 4)
    46.0517
    """
    return -math.log1p(-check_probability("probability", probability)) / check_positive("distance", distance)


def distance_for(*, phi: float, probability: float) -> float:
    """Share of the range within which a value moves with this probability.

    >>> round(distance_for(phi=100, probability=0.9), 6)
    0.023026
    """
    return -math.log1p(-check_probability("probability", probability)) / check_positive("phi", phi)
