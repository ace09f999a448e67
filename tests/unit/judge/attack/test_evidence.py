"""Limits of Clopper and Pearson, the bounds that follow from them, and the ceiling."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import PolicyError
from castleguard.judge.attack.evidence import Claim, ConfidenceLimits, ceiling, limits, lower_limit, upper_limit

ALPHAS = st.sampled_from([0.001, 0.01, 0.05, 0.2])


def bounds(seen: int, seen_other: int, *, runs: int, alpha: float = 0.05) -> ConfidenceLimits:
    return limits(np.array(seen), np.array(seen_other), runs=runs, alpha=alpha)


@given(runs=st.integers(1, 5000), share=st.floats(0, 1), alpha=ALPHAS)
def test_limits_are_those_of_scipy(runs: int, share: float, alpha: float) -> None:
    from scipy.stats import binomtest

    seen = round(share * runs)
    known = binomtest(seen, runs).proportion_ci(confidence_level=1 - 2 * alpha, method="exact")
    assert float(lower_limit(np.array(seen), runs=runs, alpha=alpha)) == pytest.approx(known.low, abs=1e-9)
    assert float(upper_limit(np.array(seen), runs=runs, alpha=alpha)) == pytest.approx(known.high, abs=1e-9)


@given(runs=st.integers(1, 300), alpha=ALPHAS)
def test_lower_limit_fails_with_probability_alpha(runs: int, alpha: float) -> None:
    """At the limit itself, this count or a larger one has probability alpha."""
    from scipy.stats import binom

    seen = np.arange(1, runs + 1)
    low = lower_limit(seen, runs=runs, alpha=alpha)
    assert np.allclose(binom.sf(seen - 1, runs, low), alpha, rtol=1e-6)


def test_never_seen_and_always_seen_have_the_limits_0_and_1() -> None:
    assert lower_limit(np.array(0), runs=10, alpha=0.05) == 0
    assert upper_limit(np.array(10), runs=10, alpha=0.05) == 1


@given(seen=st.integers(0, 199), seen_other=st.integers(1, 200))
def test_bounds_grow_with_the_difference_between_streams(seen: int, seen_other: int) -> None:
    here = bounds(seen, seen_other, runs=200)
    for farther in (bounds(seen + 1, seen_other, runs=200), bounds(seen, seen_other - 1, runs=200)):
        assert farther.epsilon(0.0) >= here.epsilon(0.0)
        assert farther.dp_delta(1.0) >= here.dp_delta(1.0)


@given(seen=st.integers(0, 200), seen_other=st.integers(0, 200), delta=st.floats(0, 0.5), more=st.floats(0, 0.5))
def test_bounds_fall_as_the_other_parameter_grows(seen: int, seen_other: int, delta: float, more: float) -> None:
    found = bounds(seen, seen_other, runs=200)
    assert found.epsilon(delta + more) <= found.epsilon(delta)
    assert found.dp_delta(delta + more) <= found.dp_delta(delta)


@given(seen=st.integers(0, 500), seen_other=st.integers(0, 500), epsilon=st.floats(0, 6), delta=st.floats(0, 0.9))
def test_both_bounds_refute_the_same_claims(seen: int, seen_other: int, epsilon: float, delta: float) -> None:
    found = bounds(seen, seen_other, runs=500)
    by_delta = float(found.dp_delta(epsilon)) - delta
    if abs(by_delta) > 1e-9:
        assert (found.epsilon(delta) > epsilon) == (by_delta > 0)


def test_bounds_are_the_printed_formulas() -> None:
    low = float(lower_limit(np.array(700), runs=1000, alpha=0.025))
    high = float(upper_limit(np.array(20), runs=1000, alpha=0.025))
    found = bounds(700, 20, runs=1000)
    assert float(found.epsilon(0.01)) == pytest.approx(math.log((low - 0.01) / high))
    assert float(found.dp_delta(1.0)) == pytest.approx(low - math.e * high)
    mirrored = bounds(980, 300, runs=1000)  # the complement of the event, with the streams exchanged
    assert float(mirrored.epsilon(0.01)) == pytest.approx(math.log((low - 0.01) / high))


def test_equal_counts_show_nothing() -> None:
    assert bounds(30, 30, runs=100).epsilon(0.0) < 0
    assert bounds(30, 30, runs=100).dp_delta(0.0) < 0


@pytest.mark.parametrize(("runs", "known"), [(1500, 6.01), (20_000, 8.60), (100_000, 10.21)])
def test_ceiling_is_the_bound_of_an_event_on_one_stream_only(runs: int, known: float) -> None:
    root = 0.025 ** (1 / runs)
    assert ceiling(runs=runs, alpha=0.05) == pytest.approx(math.log(root / (1 - root)))
    assert ceiling(runs=runs, alpha=0.05) == pytest.approx(known, abs=0.01)
    assert ceiling(runs=runs, alpha=0.05) == pytest.approx(math.log(runs / 3.69), abs=0.01)


@given(seen=st.integers(0, 60), seen_other=st.integers(0, 60), delta=st.sampled_from([0.0, 0.01, 0.5]))
def test_nothing_is_above_the_ceiling(seen: int, seen_other: int, delta: float) -> None:
    assert bounds(seen, seen_other, runs=60).epsilon(delta) <= ceiling(runs=60, alpha=0.05, dp_delta=delta) + 1e-12


@pytest.mark.parametrize(("seen", "runs", "alpha"), [(-1, 10, 0.1), (11, 10, 0.1), (1, 0, 0.1), (1, 10, 0.0)])
def test_impossible_counts_of_an_event_are_refused(seen: int, runs: int, alpha: float) -> None:
    with pytest.raises(PolicyError):
        lower_limit(np.array(seen), runs=runs, alpha=alpha)


def test_claim_prints_its_numbers() -> None:
    assert str(Claim(1.0, 7.719e-4)) == "(1, 0.000772)"
    with pytest.raises(PolicyError, match="epsilon must be"):
        Claim(-1.0, 0.0).check()
    with pytest.raises(PolicyError, match="dp_delta must be"):
        Claim(1.0, 1.5).check()
