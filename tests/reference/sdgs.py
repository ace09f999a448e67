"""Theorem 2 of CASTLEGUARD as it is printed, and the definition of differential privacy itself, in exact fractions.

    d(k, beta, eps) = max over n >= ceil(k/gamma - 1) of the sum over j > gamma n, up to n, of f(j; n, beta)
    f(j; n, beta) = C(n, j) beta^j (1-beta)^(n-j)
    gamma = (e^eps - 1 + beta) / e^eps

The maximum runs over infinitely many n; the caller says up to which one to look. e^eps is a fraction as well: the
caller gives it, so that it can be any number, also one for which gamma n is whole.
"""

from fractions import Fraction
from math import ceil, comb, floor
from typing import NamedTuple


class Maximum(NamedTuple):
    """The largest value, and the smallest n that has it."""

    value: Fraction
    n: int


def f(j: int, n: int, beta: Fraction) -> Fraction:
    """The probability that j of n rows are kept."""
    return comb(n, j) * beta**j * (1 - beta) ** (n - j)


def gamma(beta: Fraction, e_eps: Fraction) -> Fraction:
    """Equation (7)."""
    return (e_eps - 1 + beta) / e_eps


def first_n(k: int, beta: Fraction, e_eps: Fraction) -> int:
    """Where the maximum of equation (5) begins."""
    return ceil(k / gamma(beta, e_eps) - 1)


def d(k: int, beta: Fraction, e_eps: Fraction, up_to: int) -> Maximum:
    """Equation (5)."""
    best = Maximum(Fraction(0), 0)
    for n in range(first_n(k, beta, e_eps), up_to + 1):
        value = Fraction(0)
        for j in range(floor(gamma(beta, e_eps) * n) + 1, n + 1):
            value += f(j, n, beta)
        if value > best.value:
            best = Maximum(value, n)
    return best


def seen(n: int, k: int, beta: Fraction) -> list[Fraction]:
    """Distribution of the output for a group of n rows: probability of "suppressed", of k rows, of k + 1 rows, ..."""
    published = [f(j, n, beta) for j in range(k, n + 1)]
    return [1 - sum(published, Fraction(0)), *published]


def divergence(one: list[Fraction], other: list[Fraction], e_eps: Fraction) -> Fraction:
    """The largest P[E] - e^eps Q[E] over all events E."""
    longest = max(len(one), len(other))
    one, other = ([*law, *[Fraction(0)] * (longest - len(law))] for law in (one, other))
    return sum((max(p - e_eps * q, Fraction(0)) for p, q in zip(one, other, strict=True)), Fraction(0))


def smallest_delta(k: int, beta: Fraction, e_eps: Fraction, up_to: int) -> Maximum:
    """The delta of the definition: the worst group of n rows against the same group without one, in both directions."""
    best = Maximum(Fraction(0), 0)
    for n in range(1, up_to + 1):
        with_it, without_it = seen(n, k, beta), seen(n - 1, k, beta)
        value = max(divergence(with_it, without_it, e_eps), divergence(without_it, with_it, e_eps))
        if value > best.value:
            best = Maximum(value, n)
    return best
