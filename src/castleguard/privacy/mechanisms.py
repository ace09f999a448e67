"""Mechanisms that randomise one value: discrete Laplace noise, k-ary randomised response, and a coin.

A mechanism maps a level, a whole number from 0 to `top`, to a random level. For any two true levels, the probabilities
of an outcome differ by a factor of at most exp(epsilon). A mechanism has its probabilities in closed form, and the
cumulative ones, truncated to any number of words, that `kernels/exact_noise.py` compares random words with. The proofs
are in docs/proofs/noise.md.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from castleguard.errors import PolicyError
from castleguard.kernels.exact_noise import DIGIT
from castleguard.privacy.enclosure import Arithmetic, Enclosure, leading_bits
from castleguard.privacy.parameters import is_whole

MAX_CELLS = 1 << 53
MAX_VALUES = 1 << 31
_WORD = 32
_MOST_SUMMED = 10_000  # levels
_SHOWN = 50  # decimal digits of a probability

Table = list[int]
"""Cumulative probabilities of a draw's outcomes except the last, ascending, each as floor(c * 2^(32 * words))."""


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """y = clip(i + N, 0, D) for a level i of 0..D, where P(N = n) is proportional to q^|n| and q = exp(-epsilon/D).

    Ghosh, Roughgarden and Sundararajan 2009 (the geometric mechanism). Exact sampling is due to Canonne, Kamath and
    Steinke 2020; here it is replaced by table look-ups with the same distribution.

    Why the draws have this distribution: N is zero with probability (1 - q)/(1 + q), else it has a fair sign and
    |N| - 1 is geometric with ratio q. The base-256 digits of a geometric variable are independent, because
    q^(256 h + r) is a product of a function of h and one of r: digit d is geometric with ratio q^(256^d), truncated at
    256. One table covers zero and the sign with the lowest digit; every further digit has its own. The highest digit
    is not truncated: everything beyond D is one outcome, because of the clipping.
    """

    cells: int
    """D: steps between the lowest and the highest level; 0 for a domain of one point."""
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not is_whole(self.cells) or not 0 <= self.cells <= MAX_CELLS:
            raise PolicyError(f"cells must be a whole number from 0 to 2^53, got {self.cells}")
        _check_epsilon(self.epsilon)

    @property
    def top(self) -> int:
        """Highest level."""
        return self.cells

    def decimal_probability(self, true: int, seen: int) -> Decimal:
        """P(y = seen | i = true) to 50 digits: q^|n| (1 - q)/(1 + q) inside, q^|n| / (1 + q) at both ends."""
        _check_levels(self.top, true, seen)
        if self.cells == 0:
            return Decimal(1)
        arithmetic = Arithmetic(_SHOWN + 30)
        ratio, one = self._power(arithmetic, 1), arithmetic.rational(1)
        share = arithmetic.divide(self._power(arithmetic, abs(true - seen)), arithmetic.add(one, ratio))
        if 0 < seen < self.cells:
            share = arithmetic.multiply(share, arithmetic.subtract(one, ratio))
        return share.low

    def probability(self, true: int, seen: int) -> float:
        """`decimal_probability` as a float."""
        return float(self.decimal_probability(true, seen))

    @property
    def error(self) -> float:
        """Mean distance of a noisy level from the true one, as a share of D, over all true levels alike.

        |y - i| is at least n with probability q^n / (1 + q) on each side that has n levels.

        >>> round(DiscreteLaplace(cells=100, epsilon=Fraction(2)).error, 2)
        0.28
        """
        if self.cells == 0:
            return 0.0
        cells = min(self.cells, _MOST_SUMMED)  # beyond, the steps do not matter
        ratio = math.exp(-float(self.epsilon) / cells)
        sides = (ratio * (1 - ratio**level) / (1 - ratio) for level in range(cells + 1))
        return 2 * sum(sides) / (1 + ratio) / (cells + 1) / cells

    def tables(self, words: int) -> list[Table]:
        """Tables of the draws for one value: sign with lowest digit, then higher digits; none for a single level."""
        if self.cells == 0:
            return []
        # |N| >= cells reaches an end from every level, so |N| - 1 is resolved only below cells - 1.
        digits = 1
        while DIGIT**digits < self.cells - 1:
            digits += 1
        highest = -((1 - self.cells) // DIGIT ** (digits - 1))
        if digits == 1:
            return [self._signed_table(highest + 1, words, cut=False)]
        middle = [self._digit_table(DIGIT**digit, DIGIT - 1, words, cut=True) for digit in range(1, digits - 1)]
        top = self._digit_table(DIGIT ** (digits - 1), highest, words, cut=False)
        return [self._signed_table(DIGIT, words, cut=True), *middle, top]

    def _signed_table(self, largest: int, words: int, *, cut: bool) -> Table:
        """Outcomes -largest .. largest; without `cut`, the outer two include everything beyond.

        P(at most -s) = P(at least s) = (q^s - E)/((1 + q)(1 - E/q)) with E = q^(largest + 1) if cut, else 0.
        """

        def tails(arithmetic: Arithmetic) -> list[Enclosure]:
            one = arithmetic.rational(1)
            whole = arithmetic.add(one, self._power(arithmetic, 1))
            powers = self._powers(arithmetic, 1, largest + 1)
            if cut:
                powers = [arithmetic.subtract(power, powers[-1]) for power in powers]
                whole = arithmetic.multiply(whole, arithmetic.subtract(one, self._power(arithmetic, largest)))
            return [arithmetic.divide(power, whole) for power in powers[:-1]]

        bits = _WORD * words
        lower = leading_bits(tails, bits)
        # For irrational t, floor((1 - t) 2^bits) = 2^bits - 1 - floor(t 2^bits).
        return [*reversed(lower), *((1 << bits) - 1 - tail for tail in lower)]

    def _digit_table(self, weight: int, largest: int, words: int, *, cut: bool) -> Table:
        """Outcomes 0 .. largest of the digit of weight `weight`; without `cut`, the last includes everything beyond.

        P(at least r) = (Q^r - E)/(1 - E) with Q = q^weight, and E = Q^(largest + 1) if cut, else 0.
        """

        def tails(arithmetic: Arithmetic) -> list[Enclosure]:
            powers = self._powers(arithmetic, weight, largest + 1)
            if not cut:
                return powers[:-1]
            rest = arithmetic.subtract(arithmetic.rational(1), powers[-1])
            return [arithmetic.divide(arithmetic.subtract(power, powers[-1]), rest) for power in powers[:-1]]

        bits = _WORD * words
        return [(1 << bits) - 1 - tail for tail in leading_bits(tails, bits)]

    def _powers(self, arithmetic: Arithmetic, weight: int, count: int) -> list[Enclosure]:
        """Q, Q^2, ..., Q^count for Q = q^weight."""
        ratio = self._power(arithmetic, weight)
        powers = [ratio]
        while len(powers) < count:
            powers.append(arithmetic.multiply(powers[-1], ratio))
        return powers

    def _power(self, arithmetic: Arithmetic, exponent: int) -> Enclosure:
        """q^exponent."""
        return arithmetic.exp_minus(self.epsilon * exponent / self.cells)


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """Keeps one of m values with probability e^epsilon / (e^epsilon + m - 1), else replaces it by one of the others,
    each with the same probability. Warner 1965 for m = 2; Kairouz, Oh and Viswanath 2014 (k-RR).
    """

    values: int
    """m. A single value is always kept."""
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not is_whole(self.values) or not 1 <= self.values <= MAX_VALUES:
            raise PolicyError(f"values must be a whole number from 1 to 2^31, got {self.values}")
        _check_epsilon(self.epsilon)

    @property
    def top(self) -> int:
        """Highest level."""
        return self.values - 1

    def decimal_probability(self, true: int, seen: int) -> Decimal:
        """P(seen | true) to 50 digits: 1 / (1 + (m - 1) e^-epsilon) if they agree, e^-epsilon times that if not."""
        _check_levels(self.top, true, seen)
        arithmetic = Arithmetic(_SHOWN + 30)
        apart, whole = self._apart(arithmetic)
        return arithmetic.divide(arithmetic.rational(1) if true == seen else apart, whole).low

    def probability(self, true: int, seen: int) -> float:
        """`decimal_probability` as a float."""
        return float(self.decimal_probability(true, seen))

    @property
    def error(self) -> float:
        """Probability that a value is replaced."""
        return self.top * math.exp(-self.epsilon) / (1 + self.top * math.exp(-self.epsilon))

    def tables(self, words: int) -> list[Table]:
        """Table of the draw for one value: kept or not; none for a single level."""
        if self.values == 1:
            return []

        def changed(arithmetic: Arithmetic) -> list[Enclosure]:
            apart, whole = self._apart(arithmetic)
            return [arithmetic.divide(arithmetic.multiply(arithmetic.rational(self.top), apart), whole)]

        bits = _WORD * words
        return [[(1 << bits) - 1 - tail for tail in leading_bits(changed, bits)]]

    def _apart(self, arithmetic: Arithmetic) -> tuple[Enclosure, Enclosure]:
        """e^-epsilon, and 1 + (m - 1) e^-epsilon."""
        apart = arithmetic.exp_minus(self.epsilon)
        others = arithmetic.multiply(arithmetic.rational(self.top), apart)
        return apart, arithmetic.add(arithmetic.rational(1), others)


Mechanism = DiscreteLaplace | RandomisedResponse


@dataclass(frozen=True, kw_only=True)
class Bernoulli:
    """A coin with the exact probability `rate`, the sampling rate: CASTLEGUARD's beta."""

    rate: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Fraction) or not 0 < self.rate <= 1:
            raise PolicyError(f"rate must be a Fraction above 0 and at most 1, got {self.rate}")

    def digits(self, words: int) -> tuple[int, bool]:
        """floor(rate * 2^(32 * words)), and whether that is exact."""
        scaled = self.rate * (1 << _WORD * words)
        return int(scaled), scaled.denominator == 1


def _check_epsilon(epsilon: object) -> None:
    # Floats are refused: 0.1 is not exactly one tenth.
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PolicyError(f"epsilon must be a Fraction above 0, got {epsilon!r}")


def _check_levels(top: int, *levels: int) -> None:
    if not all(0 <= level <= top for level in levels):
        raise PolicyError(f"levels must be whole numbers from 0 to {top}")
