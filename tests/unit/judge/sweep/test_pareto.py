"""The Pareto set and its knee, by hand and against the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from castleguard.judge.sweep.pareto import Points, distances_to_ideal, pareto

FEW = st.integers(0, 4).map(float)  # few values, so that many are equal
POINTS = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(lambda shape: arrays(np.float64, shape, elements=FEW))


def test_a_setting_that_another_beats_in_both_is_left_out() -> None:
    # loss and risk: the third is worse than the second in both
    assert pareto([[0.1, 0.2], [0.2, 0.1], [0.3, 0.15]]).tolist() == [True, True, False]


def test_a_smaller_delay_keeps_a_setting_in() -> None:
    assert pareto([[0.1, 0.1, 1000], [0.2, 0.2, 100], [0.3, 0.2, 100]]).tolist() == [True, True, False]


def test_equal_settings_stay_together() -> None:
    assert pareto([[1, 1], [1, 1], [1, 2], [2, 1]]).tolist() == [True, True, False, False]


@given(POINTS)
def test_it_is_the_definition(points: Points) -> None:
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
def test_whatever_is_left_out_is_beaten_by_one_that_is_not(points: Points) -> None:
    best = points[pareto(points)]
    assert best.size
    for point in points[~pareto(points)]:
        assert any((other <= point).all() and (other < point).any() for other in best)


def test_the_distance_is_taken_after_scaling() -> None:
    # Scaled: (0, 1), (1, 0) and (0.5, 0.25); the ideal is (0, 0).
    found = distances_to_ideal([[0.1, 400], [0.5, 0], [0.3, 100]])
    assert found == pytest.approx([1, 1, np.sqrt(0.25 + 0.0625)])


def test_a_criterion_in_which_all_are_equal_does_not_count() -> None:
    assert distances_to_ideal([[0, 7], [3, 7]]).tolist() == [0, 1]
