"""Splits and merges of the SDGS grid."""

import numpy as np
import pytest

from castleguard.algorithms.sdgs.partition import LONGEST_REST, PATIENCE, Partition, Released, Rule, adapt
from castleguard.schema.axes import Axes
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema

TREE = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "Deep": {"Chain": ["Bachelor", "Master"]}}})
AGE = Numeric("age", lower=0, upper=100, step=10)
EDUCATION = Categorical("education", hierarchy=TREE)
RULE = Rule(k=4, l=1, survival=0.75, max_cells=64)
ENOUGH = 16  # two parts of k + 2 sqrt(k) rows


def start(*roles: QuasiIdentifier, cells: int = 1, rule: Rule = RULE) -> Partition:
    return Partition.start(Axes.of(Schema(person=None, quasi_identifiers=roles)), rule, cells=cells)


def release(*cells: tuple[int, int]) -> Released:
    """Released cells as (box, rows)."""
    box, rows = zip(*cells, strict=True) if cells else ((), ())
    return Released(np.array(box, dtype=np.int64), np.array(rows, dtype=np.int64))


def boxes(grid: Partition) -> list[list[tuple[float, float]]]:
    return [
        list(zip(low, high, strict=True)) for low, high in zip(*(side.tolist() for side in grid.bounds), strict=True)
    ]


def test_a_grid_starts_as_the_whole_domain() -> None:
    grid = start(AGE, EDUCATION)
    assert boxes(grid) == [[(0, 100), (0, 3)]]
    assert grid.losses.tolist() == [1.0]
    assert grid.locate(np.array([[0.0, 0], [100.0, 3]])).tolist() == [0, 0]


def test_a_start_grid_of_several_boxes_cuts_the_widest_repeatedly() -> None:
    assert boxes(start(AGE, cells=3)) == [[(0, 20)], [(20, 50)], [(50, 100)]]
    assert boxes(start(EDUCATION, cells=4)) == [[(0, 0)], [(1, 1)], [(2, 2)], [(3, 3)]]
    assert start(AGE, cells=1000).boxes.size == 10  # no more than the public grid has


def test_an_edge_belongs_to_the_upper_box_and_the_upper_bound_to_the_last() -> None:
    grid = start(AGE, cells=2)
    assert grid.locate(np.array([[0.0], [49.9], [50.0], [100.0]])).tolist() == [0, 0, 1, 1]


def test_a_domain_of_one_point_is_one_box_without_loss() -> None:
    grid = start(Numeric("x", lower=3, upper=3), cells=9)
    assert boxes(grid) == [[(3, 3)]]
    assert grid.losses.tolist() == [0.0]


@pytest.mark.parametrize(("rows", "parts"), [(ENOUGH - 1, 1), (ENOUGH, 2)])
def test_a_box_is_cut_if_both_halves_are_likely_to_be_published(rows: int, parts: int) -> None:
    assert adapt(start(AGE), release((0, rows)), RULE).boxes.size == parts


def test_the_largest_cells_decide_about_a_cut() -> None:
    large = [(0, 30)] * 3
    assert adapt(start(AGE), release(*large, (0, 10)), RULE).boxes.size == 2
    assert adapt(start(AGE), release(*large, *[(0, 10)] * 5), RULE).boxes.size == 1


def test_diversity_needs_as_many_cells_after_the_cut() -> None:
    diverse = Rule(k=4, l=2, survival=0.75, max_cells=64)
    assert adapt(start(AGE), release((0, 90), (0, 10)), diverse).boxes.size == 1
    assert adapt(start(AGE), release((0, 90), (0, 16)), diverse).boxes.size == 2


def test_the_attribute_with_the_largest_loss_is_cut_and_fewer_parts_win_ties() -> None:
    seven = Categorical("seven", hierarchy=Hierarchy.flat(range(7)))
    assert boxes(adapt(start(seven, AGE), release((0, 500)), RULE))[0] == [(0, 6), (0, 50)]
    narrower = adapt(start(seven, AGE, cells=2), release((0, 500)), RULE)
    assert narrower.boxes.size == 8
    # Seven parts of a cell of 40 rows would fall below k, so the other attribute is cut.
    assert boxes(adapt(start(seven, AGE, cells=2), release((0, 40)), RULE))[0] == [(0, 6), (0, 20)]


def test_a_category_is_cut_into_the_children_of_its_lowest_node() -> None:
    grid = adapt(start(EDUCATION), release((0, 100)), RULE)
    assert boxes(grid) == [[(0, 1)], [(2, 3)]]
    assert boxes(adapt(grid, release((1, 100)), RULE)) == [[(0, 1)], [(2, 2)], [(3, 3)]]


def test_the_fullest_boxes_are_cut_first_up_to_max_cells() -> None:
    tight = Rule(k=4, l=1, survival=0.75, max_cells=3)
    grid = adapt(start(AGE, cells=2, rule=tight), release((0, 40), (1, 50)), tight)
    assert boxes(grid) == [[(0, 50)], [(50, 70)], [(70, 100)]]
    assert adapt(grid, release((0, 400)), tight).boxes.size == 3


def test_siblings_that_release_too_little_for_long_are_merged() -> None:
    grid = adapt(start(AGE), release((0, 40)), RULE)
    assert adapt(grid, release((0, ENOUGH // 2)), RULE).boxes.size == 2
    for _ in range(PATIENCE):
        assert grid.boxes.size == 2
        grid = adapt(grid, release((0, ENOUGH // 2 - 1)), RULE)
    assert boxes(grid) == [[(0, 100)]]


def test_one_good_window_resets_the_patience() -> None:
    grid = adapt(start(AGE), release((0, 40)), RULE)
    for rows in (0, 15, 0, 15, 0):
        grid = adapt(grid, release((1, rows)) if rows else release(), RULE)
        assert grid.boxes.size == 2


def even(grid: Partition, total: int) -> Released:
    """`rows` rows spread evenly over the boxes, for as many boxes as get k rows."""
    each = total // grid.boxes.size
    return release(*((box, each) for box in range(grid.boxes.size) if each >= RULE.k))


def test_a_slower_stream_merges_only_cuts_that_are_no_longer_worth_it() -> None:
    """The rows a cut needs do not depend on the number of rows when it was made."""
    grid = start(AGE)
    for _ in range(3):
        grid = adapt(grid, even(grid, 400), RULE)
    assert grid.boxes.size == 8
    for _ in range(20):
        grid = adapt(grid, even(grid, 24), RULE)
    assert grid.boxes.size == 4


def test_a_cut_that_fails_repeatedly_is_tried_less_often() -> None:
    """A box of 40 rows whose halves release no rows: without a rest it would flap every third window."""
    grid, tried = start(AGE), []
    for window in range(1000):
        before = grid.boxes.size
        grid = adapt(grid, release((0, 40)) if before == 1 else release(), RULE)
        if grid.boxes.size > before:
            tried.append(window)
    gaps = np.diff(tried)
    assert list(gaps) == sorted(gaps)
    assert gaps[-1] == LONGEST_REST + PATIENCE


def test_the_grid_stops_changing_after_enough_empty_windows() -> None:
    grid = start(AGE, EDUCATION, cells=30)
    for _ in range(LONGEST_REST + 20):
        before, grid = grid, adapt(grid, release(), RULE)
    assert grid.same_as(before)
    assert grid.boxes.size == 1
