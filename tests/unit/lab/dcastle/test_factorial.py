"""Factorial designs: shares by hand, and the order of the corners."""

import pytest

from castleguard.lab.dcastle.design import Setting
from castleguard.lab.dcastle.factorial import Contribution, Factor, allocate, corners


def test_shares_are_those_computed_by_hand() -> None:
    """Low-low 15, high-low 45, low-high 25, high-high 75, the first factor written first.

    effect of A:   (-15 + 45 - 25 + 75) / 4 = 20
    effect of B:   (-15 - 45 + 25 + 75) / 4 = 10
    both together: ( 15 - 45 - 25 + 75) / 4 =  5
    squares: 400 + 100 + 25 = 525
    """
    found = allocate([15, 45, 25, 75], ["A", "B"])
    assert found == [
        Contribution(("A",), 20.0, 400 / 525),
        Contribution(("B",), 10.0, 100 / 525),
        Contribution(("A", "B"), 5.0, 25 / 525),
    ]


def test_a_factor_that_lowers_the_response_has_a_negative_effect_and_a_share() -> None:
    (alone,) = allocate([3.0, 1.0], ["A"])
    assert alone == Contribution(("A",), -1.0, 1.0)


def test_a_factor_without_effect_has_no_share() -> None:
    found = {each.factors: each.share for each in allocate([1, 1, 2, 2, 1, 1, 2, 2], ["A", "B", "C"])}
    assert found["B",] == 1.0
    assert sum(found.values()) == 1.0


def test_equal_responses_have_no_variation() -> None:
    assert [each.share for each in allocate([1.0] * 4, ["A", "B"])] == [0.0] * 3


def test_a_missing_corner_is_refused() -> None:
    with pytest.raises(ValueError, match="2 factors need 4 responses, got 3"):
        allocate([1, 2, 3], ["A", "B"])


def test_the_first_factor_changes_fastest_between_corners() -> None:
    found = corners([Factor("k", 20, 400), Factor("sites", 2, 10)], Setting(l=1))
    assert [(one.k, one.sites, one.l) for one in found] == [(20, 2, 1), (400, 2, 1), (20, 10, 1), (400, 10, 1)]
