"""The baseline: Laplace noise of the stated scale, repeatable by its seed, refused for zero or infinite noise."""

import math
from typing import Any

import numpy as np
import pytest

from castleguard.errors import InputError, PolicyError
from castleguard.judge.measure.error import mean_squared_error
from castleguard.lab.baselines.naive import naive_laplace

VALUES = np.arange(20_000.0)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1.0), (0.5, 3.0), (4.0, 57_666.0)])
def test_noise_is_that_of_the_laplace_distribution(epsilon: float, sensitivity: float) -> None:
    """The seed is fixed; with another one a true sampler would fail once in a thousand."""
    from scipy.stats import kstest, laplace

    noise = naive_laplace(VALUES, epsilon=epsilon, sensitivity=sensitivity, seed=2018) - VALUES
    assert kstest(noise, laplace(scale=sensitivity / epsilon).cdf).pvalue > 0.001


@pytest.mark.statistical
def test_error_is_twice_the_square_of_the_scale_for_any_values() -> None:
    """Its standard deviation is sqrt(20 / values) scale^2, 0.0316 here: with another seed it would miss by more than
    four of them in one of 15,000 runs.
    """
    for values in (VALUES, np.zeros(20_000)):
        error = mean_squared_error(values, naive_laplace(values, epsilon=2, sensitivity=10, seed=7))
        assert error / 25 == pytest.approx(2, abs=4 * 0.0316)


def test_the_same_seed_draws_the_same_noise_and_another_one_does_not() -> None:
    first, again, other = (naive_laplace(VALUES, epsilon=1, sensitivity=1, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.any(first == other)


def test_every_value_has_noise_of_its_own() -> None:
    assert np.unique(naive_laplace(np.zeros(1000), epsilon=1, sensitivity=1, seed=0)).size == 1000


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, "1", True, None])
@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
def test_epsilon_and_sensitivity_are_finite_and_above_0(name: str, bad: Any) -> None:
    with pytest.raises(PolicyError, match=f"{name} must be a finite number above 0"):
        naive_laplace([1.0], **({"epsilon": 1.0, "sensitivity": 1.0, "seed": 0} | {name: bad}))


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1e-300, 1e300), (1e300, 1e-300)])
def test_a_scale_beyond_a_float64_is_refused(epsilon: float, sensitivity: float) -> None:
    with pytest.raises(PolicyError, match="sensitivity / epsilon must be a finite number above 0"):
        naive_laplace([1.0], epsilon=epsilon, sensitivity=sensitivity, seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(PolicyError, match="seed must be a whole number of at least 0"):
        naive_laplace([1.0], epsilon=1, sensitivity=1, seed=seed)


def test_values_are_finite_numbers() -> None:
    with pytest.raises(InputError, match="values must hold at least one value"):
        naive_laplace([], epsilon=1, sensitivity=1, seed=0)
    with pytest.raises(InputError, match="values must hold finite numbers only"):
        naive_laplace([math.nan], epsilon=1, sensitivity=1, seed=0)
