"""Checks of promises about time from the order of a file."""

from typing import Any

import numpy as np
import pytest

from castleguard.judge.verify.group_values import Distance, coordinates, distances, tally
from castleguard.judge.verify.release_times import (
    Column,
    Span,
    can_follow,
    judge_public,
    judge_running,
    late_rows,
    references,
    spans,
)
from castleguard.privacy.closeness import Closeness


def test_row_published_after_a_much_later_arrival_is_late() -> None:
    assert late_rows(np.array([5, 0, 1]), 4) == 1  # row 5 had arrived: row 0 had to leave with row 4, row 1 did not
    assert late_rows(np.array([5, 1, 0]), 5) == 0
    assert late_rows(np.array([], dtype=np.int64), 5) == 0


def test_punctual_row_is_never_late() -> None:
    draw = np.random.default_rng(0)
    for delay in (1, 5, 40):
        arrived = np.arange(300)
        left = arrived + draw.integers(0, delay + 1, 300)
        order = np.lexsort((draw.random(300), left))  # rows that leave together, in any order
        assert late_rows(arrived[order], delay) == 0


def test_group_is_released_between_its_first_arrival_and_its_last_deadline() -> None:
    found = spans(np.array([0, 1, 0]), np.array([2, 4, 7]), delay=3, arrivals=10, count=2)
    assert found.first.tolist() == [2, 4]
    assert found.last.tolist() == [9, 7]  # 7 + 3 is beyond the last arrival


def test_running_distributions() -> None:
    column = Column(np.array([0, 1, 1, 0]), 2, "equal")
    # With alpha 1: after one row (2, 1)/3, after two (2, 2)/4, then (2, 3)/5 and (3, 3)/6.
    cumulative = references(column, Closeness(t=0.1), 0, 4)
    assert cumulative == pytest.approx(np.array([[2 / 3, 1 / 3], [0.5, 0.5], [0.4, 0.6], [0.5, 0.5]]))
    # The last two rows: (0), (0, 1), (1, 1), (1, 0).
    window = references(column, Closeness(t=0.1, reference="window", window=2), 0, 4)
    assert window == pytest.approx(np.array([[2 / 3, 1 / 3], [0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]))
    # Weights after three rows: 0.25 for value 0, 0.5 + 1 for value 1.
    decay = references(column, Closeness(t=0.1, reference="decay", decay=0.5), 2, 3)
    assert decay == pytest.approx(np.array([[1.25, 2.5]]) / 3.75)
    assert can_follow(column)


def test_group_far_from_public_shares_is_a_proof() -> None:
    counted = tally(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0]), np.arange(4), count=2)
    column = Column(np.zeros(0, np.int64), 2, "equal")
    found = judge_public(counted, Closeness(t=0.3, alpha=1.0), column, np.array([0.5, 0.5]))
    assert found.failed.tolist() == [False, True]
    assert found.proved.tolist() == [False, True]


def test_group_with_a_repeated_person_is_not_a_proof() -> None:
    # Person 7 has value 0 twice in group 0: each of two releases may have had other values beside it.
    counted = tally(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([7, 7, 8]), count=2)
    public = judge_public(counted, Closeness(t=0.1), Column(np.zeros(0, np.int64), 2, "equal"), np.array([0.5, 0.5]))
    column, span = Column(np.tile([0, 1], 50), 3, "equal"), Span(np.array([90, 90]), np.array([99, 99]))
    for found in (public, judge_running(counted, Closeness(t=0.1), column, span)):
        assert found.failed.tolist() == [True, True]
        assert found.proved.tolist() == [False, True]


def test_group_fails_only_if_no_moment_explains_it() -> None:
    # The first 50 rows have value 0, the last 50 value 1. Group 0 has value 0 only, group 1 value 1 only.
    codes = np.repeat([0, 1], 50)
    column = Column(codes, 3, "equal")
    counted = tally(np.repeat([0, 1], 4), np.repeat([0, 1], 4), np.arange(8), count=2)
    closeness = Closeness(t=0.2)
    early, late = Span(np.array([40, 90]), np.array([45, 99])), Span(np.array([40, 40]), np.array([99, 99]))
    # Group 0 was released while nearly all had value 0; group 1 when half had, and 0.5 is far beyond 0.2.
    assert judge_running(counted, closeness, column, early).proved.tolist() == [False, True]
    # If group 0 may have been released at any earlier moment, its distance from the last one proves nothing.
    assert judge_running(counted, closeness, column, late).failed.tolist() == [True, True]
    assert not judge_running(counted, closeness, column, late).proved[0]


@pytest.mark.parametrize("distance", ["equal", "ordered"])
@pytest.mark.parametrize(
    "reference", [{}, {"reference": "window", "window": 40}, {"reference": "decay", "decay": 0.97}]
)
def test_releases_that_passed_are_never_proved_broken(distance: Distance, reference: dict[str, Any]) -> None:
    """Values drift with time. A group consists of up to three releases, each within t of the distribution at its moment
    and of rows that arrived within the delay before. No such group is ever proved broken.
    """
    draw = np.random.default_rng(3)
    arrivals, delay, count = 400, 60, 60
    codes = np.minimum((draw.random(arrivals) + np.arange(arrivals) / arrivals * 4).astype(np.int64), 3)
    column, closeness = Column(codes, 5, distance), Closeness(t=0.2 if distance == "equal" else 0.1, **reference)
    moving = coordinates(references(column, closeness, 0, arrivals), distance)
    groups, rows = [], []
    for group in range(count):
        for moment in draw.choice(np.arange(20, arrivals), int(draw.integers(1, 4)), replace=False):
            members = draw.choice(np.arange(max(0, moment - delay), moment + 1), 12, replace=False)
            shares = np.bincount(codes[members], minlength=5)[None, :] / 12
            if distances(coordinates(shares, distance), moving[moment])[0] <= closeness.t:
                groups += [group] * 12
                rows += members.tolist()
    numbers, position = np.array(groups), np.array(rows)
    counted = tally(numbers, codes[position], np.arange(position.size), count=count)
    span = spans(numbers, position, delay=delay, arrivals=arrivals, count=count)
    found = judge_running(counted, closeness, column, span)
    assert found.failed.any()  # some are far from the last moment that they can have been released at
    assert not found.proved.any()
