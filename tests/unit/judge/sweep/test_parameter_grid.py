"""The grid: all combinations, and which of them are refused."""

import pytest

import castleguard as cg
from castleguard.errors import PolicyError
from castleguard.judge.sweep.parameter_grid import Value, make_grid
from tests.unit.judge.sweep.made_up import AGES, castle_grid


def test_grid_has_every_combination_and_the_last_list_changes_fastest() -> None:
    grid = castle_grid(k=[2, 3], l=[1, 2], delay=[10, 20])
    assert [[value for _, value in setting.parameters] for setting in grid.settings] == [
        [2, 1, 10], [2, 1, 20], [2, 2, 10], [2, 2, 20], [3, 1, 10], [3, 1, 20], [3, 2, 10], [3, 2, 20],
    ]  # fmt: skip
    assert not grid.refused
    first = grid.settings[0].policy
    assert isinstance(first, cg.Castle)
    assert (first.k, first.l, first.delay) == (2, 1, 10)


def test_combination_that_the_policy_refuses_is_listed_with_its_reason() -> None:
    grid = castle_grid(k=[5, 50], delay=[20, 100])
    assert len(grid.settings) == 3
    (refused,) = grid.refused
    assert refused.parameters == (("k", 50), ("delay", 20))
    assert "delay must be at least k - 1, got delay=20 and k=50" in refused.reason


def test_combination_that_the_schema_forbids_is_refused() -> None:
    """l needs a sensitive column: known before any row is read."""
    schema = cg.Schema(person="pid", quasi_identifiers=AGES.quasi_identifiers)
    grid = make_grid({"l": [1, 2]}, lambda given: cg.Castle(k=2, delay=10, l=int(given["l"])), schema)
    assert [setting.value("l") for setting in grid.settings] == [1]
    assert grid.refused[0].parameters == (("l", 2),)


def test_grid_without_combinations_is_an_error_with_the_first_reason() -> None:
    with pytest.raises(PolicyError, match=r"all 2 combinations are refused; the first one: .*at least k - 1"):
        castle_grid(k=[50], delay=[10, 20])


def test_policy_without_any_risk_to_weigh_is_refused() -> None:
    numbers = cg.Schema(person="pid", quasi_identifiers=AGES.quasi_identifiers)

    def doca(given: dict[str, Value]) -> cg.Doca:
        paper = given["mode"] == "paper"
        return cg.Doca(epsilon=1, delay=20, k=None if paper else 5, mode="paper" if paper else "strict")

    grid = make_grid({"mode": ["strict", "paper"]}, doca, numbers)
    assert [setting.value("mode") for setting in grid.settings] == ["strict"]
    assert "claims nothing" in grid.refused[0].reason
    assert grid.settings[0].claim == "one row, its values replaced by any others, over the whole stream"


def test_words_leave_out_what_all_settings_have_in_common() -> None:
    grid = castle_grid(k=[2, 3], l=[1], delay=[10])
    assert grid.varied == ("k",)
    assert grid.settings[1].words(grid.varied) == "k=3"
    assert castle_grid(k=[2], delay=[10]).varied == ("k", "delay")


def test_key_identifies_a_setting() -> None:
    grid, again = castle_grid(k=[2, 3], delay=[10, 20]), castle_grid(k=[2, 3], delay=[10, 20])
    assert len({setting.key for setting in grid.settings}) == 4
    assert [setting.key for setting in grid.settings] == [setting.key for setting in again.settings]
