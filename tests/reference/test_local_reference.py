"""Definitions of the strict randomisers are sound: probabilities add up, and the loss is exactly epsilon."""

from math import exp, log

import pytest

from tests.reference.local import (
    Grid,
    keep_probability,
    level_probability,
    noise_probability,
    response,
    response_probability,
)

TENTHS = Grid(0.0, 1.0, 0.1)


def test_a_number_goes_to_the_nearest_level_and_halves_go_up() -> None:
    grid = Grid(-4, 8, 2)
    assert grid.top == 6
    assert [grid.level(x) for x in (-4, -3.1, -3, -1, 1, 7.9)] == [0, 0, 1, 2, 3, 6]


def test_a_number_outside_the_domain_goes_to_its_end() -> None:
    assert [TENTHS.level(x) for x in (-5.0, -0.01, 1.01, 1e300)] == [0, 0, 10, 10]


def test_points_are_rounded_once() -> None:
    assert [TENTHS.point(level) for level in range(11)] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    assert [TENTHS.level(TENTHS.point(level)) for level in range(11)] == list(range(11))


def test_noise_moves_the_level_and_stops_at_the_ends() -> None:
    assert [TENTHS.perturbed(0.3, noise) for noise in (-100, -3, -1, 0, 2, 7, 8)] == [0, 0, 2, 3, 5, 10, 10]


def test_a_grid_needs_a_whole_number_of_steps() -> None:
    for upper, step in ((1.0, 0.3), (0.0, 0.1)):
        with pytest.raises(ValueError, match="whole number of steps"):
            Grid(0.0, upper, step)


@pytest.mark.parametrize("top", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_level_has_the_probability_of_the_noise_that_leads_to_it(top: int, epsilon: float) -> None:
    grid = Grid(0, top, 1)
    far = top + int(25 * top / epsilon)  # noise beyond has a probability below 1e-10
    for true in range(top + 1):
        summed = [0.0] * (top + 1)
        for noise in range(-far, far + 1):
            summed[grid.perturbed(true, noise)] += noise_probability(noise, top, epsilon)
        assert summed == pytest.approx([level_probability(true, told, top, epsilon) for told in range(top + 1)])
        assert sum(summed) == pytest.approx(1)


@pytest.mark.parametrize("top", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_loss_of_a_number_is_epsilon_and_not_less(top: int, epsilon: float) -> None:
    levels = range(top + 1)
    worst = max(
        level_probability(one, told, top, epsilon) / level_probability(other, told, top, epsilon)
        for told in levels
        for one in levels
        for other in levels
    )
    assert log(worst) == pytest.approx(epsilon)


def test_a_response_is_the_true_code_or_one_of_the_others() -> None:
    assert response(2, None) == 2
    assert [response(2, other) for other in range(4)] == [0, 1, 3, 4]
    assert [response(0, other) for other in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("values", [2, 3, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_responses_add_up_and_lose_epsilon(values: int, epsilon: float) -> None:
    told = [response_probability(0, code, values, epsilon) for code in range(values)]
    assert sum(told) == pytest.approx(1)
    assert told[1:] == pytest.approx([(1 - keep_probability(values, epsilon)) / (values - 1)] * (values - 1))
    assert told[0] / told[1] == pytest.approx(exp(epsilon))
