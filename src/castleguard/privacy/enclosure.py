"""Interval arithmetic with decimals, for binary digits of probabilities that are certainly correct.

A probability such as 1 / (1 + exp(-1/3)) has infinitely many digits. Lower bounds are rounded down and upper bounds up.
Where both bounds have the same leading binary digits, these are digits of the number itself; if not, the precision is
raised. See docs/proofs/noise.md.
"""

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_MARGIN = 24  # extra decimal digits: enough unless a difference cancels more


@dataclass(frozen=True)
class Enclosure:
    """low <= the number <= high."""

    low: Decimal
    high: Decimal


class Arithmetic:
    """Operations on enclosures of non-negative numbers, with a fixed number of decimal digits."""

    def __init__(self, digits: int) -> None:
        self._down = _context(digits, decimal.ROUND_FLOOR)
        self._up = _context(digits, decimal.ROUND_CEILING)

    def rational(self, number: Fraction | int) -> Enclosure:
        """A rational number."""
        upper, lower = Decimal(number.numerator), Decimal(number.denominator)
        return Enclosure(self._down.divide(upper, lower), self._up.divide(upper, lower))

    def exp_minus(self, number: Fraction) -> Enclosure:
        """exp(-number). The decimal module rounds `exp` correctly to nearest, so the two neighbours enclose it."""
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
        """a / b. Unbounded if b may be zero."""
        if b.low == 0:
            return Enclosure(Decimal(0), Decimal("Infinity"))
        return Enclosure(self._down.divide(a.low, b.high), self._up.divide(a.high, b.low))


def leading_bits(numbers: Callable[[Arithmetic], list[Enclosure]], bits: int) -> list[int]:
    """Exact floor(number * 2^bits) of every number. Sure to end for irrational numbers only."""
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
    """A context with the widest exponents; a smaller number lies between zero and the smallest decimal."""
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )
