"""Loss and risk of one publication, computed by hand on a few rows."""

import math

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import CastleguardError
from castleguard.judge.sweep.judgement import NOTHING, Judgement, judge_cells, judge_groups, largest_share
from castleguard.judge.sweep.window_judgement import judge_windows
from tests.unit.judge.sweep.made_up import AGES

LINKED = cg.Schema(
    person="pid", quasi_identifiers=AGES.quasi_identifiers, sensitive=AGES.sensitive, public=("row",)
)  # fmt: skip
ORIGINAL = pa.table(
    {"pid": [1, 2, 3, 4, 5], "age": [12, 18, 55, 41, 59], "ward": ["a", "b", "a", "a", "c"], "row": [0, 1, 2, 3, 4]}
)
# Two groups: ages 10 to 20 of persons 1 and 2, ages 40 to 60 of persons 3, 4 and 5.
BOXES = pa.table(
    {
        "age_min": [10, 10, 40, 40, 40],
        "age_max": [20, 20, 60, 60, 60],
        "ward": ["a", "b", "a", "a", "c"],
        "row": [0, 1, 2, 3, 4],
    }
)


def _judged(parts: list[pa.Table], original: pa.Table, schema: cg.Schema, policy: Policy, *, link: str) -> Judgement:
    return judge_groups(parts, original, schema, policy.publication(schema), link=link)


