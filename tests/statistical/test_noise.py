"""Frequencies of the samplers compared with closed forms, a published sampler, OpenDP, and the promise itself.

A p-value below one in a million (LIKELY) fails a test, so each p-value fails by chance for one in a million keys. Keys
and seeds are fixed: what passes once passes always. Only OpenDP draws from the operating system: its five comparisons
fail by chance once in two hundred thousand runs.
"""

from fractions import Fraction
from functools import cache
from math import exp, log
from random import Random

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise
from tests.reference import noise as reference

Counts = NDArray[np.int64]

pytestmark = [pytest.mark.statistical, pytest.mark.compiled]

DRAWS = 2_000_000
LIKELY = 1e-6
EXPECTED = 10  # expected count above which an outcome is judged by itself


def laplace(cells: int, epsilon: Fraction | int | str) -> DiscreteLaplace:
    return DiscreteLaplace(cells=cells, epsilon=Fraction(epsilon))


def response(values: int, epsilon: Fraction | int | str) -> RandomisedResponse:
    return RandomisedResponse(values=values, epsilon=Fraction(epsilon))


def draw(mechanism: Mechanism, true: int, *, draws: int = DRAWS, key: int = 1) -> Counts:
    """Outcomes of one level, drawn many times."""
    levels = np.full((draws, 1), true, dtype=np.int64)
    noise = Noise([mechanism], key=np.full(8, key, dtype=np.uint32))
    noise.randomise(levels, 0, np.ones(draws, dtype=np.bool_))
    return levels[:, 0]


def counts(levels: Counts, mechanism: Mechanism) -> Counts:
    return np.bincount(levels, minlength=mechanism.top + 1)


def law(mechanism: Mechanism, true: int) -> NDArray[np.float64]:
    """Closed form for all outcomes."""
    return np.array([mechanism.probability(true, seen) for seen in range(mechanism.top + 1)])


def likelihood(seen: Counts, probabilities: NDArray[np.float64]) -> float:
    """A p-value: Pearson's chi-square for the frequent outcomes, Poisson's law for all others together (Bonferroni)."""
    expected = probabilities * seen.sum()
    frequent = expected >= EXPECTED
    rare, mean = seen[~frequent].sum(), expected[~frequent].sum()
    rest = 2 * min(stats.poisson.cdf(rare, mean), stats.poisson.sf(rare - 1, mean))
    among, shares = seen[frequent], probabilities[frequent]
    classes = stats.chisquare(among, shares / shares.sum() * among.sum()).pvalue if among.size > 1 else 1.0
    return float(min(1.0, 2 * min(rest, classes)))


