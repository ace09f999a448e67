"""Probabilities in closed form: they sum to 1 and meet epsilon exactly; the tables agree with them."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import PolicyError
from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, RandomisedResponse
from tests.reference import noise as reference

epsilons = st.fractions(Fraction(1, 10**6), 10**3, max_denominator=10**6)
laplaces = st.builds(DiscreteLaplace, cells=st.integers(0, 20), epsilon=epsilons)
responses = st.builds(RandomisedResponse, values=st.integers(1, 20), epsilon=epsilons)
ANY_TABLE = [(1, 1), (2, "1/3"), (100, 1), (257, 1), (258, 5), (65537, 1), (65538, "1/1000000"), (70_000, 10**6)]
ANY_TABLE += [(2**53, "1/1000000"), (2**53, 10**6), (100, 10_000), (100, 10**6), (1, 10**30), (3, "1/1000000000000")]


def exponential(number: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return (Decimal(number.numerator) / Decimal(number.denominator)).exp()


def is_near(a: Decimal, b: Decimal) -> bool:
    with localcontext() as context:
        context.prec = 60
        return abs(a - b) <= max(a, b) * Decimal("1e-45")


@given(laplaces | responses)
def test_the_probabilities_of_a_true_level_add_up_to_one(mechanism: Mechanism) -> None:
    levels = range(mechanism.top + 1)
    for true in levels:
        with localcontext() as context:
            context.prec = 60
            total = sum((mechanism.decimal_probability(true, seen) for seen in levels), Decimal(0))
        assert is_near(total, Decimal(1))


@given(laplaces | responses)
def test_the_worst_ratio_of_two_levels_is_exactly_e_to_the_epsilon(mechanism: Mechanism) -> None:
    """Over all pairs of true levels and all outcomes: never above, and reached by the two ends."""
    levels = range(mechanism.top + 1)
    law = [[mechanism.decimal_probability(true, seen) for seen in levels] for true in levels]
    with localcontext() as context:
        context.prec = 60
        worst = max(max(column) / min(column) for column in zip(*law, strict=True))
        reached = law[0][0] / law[-1][0]
    expected = exponential(mechanism.epsilon) if mechanism.top > 0 else Decimal(1)
    assert is_near(worst, expected)
    assert is_near(reached, expected)


@given(st.builds(DiscreteLaplace, cells=st.integers(1, 20), epsilon=epsilons))
def test_neighbouring_levels_differ_by_their_share_of_epsilon(mechanism: DiscreteLaplace) -> None:
    step = exponential(mechanism.epsilon / mechanism.cells)
    for true in range(mechanism.cells):
        for seen in range(mechanism.cells + 1):
            pair = [mechanism.decimal_probability(level, seen) for level in (true, true + 1)]
            with localcontext() as context:
                context.prec = 60
                assert is_near(max(pair) / min(pair), step)


def test_noise_is_two_sided_geometric() -> None:
    mechanism = DiscreteLaplace(cells=4, epsilon=Fraction(2))
    q = exp(-0.5)
    weights = {n: q ** abs(n) for n in range(-200, 201)}
    for true in range(5):
        law = [0.0] * 5
        for n, weight in weights.items():
            law[min(max(true + n, 0), 4)] += weight / sum(weights.values())
        assert [mechanism.probability(true, seen) for seen in range(5)] == pytest.approx(law, rel=1e-12)


def test_responses_are_those_of_k_rr() -> None:
    mechanism = RandomisedResponse(values=4, epsilon=Fraction(2))
    assert mechanism.probability(1, 1) == pytest.approx(exp(2) / (exp(2) + 3), rel=1e-15)
    assert mechanism.probability(1, 3) == pytest.approx(1 / (exp(2) + 3), rel=1e-15)
    assert RandomisedResponse(values=1, epsilon=Fraction(2)).probability(0, 0) == 1


@pytest.mark.parametrize("words", [1, 8, 16])
@pytest.mark.parametrize(("cells", "epsilon"), ANY_TABLE)
def test_the_tables_of_noise_equal_those_of_the_reference(cells: int, epsilon: int | str, words: int) -> None:
    tables = DiscreteLaplace(cells=cells, epsilon=Fraction(epsilon)).tables(words)
    twin = reference.edges(reference.Laplace(cells, Fraction(epsilon)))
    assert tables == [[edge >> reference.SURE - 32 * words for edge in table] for table in twin]


@given(st.integers(2, 2**31), epsilons, st.integers(1, 16))
def test_the_table_of_a_response_equals_that_of_the_reference(values: int, epsilon: Fraction, words: int) -> None:
    tables = RandomisedResponse(values=values, epsilon=epsilon).tables(words)
    twin = reference.edges(reference.Response(values, epsilon))
    assert tables == [[edge >> reference.SURE - 32 * words for edge in table] for table in twin]


@given(st.integers(1, 10**9), st.integers(1, 10), st.fractions(Fraction(1, 100), 100, max_denominator=100))
def test_the_digits_together_reach_beyond_the_domain(cells: int, words: int, epsilon: Fraction) -> None:
    """The largest noise of the tables reaches from one end to the other, and no digit is idle."""
    tables = DiscreteLaplace(cells=cells, epsilon=epsilon).tables(words)
    sizes = [len(tables[0]) // 2, *(len(table) for table in tables[1:])]
    assert sum(size * 256**digit for digit, size in enumerate(sizes)) >= cells
    assert len(tables) == 1 or 256 ** (len(tables) - 1) < cells
    assert all(table == sorted(table) for table in tables)


def test_a_domain_of_one_point_draws_nothing() -> None:
    assert DiscreteLaplace(cells=0, epsilon=Fraction(1)).tables(8) == []
    assert DiscreteLaplace(cells=0, epsilon=Fraction(1)).probability(0, 0) == 1
    assert RandomisedResponse(values=1, epsilon=Fraction(1)).tables(8) == []


def test_a_coin_has_the_digits_of_its_rate() -> None:
    assert Bernoulli(rate=Fraction(1, 2)).digits(1) == (2**31, True)
    assert Bernoulli(rate=Fraction(1, 3)).digits(2) == (0x5555555555555555, False)
    assert Bernoulli(rate=Fraction(0.1)).digits(1)[1] is False
    assert Bernoulli(rate=Fraction(0.1)).digits(2)[1] is True


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), 1.0, 1, None, "1"])
def test_an_epsilon_that_cannot_be_promised_is_refused(epsilon: object) -> None:
    with pytest.raises(PolicyError, match="epsilon must be a Fraction above 0"):
        DiscreteLaplace(cells=3, epsilon=epsilon)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="epsilon must be a Fraction above 0"):
        RandomisedResponse(values=3, epsilon=epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [-1, 2**53 + 1, 1.0, True, None])
def test_a_domain_that_cannot_be_randomised_is_refused(size: object) -> None:
    with pytest.raises(PolicyError, match="cells must be a whole number"):
        DiscreteLaplace(cells=size, epsilon=Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="values must be a whole number"):
        RandomisedResponse(values=size, epsilon=Fraction(1))  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="values must be a whole number"):
        RandomisedResponse(values=0, epsilon=Fraction(1))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 2), Fraction(3, 2), 0.5, 1])
def test_an_invalid_rate_is_refused(rate: object) -> None:
    with pytest.raises(PolicyError, match="rate must be a Fraction"):
        Bernoulli(rate=rate)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [-1, 4])
def test_a_level_outside_the_domain_is_refused(level: int) -> None:
    for mechanism in (DiscreteLaplace(cells=3, epsilon=Fraction(1)), RandomisedResponse(values=4, epsilon=Fraction(1))):
        with pytest.raises(PolicyError, match="from 0 to 3"):
            mechanism.probability(level, 0)
        with pytest.raises(PolicyError, match="from 0 to 3"):
            mechanism.probability(0, level)
