"""Axes of public cells: located values, published bounds and places to cut."""

import numpy as np

from castleguard.schema.axes import Axis
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric

AGE = Axis(Numeric("age", lower=0, upper=40, step=10))
JOB = Axis(
    Categorical("job", hierarchy=Hierarchy.from_mapping({"any": {"care": ["nurse", "doctor"], "food": ["cook"]}}))
)
POINT = Axis(Numeric("year", lower=5, upper=5, step=1))


def test_a_number_on_an_edge_lies_in_the_cell_above_it() -> None:
    assert AGE.locate(np.array([0.0, 9.5, 10.0, 40.0])).tolist() == [0, 0, 1, 3]


def test_bounds_are_the_edges_around_the_cells_or_the_leaves() -> None:
    low, high = AGE.bounds(np.array([1]), np.array([2]))
    assert (low.tolist(), high.tolist()) == ([10.0], [30.0])
    low, high = JOB.bounds(np.array([0]), np.array([1]))
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])


def test_the_loss_is_the_share_of_the_domain() -> None:
    assert AGE.losses(np.array([1]), np.array([2])).tolist() == [0.5]
    assert JOB.losses(np.array([0, 0]), np.array([1, 2])).tolist() == [0.5, 1.0]
    assert POINT.losses(np.array([0]), np.array([0])).tolist() == [0.0]


def test_a_number_is_cut_at_any_edge_and_split_into_halves() -> None:
    assert AGE.places(0, 3).tolist() == [1, 2, 3]
    assert AGE.parts(0, 3) == (0, 2)
    assert AGE.parts(2, 2) == (2,)


def test_a_category_is_cut_between_children_of_the_lowest_node() -> None:
    assert JOB.places(0, 2).tolist() == [2]
    assert JOB.places(0, 1).tolist() == [1]
    assert JOB.parts(0, 2) == (0, 2)
    assert JOB.parts(2, 2) == (2,)


def test_a_cut_point_is_the_start_of_a_cell_other_than_the_first() -> None:
    assert AGE.start(2) == 20.0
    assert [AGE.cell_at(start) for start in (0.0, 15.0, 20.0, 40.0)] == [None, None, 2, None]
    assert [JOB.cell_at(start) for start in (0.0, 0.5, 2.0, 3.0)] == [None, None, 2, None]
