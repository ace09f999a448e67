"""Composition: the closed forms, and the exact loss of randomised response, the worst mechanism of its epsilon."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from castleguard import privacy
from castleguard.errors import PolicyError
from castleguard.privacy import Loss, compositions

epsilons = st.floats(0.001, 5)
uses = st.integers(1, 300)
totals = st.floats(1e-9, 0.1)


def delta_of_randomised_response(epsilon: float, times: int, total: float, dp_delta: float = 0.0) -> float:
    """Exact delta at `total` of `times` answers, each of which is revealed with probability `dp_delta`.

    Kairouz, Oh and Viswanath 2015: no (epsilon, dp_delta)-DP mechanism loses more.
    """
    truth = 1 / (1 + math.exp(-epsilon))
    true_answers = range(times + 1)
    under_one, under_other = (binom.pmf(true_answers, times, chance) for chance in (truth, 1 - truth))
    lost = sum(max(p - math.exp(total) * q, 0.0) for p, q in zip(under_one, under_other, strict=True))
    return float(1 - (1 - dp_delta) ** times * (1 - lost))


@given(epsilon=epsilons, times=uses, total_delta=totals, tight=st.booleans())
def test_no_bound_is_below_the_exact_loss_of_pure_mechanisms(
    epsilon: float, times: int, total_delta: float, tight: bool
) -> None:
    for loss in compositions(epsilon=epsilon, times=times, total_delta=total_delta, tight=tight):
        if loss.epsilon < 700:
            really = delta_of_randomised_response(epsilon, times, loss.epsilon)
            assert really <= loss.dp_delta * (1 + 1e-9) + 1e-11


@given(epsilon=epsilons, times=uses, dp_delta=st.floats(1e-9, 1e-5), more=st.floats(1.01, 100))
def test_no_bound_is_below_the_exact_loss_of_mechanisms_with_a_delta(
    epsilon: float, times: int, dp_delta: float, more: float
) -> None:
    total_delta = times * dp_delta * more
    losses = compositions(epsilon=epsilon, times=times, dp_delta=dp_delta, total_delta=total_delta)
    assert [loss.method for loss in losses] == ["basic", "advanced"]
    for loss in losses:
        if loss.epsilon < 700:
            really = delta_of_randomised_response(epsilon, times, loss.epsilon, dp_delta)
            assert really <= loss.dp_delta * (1 + 1e-9) + 1e-11


def test_basic_composition_adds_up() -> None:
    assert privacy.compose_basic(epsilon=0.5, times=10) == Loss(epsilon=5.0, dp_delta=0.0, method="basic")
    assert privacy.compose_basic(epsilon=0.5, times=24, dp_delta=0.1).dp_delta == 1.0


def test_advanced_composition_is_the_closed_form() -> None:
    e, c, d, total = 0.1, 100, 1e-8, 1e-5
    spread = e * math.sqrt(2 * c * math.log(1 / (total - c * d)))
    drift = c * e * (math.exp(e) - 1) / (math.exp(e) + 1)
    loss = privacy.compose_advanced(epsilon=e, times=c, dp_delta=d, total_delta=total)
    assert loss.epsilon == pytest.approx(spread + drift)
    assert (loss.dp_delta, loss.method) == (total, "advanced")


@given(rho=st.floats(1e-9, 1e3), total_delta=st.floats(1e-300, 0.999))
def test_zcdp_is_converted_by_the_best_order(rho: float, total_delta: float) -> None:
    """The delta of Canonne, Kamath and Steinke at the epsilon found: no order gives a smaller one than it should."""

    def log_delta(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        exponent = (order - 1) * (order * rho - found)
        return float(exponent - log_order + order * (log_order - math.log1p(math.exp(log_order))))

    found = privacy.zcdp_epsilon(rho=rho, total_delta=total_delta)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / total_delta))
    around = min((n / 10 for n in range(-100, 400)), key=log_delta)
    best = minimize_scalar(log_delta, bounds=(around - 0.2, around + 0.2), method="bounded", options={"xatol": 1e-9})
    if found == 0:
        assert best.fun <= math.log(total_delta)
    else:
        assert best.fun == pytest.approx(math.log(total_delta), rel=1e-6, abs=1e-6)


@given(epsilon=st.floats(0.001, 20), order=st.floats(1.0001, 500))
def test_rho_covers_the_renyi_divergence_of_randomised_response(epsilon: float, order: float) -> None:
    log_truth, log_lie = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    terms = [order * p + (1 - order) * q for p, q in ((log_truth, log_lie), (log_lie, log_truth))]
    largest = max(terms)
    renyi = (largest + math.log(sum(math.exp(term - largest) for term in terms))) / (order - 1)
    assert renyi <= order * privacy.zcdp_rho(epsilon=epsilon, tight=True) * (1 + 1e-9) + 1e-10
    assert privacy.zcdp_rho(epsilon=epsilon, tight=True) <= privacy.zcdp_rho(epsilon=epsilon)


def test_rho_is_half_the_square_of_epsilon() -> None:
    assert privacy.zcdp_rho(epsilon=0.5) == 0.125
    assert privacy.zcdp_rho(epsilon=0.5, tight=True) == pytest.approx(0.5 * math.tanh(0.25))


def test_zcdp_of_a_list_adds_rhos() -> None:
    equal = privacy.compose_zcdp(epsilon=[0.2, 0.2, 0.2], total_delta=1e-6)
    assert equal.epsilon == pytest.approx(privacy.compose_zcdp(epsilon=0.2, times=3, total_delta=1e-6).epsilon)
    assert privacy.compose_zcdp(epsilon=[0.3, 0.4], times=2, total_delta=1e-6).epsilon == pytest.approx(
        privacy.zcdp_epsilon(rho=0.25, total_delta=1e-6)
    )


def test_epsilon_zero_costs_nothing() -> None:
    assert privacy.compose(epsilon=0, times=10, total_delta=1e-6).epsilon == 0
    assert privacy.compose_zcdp(epsilon=0, times=10, total_delta=1e-6).epsilon == 0


@given(epsilon=epsilons, times=uses, total_delta=totals, tight=st.booleans())
def test_compose_is_never_above_any_bound(epsilon: float, times: int, total_delta: float, tight: bool) -> None:
    best = privacy.compose(epsilon=epsilon, times=times, total_delta=total_delta, tight=tight)
    others = [
        privacy.compose_basic(epsilon=epsilon, times=times),
        privacy.compose_advanced(epsilon=epsilon, times=times, total_delta=total_delta),
        privacy.compose_zcdp(epsilon=epsilon, times=times, total_delta=total_delta, tight=tight),
    ]
    assert best in others
    assert best.epsilon == min(loss.epsilon for loss in others)


@given(epsilon=epsilons, times=uses, total_delta=totals, factor=st.floats(1, 3))
def test_more_uses_a_larger_epsilon_or_a_smaller_delta_never_cost_less(
    epsilon: float, times: int, total_delta: float, factor: float
) -> None:
    cost = privacy.compose(epsilon=epsilon, times=times, total_delta=total_delta).epsilon * (1 - 1e-9)
    assert privacy.compose(epsilon=epsilon, times=times + 1, total_delta=total_delta).epsilon >= cost
    assert privacy.compose(epsilon=epsilon * factor, times=times, total_delta=total_delta).epsilon >= cost
    assert privacy.compose(epsilon=epsilon, times=times, total_delta=total_delta / factor).epsilon >= cost


@pytest.mark.parametrize(("epsilon", "times", "method"), [(1, 3, "basic"), (0.1, 1000, "zCDP")])
def test_the_smallest_bound_depends_on_epsilon_and_times(epsilon: float, times: int, method: str) -> None:
    assert privacy.compose(epsilon=epsilon, times=times, total_delta=1e-6).method == method


def test_advanced_composition_is_the_smallest_for_many_small_uses_with_a_delta() -> None:
    loss = privacy.compose(epsilon=0.01, times=10_000, dp_delta=1e-12, total_delta=1e-6)
    assert loss.method == "advanced"
    assert loss.epsilon < 0.06 * privacy.compose_basic(epsilon=0.01, times=10_000).epsilon


def test_basic_composition_leaves_unused_delta_alone() -> None:
    loss = privacy.compose(epsilon=1, times=3, dp_delta=1e-8, total_delta=1e-6)
    assert loss == privacy.compose_basic(epsilon=1, times=3, dp_delta=1e-8)
    assert str(loss) == "epsilon 3, delta 3e-08 (basic)"


@pytest.mark.parametrize("dp_delta", [0.0, 1e-7, 3e-8, 7e-9, 1.1e-6])
def test_a_total_that_is_just_the_sum_leaves_basic_composition_alone(dp_delta: float) -> None:
    for times in range(1, 30):
        assert (
            len(compositions(epsilon=1, times=times, dp_delta=dp_delta, total_delta=float(f"{times * dp_delta:.6g}")))
            == 1
        )


def test_a_total_below_the_sum_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"total_delta 1e-06 is too small: 24 uses alone have a delta of 2.4e-06"):
        privacy.compose(epsilon=1, times=24, dp_delta=1e-7, total_delta=1e-6)
    with pytest.raises(PolicyError, match="total_delta 1e-06 is too small"):
        privacy.compose_advanced(epsilon=1, times=10, dp_delta=1e-7, total_delta=1e-6)


@given(epsilon=st.floats(0, 1000), dp_delta=st.floats(0, 0.1), rate=st.floats(1e-6, 1))
def test_sampling_amplifies(epsilon: float, dp_delta: float, rate: float) -> None:
    loss = privacy.subsampled(epsilon=epsilon, dp_delta=dp_delta, sample_rate=rate)
    assert loss.epsilon <= epsilon * (1 + 1e-12)
    assert loss.dp_delta == rate * dp_delta
    if epsilon < 500:
        assert math.exp(loss.epsilon) == pytest.approx(1 - rate + rate * math.exp(epsilon), rel=1e-9)
        assert loss.epsilon >= rate * epsilon * (1 - 1e-9)
    if rate == 1:
        assert loss.epsilon == pytest.approx(epsilon)


@given(epsilon=st.floats(0.001, 2), dp_delta=st.floats(0, 1e-6), size=st.integers(1, 5))
def test_a_group_pays_for_each_step_between_neighbours(epsilon: float, dp_delta: float, size: int) -> None:
    loss = privacy.group(epsilon=epsilon, dp_delta=dp_delta, size=size)
    steps = sum(dp_delta * math.exp(step * epsilon) for step in range(size))
    assert loss.epsilon == pytest.approx(size * epsilon)
    assert loss.dp_delta == pytest.approx(steps)


def test_a_group_may_be_large_where_delta_is_small() -> None:
    assert privacy.group(epsilon=1, dp_delta=1e-20, size=30).dp_delta == pytest.approx(6.22e-8, rel=1e-3)


def test_a_large_group_has_no_privacy_left() -> None:
    assert privacy.group(epsilon=1, dp_delta=1e-6, size=1000) == Loss(epsilon=1000.0, dp_delta=1.0, method="group")
    assert privacy.group(epsilon=1, size=1000).dp_delta == 0
    assert privacy.group(epsilon=0, dp_delta=1e-6, size=3).dp_delta == pytest.approx(3e-6)


@pytest.mark.parametrize("times", [0, -1, 2.5, "3", None, True])
def test_an_invalid_number_of_uses_is_refused(times: object) -> None:
    with pytest.raises(PolicyError, match="times must be a whole number of at least 1"):
        privacy.compose(epsilon=1, times=times, total_delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="times must be a whole number of at least 1"):
        privacy.compose_zcdp(epsilon=[1], times=times, total_delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="size must be a whole number of at least 1"):
        privacy.group(epsilon=1, size=times)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [-0.1, math.inf, math.nan, "1", None])
def test_an_invalid_epsilon_is_refused(epsilon: object) -> None:
    with pytest.raises(PolicyError, match="epsilon must be a finite number of at least 0"):
        privacy.compose(epsilon=epsilon, times=2, total_delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="epsilon must be a finite number of at least 0"):
        privacy.compose_zcdp(epsilon=[1, epsilon], total_delta=1e-6)  # type: ignore[list-item]


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan, "0", None])
def test_a_delta_that_is_not_a_probability_is_refused(delta: object) -> None:
    with pytest.raises(PolicyError, match="total_delta must be a number at least 0 and below 1"):
        privacy.compose(epsilon=1, times=2, total_delta=delta)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="dp_delta must be a number at least 0 and below 1"):
        privacy.compose(epsilon=1, times=2, dp_delta=delta, total_delta=0.5)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="total_delta must be a number above 0 and below 1"):
        privacy.compose_zcdp(epsilon=1, total_delta=delta)  # type: ignore[arg-type]