def changed(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


def test_groups_are_counted() -> None:
    found = _judged([BOXES], ORIGINAL, LINKED, cg.Castle(k=2, delay=10), link="row")
    assert found.information_loss == pytest.approx((2 * 0.1 + 3 * 0.2) / 5)
    assert found.loss == found.information_loss
    assert (found.groups, found.smallest_group) == (2, 2)
    assert found.mean_risk == pytest.approx((2 * 1 / 2 + 3 * 1 / 3) / 5)
    assert found.highest_risk == 1 / 2
    assert found.largest_share == pytest.approx(2 / 3)  # "a" in the second group
    assert found.untrue == 0


def test_person_counts_once_for_the_risk() -> None:
    twice = changed(ORIGINAL, "pid", [1, 2, 3, 3, 4])
    found = _judged([BOXES], twice, LINKED, cg.Castle(k=2, delay=10), link="row")
    assert found.smallest_group == 2
    assert found.mean_risk == 1 / 2


@pytest.mark.parametrize(
    ("k", "l", "what"), [(3, 1, "1 groups with fewer than 3 persons"), (3, 3, "2 groups with fewer than 3 values")]
)
def test_publication_that_breaks_its_promise_ends_the_sweep(k: int, l: int, what: str) -> None:
    policy = cg.Castle(k=k, l=l, delay=10)
    with pytest.raises(CastleguardError, match=what):
        _judged([BOXES], ORIGINAL, LINKED, policy, link="row")


def test_value_outside_its_box_ends_the_sweep_of_a_policy_without_noise() -> None:
    with pytest.raises(CastleguardError, match="1 values outside their published range"):
        _judged(
            [BOXES],
            changed(ORIGINAL, "age", [12, 18, 99, 41, 59]),
            LINKED,
            cg.Castle(k=2, delay=10),
            link="row",
        )


def test_with_noise_a_value_outside_its_box_is_lost() -> None:
    policy = cg.Castleguard(k=2, delay=10, epsilon=1)
    original = changed(changed(ORIGINAL, "age", [12, 18, 99, 41, 59]), "ward", ["a", "b", "c", "a", "c"])
    found = _judged([BOXES], original, LINKED, policy, link="row")
    assert found.information_loss == pytest.approx((2 * 0.1 + 3 * 0.2) / 5)
    assert found.loss == pytest.approx((2 * 0.1 + 2 * 0.2 + 1) / 5)
    assert found.untrue == pytest.approx(2 / 10)  # an age and a ward, of five rows with two values each


def test_with_noise_k_and_l_are_checked_on_what_was_published() -> None:
    with pytest.raises(CastleguardError, match="1 groups with fewer than 3 persons"):
        _judged([BOXES], ORIGINAL, LINKED, cg.Castleguard(k=3, delay=10, epsilon=1), link="row")
    alike = changed(BOXES, "ward", ["a", "a", "a", "a", "c"])
    with pytest.raises(CastleguardError, match="1 groups with fewer than 2 values"):
        _judged([alike], ORIGINAL, LINKED, cg.Castleguard(k=2, l=2, delay=10, epsilon=1), link="row")


def test_empty_publication_has_no_risk() -> None:
    found = _judged([BOXES.slice(0, 0)], ORIGINAL, LINKED, cg.Castle(k=2, delay=10), link="row")
    assert found == NOTHING
    assert (found.information_loss, found.mean_risk) == (None, 0)


CELLS = BOXES.drop_columns(["row"])
SDGS = Sdgs(k=2, sample_rate=0.5, epsilon=1, window=5, window_unit="rows")


def test_cells_are_counted_by_window() -> None:
    alike = changed(CELLS, "ward", ["a", "a", "b", "b", "b"])
    found = judge_cells([alike, alike.slice(0, 0), alike.slice(0, 2)], AGES, SDGS.publication(AGES))
    assert (found.groups, found.smallest_group) == (3, 2)  # two boxes, and one of them in a later window again
    assert found.mean_risk == pytest.approx((2 / 2 + 3 / 3 + 2 / 2) / 7)
    assert found.largest_share == 1
    assert found.loss == pytest.approx((4 * 0.1 + 3 * 0.2) / 7)


def test_cell_below_k_ends_the_sweep() -> None:
    """The boxes have two rows and three, but a cell is a box with one ward."""
    with pytest.raises(CastleguardError, match="3 cells with fewer than 2 rows"):
        judge_cells([CELLS], AGES, SDGS.publication(AGES))


def test_rows_of_two_windows_do_not_share_a_cell() -> None:
    one = CELLS.slice(0, 1)
    with pytest.raises(CastleguardError, match="2 cells with fewer than 2 rows"):
        judge_cells([one, one], AGES, SDGS.publication(AGES))


READINGS = pa.table(
    {"pid": [1, 2, 3, 4, 5, 6], "age": [10, 20, 30, 40, 50, 70], "ward": ["a", "a", "b", "b", "c", "c"]}
)


def test_error_of_a_window_is_that_of_its_sorted_values() -> None:
    first = pa.table({"age": [45.0, 15.0, 15.0, 45.0], "ward": ["b", "a", "a", "a"]})
    found = judge_windows([first, first.slice(0, 0), first.slice(0, 0)], READINGS, AGES, window=4, k=2)
    # Sorted: 10, 20, 30, 40 against 15, 15, 45, 45: squares 25, 25, 225, 25. One of two b and two a is wrong.
    assert found.information_loss == pytest.approx((math.sqrt(300 / 4) / 100 + 1 / 4) / 2)
    assert (found.groups, found.smallest_group) == (2, 2)


def test_last_window_is_what_the_flush_published() -> None:
    last = pa.table({"age": [60.0, 60.0], "ward": ["c", "c"]})
    found = judge_windows([last.slice(0, 0), last.slice(0, 0), last], READINGS, AGES, window=4, k=2)
    assert found.information_loss == pytest.approx((0.1 + 0) / 2)


def test_window_with_missing_rows_is_compared_with_all_its_originals() -> None:
    part = pa.table({"age": [20.0, 20.0], "ward": ["a", "b"]})
    found = judge_windows([part, part.slice(0, 0)], READINGS.slice(0, 4), AGES, window=4, k=2)
    # The sorted values at a quarter and three quarters of the way are 20 and 40.
    assert found.information_loss == pytest.approx((math.sqrt((0 + 400) / 2) / 100 + 0) / 2)


def test_number_shared_by_too_few_rows_ends_the_sweep() -> None:
    first = pa.table({"age": [15.0, 15.0, 15.0, 45.0], "ward": ["b", "a", "a", "a"]})
    with pytest.raises(CastleguardError, match="numbers shared by fewer than 2 rows"):
        judge_windows([first, first.slice(0, 0), first.slice(0, 0)], READINGS, AGES, window=4, k=2)


def test_largest_share_is_over_all_groups_and_columns() -> None:
    groups = np.array([0, 0, 0, 0, 1, 1])
    assert largest_share(groups, [np.array([7, 7, 7, 9, 7, 9])]) == 3 / 4
    assert largest_share(groups, [np.array([1, 2, 3, 4, 1, 2]), np.array([1, 2, 3, 4, 5, 5])]) == 1
    assert largest_share(groups, []) is None
