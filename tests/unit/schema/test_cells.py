"""Half-open cells: the cell of a value, the values in a published range, and cells that hide nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.schema.cells import (
    Values,
    cell_count,
    cell_ends,
    cell_starts,
    cells_of,
    contains,
    has_single_values,
    largest_inside,
    last_cells,
)

EDGES = np.array([0.0, 10.0, 20.0, 25.0])
POINT = np.array([7.0])


def test_an_edge_belongs_to_the_cell_above_it_and_the_last_edge_to_the_last_cell() -> None:
    values = np.array([0.0, 9.9, 10.0, 19.9, 20.0, 24.0, 25.0])
    assert cells_of(EDGES, values).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert cell_starts(EDGES, values).tolist() == [0, 0, 10, 10, 20, 20, 20]
    assert cell_ends(EDGES, cells_of(EDGES, values)).tolist() == [10, 10, 20, 20, 25, 25, 25]


def test_a_domain_of_one_point_is_one_cell_of_width_zero() -> None:
    assert cell_count(POINT) == 1
    assert cell_starts(POINT, POINT).tolist() == [7]
    assert cell_ends(POINT, cells_of(POINT, POINT)).tolist() == [7]
    assert contains(POINT, POINT, POINT, 7.0).tolist() == [True]


def test_a_value_outside_the_domain_lies_in_the_nearest_cell() -> None:
    assert cells_of(EDGES, np.array([-1.0, 99.0])).tolist() == [0, 2]


def test_the_last_cell_of_a_range_ends_at_its_upper_bound() -> None:
    assert last_cells(EDGES, np.array([10.0, 20.0, 25.0])).tolist() == [0, 1, 2]


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=9, unique=True), st.data())
def test_a_range_holds_exactly_the_values_of_its_cells(places: list[int], data: st.DataObject) -> None:
    edges = np.sort(np.array(places)) / 4
    first = data.draw(st.integers(0, cell_count(edges) - 1))
    last = data.draw(st.integers(first, cell_count(edges) - 1))
    lower, upper = edges[[first]], cell_ends(edges, np.array([last]))
    values = np.unique(np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]))
    for value in values[(values >= edges[0]) & (values <= edges[-1])]:
        inside = bool(contains(np.array([value]), lower, upper, float(edges[-1]))[0])
        assert inside == (first <= cells_of(edges, np.array([value]))[0] <= last)
    assert largest_inside(upper, float(edges[-1]))[0] <= upper[0]


@pytest.mark.parametrize(
    ("edges", "values", "expected"),
    [
        (np.arange(0, 101.0), [17, 34, 60], True),  # one whole number in every cell but the last
        (np.arange(0, 101, 0.5), [17, 34, 60], True),
        (np.arange(0, 101, 2.0), [17, 34, 60], False),
        (np.arange(0, 101, 1.5), [17, 34, 60], True),  # every other cell holds one
        (np.arange(0, 101.0), [17.25, 34, 60], False),
        (np.array([0.0, 10.0, 11.0]), [1, 2, 3], False),  # the last cell holds 10 and 11
        (np.array([0.0, 10.0, 10.5]), [1, 2, 3], True),  # and this one only 10
        (np.arange(0, 1.05, 0.1), [0.1, 0.2, 0.7], True),
        (np.arange(0, 101.0), [5, 5], False),  # a constant has no spacing
        (np.arange(0, 101.0), [], False),
        (np.arange(0, 101.0), [1 / 3, 2 / 7, 0.5], False),
        (POINT, [7, 8], False),
    ],
)
def test_a_cell_of_one_possible_value_is_found(edges: Values, values: list[float], expected: bool) -> None:
    assert has_single_values(edges, np.array(values, dtype=np.float64)) is expected
