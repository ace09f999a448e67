"""Entropy and (c, l)-diversity of counts, compared with scipy and the definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from castleguard.privacy.diversity import Counts, entropy, is_entropy_diverse, is_recursive_diverse

some_counts = st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any).map(np.array)


@given(some_counts)
def test_entropy_is_shannons_in_nats(counts: Counts) -> None:
    assert entropy(counts) == pytest.approx(stats.entropy(counts), abs=1e-12)


@given(some_counts)
def test_entropy_lies_between_zero_and_the_logarithm_of_the_number_of_values(counts: Counts) -> None:
    assert 0 <= entropy(counts) <= np.log(np.count_nonzero(counts)) + 1e-12


@pytest.mark.parametrize("l", range(1, 9))
def test_l_equally_frequent_values_are_entropy_l_diverse_exactly(l: int) -> None:
    for count in (1, 3, 7):
        counts = np.array([count] * l + [0, 0])
        assert is_entropy_diverse(counts, l)
        assert not is_entropy_diverse(counts, l + 1)


@given(some_counts, st.integers(2, 5))
def test_entropy_l_diversity_needs_l_values(counts: Counts, l: int) -> None:
    if is_entropy_diverse(counts, l):
        assert np.count_nonzero(counts) >= l


def test_one_frequent_value_breaks_entropy_diversity() -> None:
    assert is_entropy_diverse(np.array([5, 4, 4]), 2)
    assert not is_entropy_diverse(np.array([50, 1, 1]), 2)


def test_no_rows_are_not_diverse() -> None:
    assert entropy(np.zeros(3)) == 0.0
    assert not is_entropy_diverse(np.zeros(3), 1)
    assert not is_recursive_diverse(np.zeros(3), 2.0, 1)


@pytest.mark.parametrize(
    ("counts", "c", "l", "diverse"),
    [
        ((4, 2, 2, 0), 1.0, 2, False),  # 4 < 1 * (2 + 2) is false: less, not at most
        ((4, 2, 2, 1), 1.0, 2, True),
        ((4, 2, 2, 1), 1.0, 3, False),
        ((4, 2, 2, 1), 2.0, 3, True),
        ((9, 1), 100.0, 3, False),  # fewer than l values
        ((1, 4, 0, 2, 2), 1.0, 2, True),  # the order of values does not matter
    ],
)
def test_the_most_frequent_value_is_less_than_c_times_the_rest_from_the_lth_on(
    counts: tuple[int, ...], c: float, l: int, diverse: bool
) -> None:
    assert is_recursive_diverse(np.array(counts), c, l) is diverse


@given(some_counts, st.integers(2, 5), st.floats(0.1, 10))
def test_recursive_diversity_is_its_definition(counts: Counts, l: int, c: float) -> None:
    falling = sorted(counts.tolist(), reverse=True)
    assert is_recursive_diverse(counts, c, l) == (falling[0] < c * sum(falling[l - 1 :]))
