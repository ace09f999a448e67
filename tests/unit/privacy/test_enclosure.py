"""Certain digits, compared with fractions and with the reference's own series."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.privacy.enclosure import Arithmetic, Enclosure, leading_bits
from tests.reference import noise as reference

fractions = st.fractions(0, 10**6, max_denominator=10**6)


def holds(enclosure: Enclosure, number: Fraction) -> bool:
    return Fraction(enclosure.low) <= number <= Fraction(enclosure.high)


@given(fractions, fractions, st.integers(3, 30))
def test_a_result_is_enclosed(a: Fraction, b: Fraction, digits: int) -> None:
    arithmetic = Arithmetic(digits)
    small, large = (arithmetic.rational(number) for number in sorted((a, b)))
    assert holds(small, min(a, b))
    assert holds(arithmetic.add(small, large), a + b)
    assert holds(arithmetic.subtract(large, small), abs(a - b))
    assert holds(arithmetic.multiply(small, large), a * b)
    if a and b:
        assert holds(arithmetic.divide(small, large), min(a, b) / max(a, b))


@given(st.fractions(0, 50, max_denominator=10**6), st.integers(3, 60))
def test_an_exponential_is_enclosed_tightly(number: Fraction, digits: int) -> None:
    enclosure = Arithmetic(digits).exp_minus(number)
    exact = Fraction(reference.exp_minus(number), reference.ONE)
    assert holds(enclosure, exact)
    assert Fraction(enclosure.high) - Fraction(enclosure.low) <= exact * Fraction(1000, 10**digits)


@pytest.mark.parametrize("number", [10**6, 10**17, 10**30])
def test_an_exponential_too_small_for_any_decimal_is_still_above_zero(number: int) -> None:
    enclosure = Arithmetic(30).exp_minus(Fraction(number))
    assert 0 <= enclosure.low < enclosure.high < Decimal("1e-400000")


def test_a_quotient_is_unbounded_if_the_divisor_may_be_zero() -> None:
    arithmetic = Arithmetic(10)
    one = arithmetic.rational(1)
    nearly = arithmetic.subtract(one, arithmetic.exp_minus(Fraction(1, 10**12)))
    assert nearly.low == 0
    assert arithmetic.divide(one, nearly) == Enclosure(Decimal(0), Decimal("Infinity"))


@given(st.fractions(Fraction(1, 10**9), 200, max_denominator=10**9), st.integers(1, 600))
def test_leading_bits_equal_those_of_the_reference(number: Fraction, bits: int) -> None:
    [found] = leading_bits(lambda arithmetic: [arithmetic.exp_minus(number)], bits)
    assert found == reference.sure(reference.exp_minus(number)) >> reference.SURE - bits


def test_precision_is_raised_until_the_bits_are_certain() -> None:
    """The first 200 bits of exp(-2^-200) are ones: 64 bits are certain only once 1 - 2^-200 differs from 1."""
    asked: list[int] = []

    def numbers(arithmetic: Arithmetic) -> list[Enclosure]:
        asked.append(1)
        return [arithmetic.exp_minus(Fraction(1, 2**200))]

    assert leading_bits(numbers, 64) == [2**64 - 1]
    assert len(asked) > 1
