"""Real numbers known to lie between two decimals, and the binary digits that follow from that for certain.

A probability such as 1 / (1 + exp(-1/3)) has infinitely many digits. Computed with every lower bound rounded down and
every upper bound rounded up, it is enclosed; where both bounds have the same leading binary digits, these are the
digits of the number itself. If they differ, more precision decides.
"""

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_MARGIN = 24  # decimal digits beyond those asked for: enough unless a difference cancels more


@dataclass(frozen=True)
class Enclosure:
    """low <= the number <= high."""

    low: Decimal
    high: Decimal


class Arithmetic:
    """Operations on enclosed numbers that are not negative, with a number of decimal digits."""

    def __init__(self, digits: int) -> None:
        self._down = _context(digits, decimal.ROUND_FLOOR)
        self._up = _context(digits, decimal.ROUND_CEILING)

    def rational(self, number: Fraction | int) -> Enclosure:
        """A rational number."""
        upper, lower = Decimal(number.numerator), Decimal(number.denominator)
        return Enclosure(self._down.divide(upper, lower), self._up.divide(upper, lower))

    def exp_minus(self, number: Fraction) -> Enclosure:
        """exp(-number). `exp` of the decimal module is correctly rounded to nearest, so one step aside encloses."""
        exponent = self.rational(number)
        low = self._down.next_minus(self._down.exp(exponent.high.copy_negate()))
        high = self._up.next_plus(self._up.exp(exponent.low.copy_negate()))
        return Enclosure(max(low, Decimal(0)), high)

    def add(self, a: Enclosure, b: Enclosure) -> Enclosure:
        """a + b."""
        return Enclosure(self._down.add(a.low, b.low), self._up.add(a.high, b.high))

    def subtract(self, a: Enclosure, b: Enclosure) -> Enclosure:
        """a - b, which must not be negative."""
        return Enclosure(max(self._down.subtract(a.low, b.high), Decimal(0)), self._up.subtract(a.high, b.low))

    def multiply(self, a: Enclosure, b: Enclosure) -> Enclosure:
        """a * b."""
        return Enclosure(self._down.multiply(a.low, b.low), self._up.multiply(a.high, b.high))

    def divide(self, a: Enclosure, b: Enclosure) -> Enclosure:
        """a / b. While b is not told from zero, nothing is known of the quotient."""
        if b.low == 0:
            return Enclosure(Decimal(0), Decimal("Infinity"))
        return Enclosure(self._down.divide(a.low, b.high), self._up.divide(a.high, b.low))


def leading_bits(numbers: Callable[[Arithmetic], list[Enclosure]], bits: int) -> list[int]:
    """floor(number * 2^bits) of every number, for certain. Ends for irrational numbers only: others may be all edge."""
    digits = bits * 302 // 1000 + _MARGIN
    while True:
        arithmetic = Arithmetic(digits)
        scale = arithmetic.rational(1 << bits)
        scaled = [arithmetic.multiply(number, scale) for number in numbers(arithmetic)]
        if all(_floor(number.low) == _floor(number.high) for number in scaled):
            return [int(_floor(number.low)) for number in scaled]
        digits *= 2


def _floor(number: Decimal) -> Decimal:
    return number.to_integral_value(decimal.ROUND_FLOOR)


def _context(digits: int, rounding: str) -> decimal.Context:
    """Exponents as wide as they go; what is smaller still is enclosed by zero and the smallest decimal."""
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )
