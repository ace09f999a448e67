"""What strict DOCA makes of a window's columns, piece by piece."""

import numpy as np
import pytest

from castleguard.algorithms.doca.noisy_columns import fit_counts, run_sizes


@pytest.mark.parametrize(
    ("rows", "k", "sizes"),
    [(10, 10, [10]), (19, 10, [19]), (20, 10, [10, 10]), (23, 5, [5, 5, 5, 8]), (3, 1, [1, 1, 1])],
)
def test_the_last_run_takes_what_is_left(rows: int, k: int, sizes: list[int]) -> None:
    assert run_sizes(rows, k).tolist() == sizes


@pytest.mark.parametrize(
    ("counts", "rows", "fitted"),
    [
        ([3, 7], 10, [3, 7]),
        ([5, 9], 10, [3, 7]),  # two too many from each
        ([1, 9, 6], 10, [0, 7, 3]),  # half of 5 from each that stays: 0, 6.5, 3.5; the half to the smaller label
        ([0, 0, 0], 4, [2, 1, 1]),
        ([0, 2], 10, [4, 6]),
        ([7], 3, [3]),
    ],
)
def test_counts_are_made_to_fit_by_taking_the_same_from_all(counts: list[int], rows: int, fitted: list[int]) -> None:
    assert fit_counts(np.array(counts), rows).tolist() == fitted


def test_of_equal_remainders_the_smaller_labels_are_served() -> None:
    assert fit_counts(np.zeros(100, dtype=np.int64), 60).tolist() == [1] * 60 + [0] * 40
