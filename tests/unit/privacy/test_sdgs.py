"""Theorem 2: known values, the printed formula in exact fractions, and the inverses."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import castleguard.privacy
from castleguard.errors import PolicyError
from castleguard.privacy import least_epsilon, min_epsilon, min_k, sdgs, sdgs_delta, sdgs_delta_tight
from castleguard.privacy.sdgs import worst_case
from tests.reference import sdgs as twin

LN2, LN3 = math.log(2), math.log(3)

# k, sample rate, epsilon, gamma, first n, n of the maximum, delta, tight delta: computed once with 50 digits
KNOWN = [
    (5, 0.1, 0.5, 0.454122, 11, 11, 2.750963500000e-03, 1.792495e-04),
    (5, 0.1, 1.0, 0.668909, 7, 7, 1.765000000000e-04, 2.781718e-05),
    (5, 0.25, 1.0, 0.724090, 6, 6, 4.638671875000e-03, 1.984100e-03),
    (5, 0.5, 1.0, 0.816060, 6, 6, 1.093750000000e-01, 3.125000e-02),
    (7, 0.25, 1.0, 0.724090, 9, 9, 1.342773437500e-03, 3.058312e-04),
    (7, 0.5, 1.0, 0.816060, 8, 8, 3.515625000000e-02, 1.391967e-02),
    (7, 0.5, 2.0, 0.932332, 7, 7, 7.812500000000e-03, 7.812500e-03),
    (7, 0.75, 2.0, 0.966166, 7, 7, 1.334838867188e-01, 1.334839e-01),
    (10, 0.05, 0.5, 0.423796, 23, 23, 6.111711680413e-08, 2.101240e-09),
    (10, 0.1, 0.5, 0.454122, 22, 22, 2.072311815880e-05, 6.716234e-07),
    (10, 0.1, 1.0, 0.668909, 14, 14, 6.840415000000e-08, 9.980119e-09),
    (10, 0.25, 1.0, 0.724090, 13, 13, 1.261234283447e-04, 2.388741e-05),
    (10, 0.5, 1.0, 0.816060, 12, 12, 1.928710937500e-02, 3.359677e-03),
    (10, 0.5, 2.0, 0.932332, 10, 10, 9.765625000000e-04, 9.765625e-04),
    (20, 0.1, 0.5, 0.454122, 44, 44, 1.606252936183e-09, 2.631783e-11),
    (20, 0.2, 0.5, 0.514775, 38, 38, 8.018356483482e-06, 3.108735e-07),
    (20, 0.2, 1.0, 0.705696, 28, 28, 6.032853437430e-09, 2.768166e-10),
    (20, 0.25, 1.0, 0.724090, 27, 27, 1.209606890207e-07, 9.234224e-09),
    (20, 0.5, 1.0, 0.816060, 24, 24, 7.719397544861e-04, 1.082967e-04),
    (20, 0.5, 2.0, 0.932332, 21, 21, 1.049041748047e-05, 3.443664e-06),
    (50, 0.25, 0.5, 0.545102, 91, 91, 1.074193701505e-09, 2.002044e-11),
    (50, 0.5, 1.0, 0.816060, 61, 61, 2.294415609753e-07, 9.752544e-09),
    (50, 0.5, 2.0, 0.932332, 53, 53, 2.759792394613e-12, 4.972670e-13),
    (100, 0.5, 1.0, 0.816060, 122, 122, 2.254429927851e-13, 7.122653e-15),
    # The maximum is not at the first n:
    (39, 0.5, 3.0, 0.975106, 39, 41, 1.909938873723e-11, 1.818989e-12),
    (110, 0.82, 3.0, 0.991038, 110, 112, 5.690403966958e-09, 3.307682e-10),
    (100, 0.89, 2.582, 0.991682, 100, 121, 1.199745533467e-05, 8.689618e-06),
]

# Rare: the third candidate is the highest.
AT_THE_THIRD = (20, Fraction(97, 250), 0.492)

counts = st.integers(2, 300)
rates = st.floats(0.001, 0.999)
extra = st.floats(0, 4)
deltas = st.floats(1e-12, 0.5)


@pytest.mark.parametrize(("k", "rate", "epsilon", "gamma", "first", "rows", "delta", "tight"), KNOWN)
def test_known_values(
    k: int, rate: float, epsilon: float, gamma: float, first: int, rows: int, delta: float, tight: float
) -> None:
    worst = worst_case(k=k, sample_rate=rate, epsilon=epsilon)
    assert (worst.first_rows, worst.rows) == (first, rows)
    assert worst.gamma == pytest.approx(gamma, abs=5e-7)
    assert sdgs_delta(k=k, sample_rate=rate, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)
    assert sdgs_delta_tight(k=k, sample_rate=rate, epsilon=epsilon) == pytest.approx(tight, rel=1e-6)


@pytest.mark.parametrize(
    ("k", "rate", "epsilon", "delta"),
    [(5, 0.5, 1, 7 / 64), (7, 0.25, 2, 0.25**7), (3, 0.1, 1, 0.0037)],
)
def test_values_that_can_be_checked_by_hand(k: int, rate: float, epsilon: float, delta: float) -> None:
    assert sdgs_delta(k=k, sample_rate=rate, epsilon=epsilon) == pytest.approx(delta, rel=1e-12)


def random_cases(number: int) -> list[tuple[int, Fraction, float]]:
    """Widely spread cases, with short fractions as rates and groups small enough for exact sums."""
    chance = random.Random(20)
    cases: list[tuple[int, Fraction, float]] = []
    while len(cases) < number:
        k, rate = chance.randint(2, 25), Fraction(chance.randint(1, 19), 20)
        epsilon = -math.log1p(-rate) + chance.choice([0.01, 0.3, 1, 2]) * chance.random()
        if twin.first_n(k, rate, Fraction(math.exp(epsilon))) < 60:
            cases.append((k, rate, epsilon))
    return cases


@pytest.mark.parametrize(("k", "rate", "epsilon"), [AT_THE_THIRD, *random_cases(60)])
def test_delta_is_the_printed_formula(k: int, rate: Fraction, epsilon: float) -> None:
    e_eps = Fraction(math.exp(epsilon))
    up_to = 2 * twin.first_n(k, rate, e_eps) + 40
    expected = twin.d(k, rate, e_eps, up_to)
    worst = worst_case(k=k, sample_rate=float(rate), epsilon=epsilon)
    assert worst.dp_delta == pytest.approx(float(expected.value), rel=1e-11)
    assert (worst.first_rows, worst.rows) == (twin.first_n(k, rate, e_eps), expected.n)


@pytest.mark.parametrize(("k", "rate", "epsilon"), [AT_THE_THIRD, *random_cases(60)])
def test_tight_delta_is_the_definition_of_differential_privacy(k: int, rate: Fraction, epsilon: float) -> None:
    e_eps = Fraction(math.exp(epsilon))
    up_to = 2 * twin.first_n(k, rate, e_eps) + 40
    expected = twin.smallest_delta(k, rate, e_eps, up_to)
    worst = worst_case(k=k, sample_rate=float(rate), epsilon=epsilon, tight=True)
    assert worst.dp_delta == pytest.approx(float(expected.value), rel=1e-9)
    assert worst.rows == expected.n


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_batch_size_of_candidates_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, at_once: int, tight: bool
) -> None:
    def worst_cases() -> list[sdgs.WorstCase]:
        cases = [(known[0], known[1], known[2]) for known in KNOWN]
        k, rate, epsilon = AT_THE_THIRD
        cases.append((k, float(rate), epsilon))
        return [worst_case(k=k, sample_rate=b, epsilon=e, tight=tight) for k, b, e in cases]

    at_default = worst_cases()
    monkeypatch.setattr(sdgs, "_AT_ONCE", at_once)
    assert worst_cases() == at_default


def test_a_tie_counts_against_the_claim() -> None:
    """At e^eps = 5 and beta = 1/2, gamma is 9/10: 9 of 10 rows do not expose, but do for a slightly smaller epsilon."""
    exact = twin.d(7, Fraction(1, 2), Fraction(5), 60)
    assert float(exact.value) == 0.5**7
    assert sdgs_delta(k=7, sample_rate=0.5, epsilon=math.log(5)) == pytest.approx(11 / 1024)
    assert sdgs_delta(k=7, sample_rate=0.5, epsilon=math.log(5) + 1e-11) == pytest.approx(0.5**7)


@given(k=counts, rate=rates, more=extra, tight=st.booleans())
def test_delta_never_grows_with_k(k: int, rate: float, more: float, tight: bool) -> None:
    epsilon = least_epsilon(sample_rate=rate) + more
    one, next_one = (worst_case(k=n, sample_rate=rate, epsilon=epsilon, tight=tight).dp_delta for n in (k, k + 1))
    assert next_one <= one * (1 + 1e-12)


@given(k=counts, rate=rates, more=extra, step=st.floats(0, 1), tight=st.booleans())
def test_delta_never_grows_with_epsilon(k: int, rate: float, more: float, step: float, tight: bool) -> None:
    epsilon = least_epsilon(sample_rate=rate) + more
    one, next_one = (
        worst_case(k=k, sample_rate=rate, epsilon=e, tight=tight).dp_delta for e in (epsilon, epsilon + step)
    )
    assert next_one <= one * (1 + 1e-12)


@given(k=counts, rate=rates, more=extra)
def test_delta_lies_between_the_rate_to_the_k_and_one(k: int, rate: float, more: float) -> None:
    epsilon = least_epsilon(sample_rate=rate) + more
    tight = sdgs_delta_tight(k=k, sample_rate=rate, epsilon=epsilon)
    assert rate**k * (1 - 1e-12) <= tight <= sdgs_delta(k=k, sample_rate=rate, epsilon=epsilon) * (1 + 1e-12)
    assert sdgs_delta(k=k, sample_rate=rate, epsilon=epsilon) < 1


def test_delta_is_a_step_function_of_epsilon() -> None:
    values = {sdgs_delta(k=7, sample_rate=0.5, epsilon=1 + n / 1000) for n in range(1000)}
    assert 3 <= len(values) <= 10
    assert len({sdgs_delta_tight(k=7, sample_rate=0.5, epsilon=1 + n / 1000) for n in range(300)}) > 200


@pytest.mark.parametrize(
    ("rate", "epsilon", "k"),
    [
        (1e-300, 1e-299, 2),
        (1e-9, 1e-8, 2),
        (1 - 1e-9, 21, 10**9),
        (1 - 1e-6, 900, 10**6),
        (0.5, 5000, 10),
        (0.5, 1, 2**53),
    ],
)
def test_extreme_parameters_give_a_delta_at_once(rate: float, epsilon: float, k: int) -> None:
    tight = sdgs_delta_tight(k=k, sample_rate=rate, epsilon=epsilon)
    assert 0 < tight <= sdgs_delta(k=k, sample_rate=rate, epsilon=epsilon) < 1


def test_a_delta_too_small_for_a_float_is_not_zero() -> None:
    assert 0 < sdgs_delta(k=5000, sample_rate=0.1, epsilon=1) < 1e-300


@pytest.mark.parametrize(
    ("dp_delta", "expected"), [(1e-5, [49, 51, 55, 61, 65, 80, 113]), (1e-6, [62, 63, 67, 74, 81, 99, 131])]
)
def test_known_k_at_the_largest_rate_of_an_epsilon(dp_delta: float, expected: list[int]) -> None:
    epsilons = [0.25, 0.5, LN2, 1, LN3, 1.5, 2]
    assert [min_k(sample_rate=-math.expm1(-e), epsilon=e, dp_delta=dp_delta) for e in epsilons] == expected


def test_known_k_at_a_rate_of_a_tenth() -> None:
    assert [min_k(sample_rate=0.1, epsilon=e, dp_delta=1e-5) for e in (0.25, 0.5, 1, 2)] == [19, 11, 7, 6]


@given(rate=rates, more=extra, dp_delta=deltas, tight=st.booleans())
def test_min_k_is_enough_and_one_less_is_not(rate: float, more: float, dp_delta: float, tight: bool) -> None:
    epsilon = least_epsilon(sample_rate=rate) + more
    k = min_k(sample_rate=rate, epsilon=epsilon, dp_delta=dp_delta, tight=tight)
    assert worst_case(k=k, sample_rate=rate, epsilon=epsilon, tight=tight).dp_delta <= dp_delta
    assert k == 2 or worst_case(k=k - 1, sample_rate=rate, epsilon=epsilon, tight=tight).dp_delta > dp_delta


def test_min_epsilon_finds_the_step() -> None:
    assert min_epsilon(k=7, sample_rate=0.5, dp_delta=1e-2) == pytest.approx(math.log(5), rel=2e-12)


def test_min_epsilon_is_never_below_the_least_of_the_rate() -> None:
    assert min_epsilon(k=50, sample_rate=0.1, dp_delta=0.5) == least_epsilon(sample_rate=0.1) == -math.log1p(-0.1)


@given(k=st.integers(2, 100), rate=rates, above=st.floats(1.0001, 1e6), tight=st.booleans())
def test_min_epsilon_is_enough_and_a_little_less_is_not(k: int, rate: float, above: float, tight: bool) -> None:
    dp_delta = min(rate**k * above, 0.9)
    assume(dp_delta > rate**k)
    epsilon = min_epsilon(k=k, sample_rate=rate, dp_delta=dp_delta, tight=tight)
    assert worst_case(k=k, sample_rate=rate, epsilon=epsilon, tight=tight).dp_delta <= dp_delta
    least = least_epsilon(sample_rate=rate)
    less = epsilon * (1 - 1e-11)
    assert less < least or worst_case(k=k, sample_rate=rate, epsilon=less, tight=tight).dp_delta > dp_delta


def test_the_smallest_delta_is_reached_and_anything_below_is_refused() -> None:
    reached = min_epsilon(k=7, sample_rate=0.25, dp_delta=0.25**7)
    assert sdgs_delta(k=7, sample_rate=0.25, epsilon=reached) == 0.25**7
    with pytest.raises(PolicyError, match=r"no epsilon reaches .* sample_rate \*\* k = 6.11e-05"):
        min_epsilon(k=7, sample_rate=0.25, dp_delta=6e-5)


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, "7", None, True, 2**53 + 1])
def test_an_invalid_k_is_refused(k: object) -> None:
    with pytest.raises(PolicyError, match="k must be a whole number of at least 2"):
        sdgs_delta(k=k, sample_rate=0.5, epsilon=1)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="k must be a whole number of at least 2"):
        min_epsilon(k=k, sample_rate=0.5, dp_delta=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, math.nan, "0.5", None, True])
def test_an_invalid_sample_rate_is_refused(rate: object) -> None:
    with pytest.raises(PolicyError, match="sample_rate must be a number above 0 and below 1"):
        min_k(sample_rate=rate, epsilon=1, dp_delta=1e-6)  # type: ignore[arg-type]


def test_a_sample_rate_of_one_is_refused() -> None:
    with pytest.raises(PolicyError, match="sample_rate 1 keeps every row and gives no differential privacy"):
        sdgs_delta(k=10, sample_rate=1, epsilon=1)


def test_an_epsilon_too_small_for_the_rate_is_refused_with_the_least_one() -> None:
    with pytest.raises(PolicyError, match=r"epsilon must be at least .* = 0.693148 for sample_rate 0.5, got 0.6"):
        sdgs_delta(k=10, sample_rate=0.5, epsilon=0.6)
    assert sdgs_delta(k=10, sample_rate=0.5, epsilon=0.693148) < 1


@given(epsilon=st.floats(1e-6, 30))
def test_the_largest_rate_of_an_epsilon_is_not_lost_to_rounding(epsilon: float) -> None:
    assert sdgs_delta(k=20, sample_rate=-math.expm1(-epsilon), epsilon=epsilon) < 1
    assert sdgs_delta(k=20, sample_rate=1 - math.exp(-epsilon), epsilon=epsilon) < 1


@pytest.mark.parametrize("dp_delta", [0, 1, -1e-6, 2, math.nan, "1e-6", None])
def test_a_delta_that_is_not_a_probability_is_refused(dp_delta: object) -> None:
    with pytest.raises(PolicyError, match="dp_delta must be a number above 0 and below 1"):
        min_k(sample_rate=0.1, epsilon=1, dp_delta=dp_delta)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="dp_delta must be a number above 0 and below 1"):
        min_epsilon(k=5, sample_rate=0.1, dp_delta=dp_delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [-1, math.inf, math.nan, "1", None])
def test_an_invalid_epsilon_is_refused(epsilon: object) -> None:
    with pytest.raises(PolicyError, match="epsilon must be a finite number"):
        sdgs_delta(k=5, sample_rate=0.1, epsilon=epsilon)  # type: ignore[arg-type]


def test_a_k_above_the_largest_count_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"no k up to 2\*\*53"):
        min_k(sample_rate=1 - 2**-53, epsilon=40, dp_delta=1e-300)


@pytest.mark.parametrize("name", castleguard.privacy.__all__)
def test_every_exported_name_is_documented(name: str) -> None:
    assert getattr(castleguard.privacy, name).__doc__
