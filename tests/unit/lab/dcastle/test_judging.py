"""Every rule, for figures that meet it, partly meet it, and fail it."""

import pytest

from castleguard.lab.dcastle.judging import (
    always,
    at_most,
    claim,
    combined,
    guaranteed,
    hardly_more_bytes,
    in_range,
    insignificant,
    mostly_near,
    reaches,
    same_share,
    spread,
    trend,
)
from castleguard.lab.result import Word

YES: Word = "reproduced"
HALF: Word = "partly"
NO: Word = "not reproduced"


@pytest.mark.parametrize(
    ("values", "rising", "verdict"),
    [
        ([1, 2, 3, 4, 5], True, YES),
        ([5, 4, 3, 2, 1], False, YES),
        ([1, 3, 2, 5, 4], True, YES),  # 8 of 10 pairs: tau 0.6
        ([1, 4, 3, 2, 5], True, HALF),  # 7 of 10: tau 0.4
        ([1, 9, 8, 7, 2], True, HALF),
        ([2, 3, 4, 5, 2], True, NO),  # ends where it began
        ([5, 4, 3, 2, 1], True, NO),
    ],
)
def test_a_trend_is_judged_by_its_ends_and_its_pairs(values: list[float], rising: bool, verdict: Word) -> None:
    assert trend(values, rising=rising) == verdict


@pytest.mark.parametrize(("last", "verdict"), [(1.09, YES), (0.92, YES), (1.2, HALF), (0.7, NO), (1.3, NO)])
def test_a_change_is_insignificant_up_to_a_tenth(last: float, verdict: Word) -> None:
    assert insignificant([1.0, 1.05, last]) == verdict


@pytest.mark.parametrize(
    ("holds", "verdict"), [([True] * 3, YES), ([True] * 3 + [False], HALF), ([True, True, False], NO), ([False], NO)]
)
def test_always_means_at_all_points(holds: list[bool], verdict: Word) -> None:
    assert always(holds) == verdict


@pytest.mark.parametrize(
    ("changes", "verdict"), [([0.05, -0.09, 0.7], YES), ([0.15, 0.18, 0.01], HALF), ([0.3, -0.25, 0.0], NO)]
)
def test_near_most_of_the_time_is_judged_by_the_median(changes: list[float], verdict: Word) -> None:
    assert mostly_near(changes) == verdict


@pytest.mark.parametrize(("values", "verdict"), [([1, 2, 3], YES), ([1, 2, 4], HALF), ([1, 4, 5], NO)])
def test_a_limit_holds_for_all_or_for_half(values: list[float], verdict: Word) -> None:
    assert at_most(values, 3) == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.21, 0.26, 0.5], YES), ([0.21, 0.15, 0.16], HALF), ([0.21, 0.0, 0.01], NO), ([0.15, 0.16, 0.17], NO)],
)
def test_a_range_holds_for_most_or_about(values: list[float], verdict: Word) -> None:
    assert in_range(values, 0.20, 0.27) == verdict


@pytest.mark.parametrize(("largest", "verdict"), [(0.4, YES), (0.29, YES), (0.2, HALF), (0.1, NO)])
def test_a_largest_value_is_reached_within_a_fifth(largest: float, verdict: Word) -> None:
    assert reaches([-0.5, largest, 0.0], 0.35) == verdict


@pytest.mark.parametrize(
    ("found", "stated", "verdict"),
    [(0.70, 0.60, YES), (0.40, 0.60, HALF), (0.25, 0.60, NO), (0.019, 0.0, YES), (0.035, 0.0, HALF), (0.08, 0.03, NO)],
)
def test_shares_agree_within_a_quarter_or_two_points(found: float, stated: float, verdict: Word) -> None:
    assert same_share(found, stated) == verdict


@pytest.mark.parametrize(
    ("increases", "verdict"), [([0.0, 0.05, 0.2], YES), ([0.2, 0.3, 0.4], HALF), ([-0.2, -0.1, 0.4], HALF)]
)
def test_hardly_more_bytes_are_more_and_not_much(increases: list[float], verdict: Word) -> None:
    assert hardly_more_bytes(increases) == verdict


def test_finding_in_one_curve_only_is_partly_reproduced() -> None:
    assert combined([YES, YES]) == YES
    assert combined([NO, NO]) == NO
    assert combined([YES, NO]) == HALF
    assert combined([HALF, YES]) == HALF


def test_reason_is_given_for_a_difference() -> None:
    assert claim("a", "b", "reproduced", "why").reason == ""
    assert claim("a", "b", "partly", "why").reason == "why"


def test_guarantee_broken_once_is_not_reproduced() -> None:
    assert guaranteed([True, True]) == YES
    assert guaranteed([True, True, False]) == NO


def test_a_spread_has_its_ends_and_its_middle() -> None:
    assert spread([0.1, -0.25, 0.0]) == "-25.0% to +10.0%, median +0.0%"
