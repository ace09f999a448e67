"""Attacks of the adversary find planted leaks, and state the rate expected by chance."""

import numpy as np
import pyarrow as pa
import pytest

from castleguard.judge.attack.adversary import (
    Counted,
    count_duplicated,
    enumerate_rows,
    highest_chance,
    observe_bounds,
    observe_values,
)
from castleguard.judge.reading.linked import Linked, link
from castleguard.judge.verify.group_values import tally
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(
    person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)], sensitive=["illness"], public=["row"]
)
ORIGINAL = {
    "row": [0, 1, 2, 3, 4, 5],
    "pid": ["a", "b", "c", "d", "d", "d"],
    "age": [21, 24, 30, 44, 46, 47],
    "illness": ["flu", "cold", "flu", "flu", "flu", "flu"],
}


def linked(lower: list[int], upper: list[int]) -> Linked:
    published = pa.table({"row": ORIGINAL["row"], "age_min": lower, "age_max": upper, "illness": ORIGINAL["illness"]})
    return link(published, pa.table(ORIGINAL), SCHEMA, by="row")


def test_tight_bounds_are_values_of_members() -> None:
    found = observe_bounds(linked([21] * 3 + [44] * 3, [30] * 3 + [47] * 3))
    assert (found.bounds, found.own, found.share) == (4, 4, 1.0)


def test_bounds_on_a_grid_are_values_by_chance_alone() -> None:
    found = observe_bounds(linked([20] * 2 + [30] + [40] * 3, [30] * 2 + [50] + [50] * 3))
    # Only 30 is a person's value, as a lower bound: one of the four from 30 on has it. No row below 30 can have it.
    assert (found.bounds, found.own) == (6, 1)
    assert found.by_chance == pytest.approx(1 / 4)
    assert found.chance == pytest.approx(1 / 24)


def test_group_with_one_value_is_counted() -> None:
    groups, values = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 0, 0, 0])
    found = observe_values("illness", tally(groups, values, None, count=2))
    assert found.shares == pytest.approx([2 / 3, 1.0])
    assert (found.highest, found.same) == (1.0, 1)
    assert found.mean == pytest.approx(5 / 6)
    # Five of six rows have the value, so guessing it everywhere is right as often as guessing by group.
    assert found.prior == pytest.approx(5 / 6)
    assert found.gain == pytest.approx(0.0)


def test_group_with_k_rows_of_too_few_persons_is_counted() -> None:
    tables = linked([20] * 3 + [40] * 3, [30] * 3 + [50] * 3)
    assert count_duplicated(tables, 3) == 1
    assert count_duplicated(tables, 4) == 0  # the groups have fewer than four rows: too small, but not duplicated


def all_of_it(table: pa.Table, seed: int) -> list[pa.Table]:
    return [table]


def half_of_it(table: pa.Table, seed: int) -> list[pa.Table]:
    return [table.slice(0, int(np.random.default_rng(seed).integers(0, table.num_rows)))]


def test_publishing_all_rows_reveals_a_missing_row() -> None:
    found = enumerate_rows(all_of_it, pa.table(ORIGINAL), at=3, runs=20)
    assert found.always
    assert (found.right, found.chance) == (40, 1.0)
    assert found.limits[0] > 0.9  # 0.025^(1/40) = 0.912


def test_publishing_a_random_number_of_rows_reveals_little() -> None:
    found = enumerate_rows(half_of_it, pa.table({"x": np.arange(500)}), at=3, runs=200)
    assert not found.always
    low, high = found.limits
    assert low < 0.55 < high + 0.1
    assert low <= found.chance <= high


def test_limits_are_those_of_clopper_and_pearson() -> None:
    # All 10 of 10 right: the lower limit is 0.025^(1/10).
    assert Counted(5, 10, True, 0.95).limits == pytest.approx((0.025**0.1, 1.0))


def test_differential_privacy_bounds_guesses() -> None:
    assert highest_chance(0.0, 0.0) == 0.5
    assert highest_chance(np.log(3.0), 0.0) == pytest.approx(0.75)
    assert highest_chance(0.0, 0.5) == 0.75
    assert highest_chance(800.0, 1.0) == 1.0