def two_samples(a: Counts, b: Counts) -> float:
    """P-value of a chi-square test that two samples have the same distribution; rare outcomes are merged."""
    pooled = a + b
    large = pooled >= 4 * EXPECTED
    table = np.array([[*sample[large], sample[~large].sum()] for sample in (a, b)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


NARROW = [(1, 1, 0), (2, "1/1000000", 1), (3, 2, 1), (10, 30, 5), (100, 1, 30), (100, 50, 99), (100, 10_000, 50)]
NARROW += [(256, 3, 0), (257, 3, 256), (258, 3, 100), (259, 3, 7), (5000, 1, 2500), (5000, 200, 1)]
WIDE = [(65_537, 10_000, 30_000), (65_538, 5_000, 100), (70_000, 4_000, 35_000), (2_000_000, 200_000, 1_000_000)]


@pytest.mark.parametrize(("cells", "epsilon", "true"), NARROW)
def test_noise_follows_its_closed_form(cells: int, epsilon: int | str, true: int) -> None:
    mechanism = laplace(cells, epsilon)
    assert likelihood(counts(draw(mechanism, true), mechanism), law(mechanism, true)) > LIKELY


@pytest.mark.parametrize(("cells", "epsilon", "true"), WIDE)
def test_noise_on_a_wide_domain_follows_its_closed_form(cells: int, epsilon: int, true: int) -> None:
    """Up to three digits. Only levels within a thousand steps or the end of the domain have any frequency here."""
    mechanism = laplace(cells, epsilon)
    low, high = max(true - 1000, 0), min(true + 1000, cells)
    seen = draw(mechanism, true)
    probabilities = np.array([mechanism.probability(true, level) for level in range(low, high + 1)])
    inside = seen[(seen >= low) & (seen <= high)] - low
    observed = np.append(np.bincount(inside, minlength=high - low + 1), DRAWS - inside.size)
    assert likelihood(observed, np.append(probabilities, max(1 - probabilities.sum(), 0))) > LIKELY


SPREAD = [(70_000, 1, 40_000), (10**7, 3, 10**6), (2**53, 5, 2**52), (2**53, "1/1000000", 1)]


@pytest.mark.parametrize(("cells", "epsilon", "true"), SPREAD)
def test_noise_spread_over_a_wide_domain_follows_its_distribution_function(
    cells: int, epsilon: int | str, true: int
) -> None:
    """In five hundred classes, and both ends by themselves."""
    seen = draw(laplace(cells, epsilon), true)
    x = float(Fraction(epsilon)) / cells

    def at_most(level: Counts) -> NDArray[np.float64]:
        below = np.exp(-x * np.maximum(true - level, 0)) / (1 + exp(-x))
        above = 1 - np.exp(-x * np.maximum(level - true + 1, 0)) / (1 + exp(-x))
        return np.where(level >= cells, 1.0, np.where(level < true, below, above))

    limits = np.unique(np.append(np.linspace(0, cells - 1, 501).astype(np.int64), cells))
    observed = np.bincount(np.searchsorted(limits, seen), minlength=limits.size)
    assert likelihood(observed, np.diff(at_most(limits), prepend=0.0)) > LIKELY


@pytest.mark.parametrize(("cells", "epsilon", "true"), [(10**6, 3, 5 * 10**5), (10**7, 3, 10**6), (2**53, 5, 2**52)])
def test_digits_of_the_size_of_noise_are_geometric_and_independent(cells: int, epsilon: int, true: int) -> None:
    """The lowest two digits of |N| - 1, below the largest multiple of 65536 that clipping does not touch."""
    size = np.abs(draw(laplace(cells, epsilon), true) - true) - 1
    size = size[(size >= 0) & (size < (min(true, cells - true) - 1) // 65536 * 65536)]
    low, high = size & 255, size >> 8 & 255
    for digit, weight in ((low, 1), (high, 256)):
        weights = np.exp(-epsilon * weight / cells * np.arange(256))
        assert likelihood(np.bincount(digit, minlength=256), weights / weights.sum()) > LIKELY
    assert (
        stats.chi2_contingency(np.bincount(low // 16 * 16 + high // 16, minlength=256).reshape(16, 16)).pvalue > LIKELY
    )


@pytest.mark.parametrize(
    ("values", "epsilon", "true"),
    [(2, 1, 0), (2, "1/1000000", 1), (3, "1/2", 1), (7, 1, 3), (7, 10_000, 3), (100, 2, 99), (1000, 5, 500)],
)
def test_responses_follow_their_closed_form(values: int, epsilon: int | str, true: int) -> None:
    mechanism = response(values, epsilon)
    assert likelihood(counts(draw(mechanism, true), mechanism), law(mechanism, true)) > LIKELY


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 3), Fraction(0.1), Fraction(999_999, 1_000_000)])
def test_coins_follow_their_rate(rate: Fraction) -> None:
    kept = Noise([], key=np.full(8, 3, dtype=np.uint32), rate=Bernoulli(rate=rate)).sample(0, DRAWS)
    assert stats.binomtest(int(kept.sum()), DRAWS, float(rate)).pvalue > LIKELY


def test_columns_and_rows_are_independent() -> None:
    """Three columns of one row, and one column of neighbouring rows."""
    mechanisms: list[Mechanism] = [laplace(4, 2), laplace(4, 2), response(5, 1)]
    levels = np.full((DRAWS, 3), 2, dtype=np.int64)
    Noise(mechanisms, key=np.full(8, 5, dtype=np.uint32)).randomise(levels, 0, np.ones(DRAWS, dtype=np.bool_))
    for a, b in ((levels[:, 0], levels[:, 1]), (levels[:, 0], levels[:, 2]), (levels[:-1:2, 0], levels[1::2, 0])):
        table = np.bincount(5 * a + b, minlength=25).reshape(5, 5)
        assert stats.chi2_contingency(table).pvalue > LIKELY


@pytest.mark.parametrize(("cells", "epsilon", "true"), [(10, 4, 3), (100, 1, 60), (300, 60, 150)])
def test_noise_is_that_of_canonne_kamath_and_steinke(cells: int, epsilon: int, true: int) -> None:
    random, scale = Random(7), Fraction(cells, epsilon)
    published = np.array([true + reference.discrete_laplace(random, scale) for _ in range(40_000)]).clip(0, cells)
    mechanism = laplace(cells, epsilon)
    ours = counts(draw(mechanism, true), mechanism)
    assert two_samples(ours, counts(published, mechanism)) > LIKELY


@cache
def opendp_noise(scale: float, draws: int) -> Counts:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    measure = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    return np.array(measure([0] * draws), dtype=np.int64)


@pytest.mark.parametrize(("cells", "epsilon", "true"), [(20, 4, 3), (500, 100, 250), (400, 80, 0)])
def test_noise_is_that_of_opendp_once_clipped(cells: int, epsilon: int, true: int) -> None:
    """OpenDP's scale is a float; five cells per unit of epsilon is one that a float holds exactly."""
    mechanism = laplace(cells, epsilon)
    theirs = counts((true + opendp_noise(cells / epsilon, 100_000)).clip(0, cells), mechanism)
    assert two_samples(counts(draw(mechanism, true), mechanism), theirs) > LIKELY


@pytest.mark.parametrize(("values", "epsilon", "true"), [(2, 1, 0), (7, 2, 3)])
def test_responses_are_those_of_opendp(values: int, epsilon: int, true: int) -> None:
    """OpenDP takes the probability to keep as a float, which is 2^-53 away from ours at most."""
    dp.enable_features("contrib")
    keep = exp(epsilon) / (exp(epsilon) + values - 1)
    measure = dp.m.make_randomized_response(categories=list(range(values)), prob=keep)
    theirs = np.array([measure(true) for _ in range(30_000)], dtype=np.int64)
    assert measure.map(1) == pytest.approx(epsilon, rel=1e-9)  # type: ignore[no-untyped-call]
    mechanism = response(values, epsilon)
    assert two_samples(counts(draw(mechanism, true), mechanism), counts(theirs, mechanism)) > LIKELY


def bounds(seen: Counts, mistakes: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clopper and Pearson's limits for the probability of every outcome, each side wrong with `mistakes` at most."""
    total = seen.sum()
    low = np.where(seen > 0, stats.beta.ppf(mistakes, seen, total - seen + 1), 0.0)
    high = np.where(seen < total, stats.beta.ppf(1 - mistakes, seen + 1, total - seen), 1.0)
    return low, high


def certain_epsilon(mechanism: Mechanism, a: int, b: int) -> float:
    """The largest epsilon that the outcomes of two levels prove, wrong with probability LIKELY (Bonferroni)."""
    first, second = (counts(draw(mechanism, true, key=10 + at), mechanism) for at, true in enumerate((a, b)))
    mistakes = LIKELY / (4 * (mechanism.top + 1))
    (first_low, first_high), (second_low, second_high) = (bounds(seen, mistakes) for seen in (first, second))
    return log(max((first_low / second_high).max(), (second_low / first_high).max()))


PAIRS: list[tuple[Mechanism, int, int]] = [
    (laplace(1, 1), 0, 1),
    (laplace(10, 2), 0, 10),
    (laplace(300, 1), 0, 300),
    (laplace(100, "3/2"), 0, 100),
    (response(2, 1), 0, 1),
    (response(6, 3), 5, 0),
    (response(50, 2), 0, 49),
]


@pytest.mark.parametrize(("mechanism", "a", "b"), PAIRS)
def test_farthest_levels_keep_epsilon_and_use_it_up(mechanism: Mechanism, a: int, b: int) -> None:
    """No outcome refutes the epsilon. The test has enough power: it refutes an epsilon smaller by a tenth."""
    proven = certain_epsilon(mechanism, a, b)
    assert proven <= mechanism.epsilon
    assert proven > 0.9 * float(mechanism.epsilon)


@pytest.mark.parametrize(("mechanism", "true"), [(laplace(10, 5), 4), (laplace(10, 5), 0), (laplace(3, 3), 2)])
def test_neighbouring_levels_keep_their_share_of_epsilon(mechanism: DiscreteLaplace, true: int) -> None:
    share = float(mechanism.epsilon / mechanism.cells)
    proven = certain_epsilon(mechanism, true, true + 1)
    assert 0.9 * share < proven <= share
