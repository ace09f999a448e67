"""Settings on the same axes, and the Pareto set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from castleguard.judge.sweep.weighing import NO_DELTA, Points, distances_to_ideal, pareto
from tests.unit.judge.sweep.made_up import castle_grid, weighed

GRID = castle_grid(k=[2, 3], delay=[50])


def test_without_a_claim_the_risk_is_that_of_re_identification() -> None:
    found = weighed(GRID, {(2, 50): {"mean_risk": 0.3}, (3, 50): {"mean_risk": 0.2, "epsilon": 1.0}})
    assert not found.by_epsilon
    assert [found.risk(0), found.risk(1)] == [0.3, 0.2]
    assert found.delta(1) == 0


def test_with_claims_throughout_the_risk_is_epsilon_and_delta_counts() -> None:
    figures = {(2, 50): {"epsilon": 1.0, "delta": 1e-3}, (3, 50): {"epsilon": 1.0, "delta": 1e-5, "loss": 0.3}}
    found = weighed(GRID, figures)
    assert found.by_epsilon
    assert [found.risk(0), found.delta(0)] == [1.0, 1e-3]
    assert found.best == (0, 1)  # more loss, but a delta that is a hundred times smaller


def test_tiny_delta_counts_as_0() -> None:
    figures = {(2, 50): {"epsilon": 1.0, "delta": NO_DELTA / 2}, (3, 50): {"epsilon": 1.0, "delta": 0.0, "loss": 0.3}}
    assert weighed(GRID, figures).best == (0,)


def test_claim_of_epsilon_0_is_not_used_as_risk() -> None:
    """Paper mode may promise (0, sample_rate): to be exposed fully with that probability."""
    figures = {(2, 50): {"epsilon": 0.0, "delta": 0.5}, (3, 50): {"epsilon": 0.0, "delta": 0.5}}
    assert not weighed(GRID, figures).by_epsilon


def test_pareto_set_is_ordered_by_risk_and_considers_the_delay() -> None:
    grid = castle_grid(k=[2, 3], delay=[50, 100])
    figures = {
        (2, 50): {"loss": 0.1, "mean_risk": 0.5, "delay": 50},
        (2, 100): {"loss": 0.1, "mean_risk": 0.5, "delay": 100},  # dominated: equal, but waits longer
        (3, 50): {"loss": 0.3, "mean_risk": 0.3, "delay": 50},
        (3, 100): {"loss": 0.2, "mean_risk": 0.3, "delay": 100},
    }
    assert weighed(grid, figures).best == (3, 2, 0)


FEW = st.integers(0, 4).map(float)  # few values, so that many are equal
POINTS = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(lambda shape: arrays(np.float64, shape, elements=FEW))


def test_dominated_setting_is_not_in_the_pareto_set() -> None:
    # loss and risk: the third is worse than the second in both
    assert pareto([[0.1, 0.2], [0.2, 0.1], [0.3, 0.15]]).tolist() == [True, True, False]


def test_smaller_delay_keeps_a_setting_in_the_pareto_set() -> None:
    assert pareto([[0.1, 0.1, 1000], [0.2, 0.2, 100], [0.3, 0.2, 100]]).tolist() == [True, True, False]


def test_equal_settings_are_both_in_the_pareto_set() -> None:
    assert pareto([[1, 1], [1, 1], [1, 2], [2, 1]]).tolist() == [True, True, False, False]


@given(POINTS)
def test_pareto_set_matches_its_definition(points: Points) -> None:
    expected = [
        not any(
            all(a <= b for a, b in zip(other, point, strict=True))
            and any(a < b for a, b in zip(other, point, strict=True))
            for other in points
        )
        for point in points
    ]
    assert pareto(points).tolist() == expected


@given(POINTS)
def test_every_excluded_setting_is_dominated_by_one_of_the_set(points: Points) -> None:
    best = points[pareto(points)]
    assert best.size
    for point in points[~pareto(points)]:
        assert any((other <= point).all() and (other < point).any() for other in best)


def test_distance_is_taken_after_scaling() -> None:
    # Scaled: (0, 1), (1, 0) and (0.5, 0.25); the ideal is (0, 0).
    found = distances_to_ideal([[0.1, 400], [0.5, 0], [0.3, 100]])
    assert found == pytest.approx([1, 1, np.sqrt(0.25 + 0.0625)])


def test_criterion_in_which_all_are_equal_does_not_count() -> None:
    assert distances_to_ideal([[0, 7], [3, 7]]).tolist() == [0, 1]
