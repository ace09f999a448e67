"""Strict CASTLEGUARD's randomisers as definitions: what comes out for a given draw, and how likely each output is.

A number is rounded to a public grid, an integer of discrete Laplace noise is added, and the sum is clipped to the grid.
A category (a leaf number) or a sensitive value (a code) is answered at random: k-ary randomised response (k-RR). Both
are epsilon-differentially private for any two inputs; drawing is not part of this module.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, floor


@dataclass(frozen=True)
class Grid:
    """The points lower, lower + step, ..., upper: they are numbered 0..top, and the numbers are called levels."""

    lower: float
    upper: float
    step: float

    def __post_init__(self) -> None:
        cells = (_exact(self.upper) - _exact(self.lower)) / _exact(self.step)
        if cells.denominator != 1 or cells < 1:
            raise ValueError(f"the domain must be a whole number of steps, got {float(cells)}")

    @property
    def top(self) -> int:
        """The last level: D, the widest distance between two levels."""
        return int((_exact(self.upper) - _exact(self.lower)) / _exact(self.step))

    def level(self, x: float) -> int:
        """The level nearest to x, and of two the upper one.

        Not Python's round, which rounds halves to even: a step between two levels could then count double. In floating
        point as it stands here; the promise needs only that the level is one of 0..top.
        """
        clamped = min(max(x, self.lower), self.upper)
        return self.clip(floor((clamped - self.lower) / self.step + 0.5))

    def clip(self, level: int) -> int:
        return min(max(level, 0), self.top)

    def point(self, level: int) -> float:
        """The published number, rounded once: with a step of 0.1 level 3 is 0.3 and not 0.30000000000000004."""
        return float(_exact(self.lower) + level * _exact(self.step))

    def perturbed(self, x: float, noise: int) -> int:
        """Published level for x with this noise."""
        return self.clip(self.level(x) + noise)


def _exact(number: float) -> Fraction:
    """The number as it prints."""
    return Fraction(repr(number))


def noise_probability(noise: int, top: int, epsilon: float) -> float:
    """Discrete Laplace noise of scale top / epsilon: (1 - q) / (1 + q) * q^|noise|, with q = exp(-epsilon / top)."""
    q = exp(-epsilon / top)
    return (1 - q) / (1 + q) * q ** abs(noise)


def level_probability(true: int, told: int, top: int, epsilon: float) -> float:
    """Probability of level `told` given level `true`: one value of the noise, or a whole tail at either end."""
    q = exp(-epsilon / top)
    if told == 0:
        return float(q**true / (1 + q))  # noise <= -true
    if told == top:
        return float(q ** (top - true) / (1 + q))  # noise >= top - true
    return noise_probability(told - true, top, epsilon)


def keep_probability(values: int, epsilon: float) -> float:
    """Probability that k-RR over this many values answers truthfully."""
    return exp(epsilon) / (exp(epsilon) + values - 1)


def response(true: int, other: int | None) -> int:
    """Published code: the true one, or number `other` (from 0) of the other codes, in order."""
    if other is None:
        return true
    return other if other < true else other + 1


def response_probability(true: int, told: int, values: int, epsilon: float) -> float:
    """Probability of code `told` given code `true`: all other codes are equally likely."""
    return keep_probability(values, epsilon) if told == true else 1 / (exp(epsilon) + values - 1)
