"""Steps of publishing the columns of a window in strict DOCA."""

import numpy as np
import pytest

from castleguard.algorithms.doca.noisy_columns import fit_counts, run_sizes


@pytest.mark.parametrize(
    ("rows", "k", "sizes"),
    [(10, 10, [10]), (19, 10, [19]), (20, 10, [10, 10]), (23, 5, [5, 5, 5, 8]), (3, 1, [1, 1, 1])],
)
def test_the_last_run_takes_the_remainder(rows: int, k: int, sizes: list[int]) -> None:
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
def test_counts_are_adjusted_by_the_same_amount(counts: list[int], rows: int, fitted: list[int]) -> None:
    assert fit_counts(np.array(counts), rows).tolist() == fitted


def test_smaller_labels_win_ties_between_remainders() -> None:
    assert fit_counts(np.zeros(100, dtype=np.int64), 60).tolist() == [1] * 60 + [0] * 40
