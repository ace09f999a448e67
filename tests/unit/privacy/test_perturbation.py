"""Theorem 1: the size of noise of scale R/phi."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace

from castleguard.errors import PolicyError
from castleguard.privacy import distance_for, phi_for, probability_within

phis = st.floats(0.01, 1e4)
distances = st.floats(1e-4, 2)
probabilities = st.floats(0.001, 0.999)


@given(phi=phis, distance=distances, width=st.floats(0.1, 1e6))
def test_the_probability_is_that_of_the_laplace_distribution(phi: float, distance: float, width: float) -> None:
    noise = laplace(scale=width / phi)
    expected = noise.cdf(distance * width) - noise.cdf(-distance * width)
    assert probability_within(phi=phi, distance=distance) == pytest.approx(expected, abs=1e-12)


@given(probability=probabilities, distance=distances)
def test_phi_is_the_one_that_gives_the_probability(probability: float, distance: float) -> None:
    phi = phi_for(probability=probability, distance=distance)
    assert probability_within(phi=phi, distance=distance) == pytest.approx(probability)


@given(phi=phis, probability=probabilities)
def test_distance_is_the_one_that_gives_the_probability(phi: float, probability: float) -> None:
    distance = distance_for(phi=phi, probability=probability)
    assert probability_within(phi=phi, distance=distance) == pytest.approx(probability)


def test_equation_4_of_the_paper() -> None:
    assert phi_for(probability=0.9, distance=0.05) == pytest.approx(-math.log(1 - 0.9) / 0.05)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "1", None, True])
def test_phi_and_distance_must_be_positive_numbers(value: object) -> None:
    with pytest.raises(PolicyError, match="phi must be a finite number above 0"):
        probability_within(phi=value, distance=0.05)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="distance must be a finite number above 0"):
        phi_for(probability=0.9, distance=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 1, -0.5, 1.5, math.nan, "0.5", None, True])
def test_a_certain_or_impossible_probability_is_refused(value: object) -> None:
    with pytest.raises(PolicyError, match="probability must be a number above 0 and below 1"):
        phi_for(probability=value, distance=0.05)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="probability must be a number above 0 and below 1"):
        distance_for(phi=10, probability=value)  # type: ignore[arg-type]
