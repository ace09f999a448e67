"""Mondrian on windows: cuts by hand, and properties of every group."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.judge.verify.structure import verify
from castleguard.lab.baselines.coded_boxes import NOWHERE, published, read
from castleguard.lab.baselines.mondrian import mondrian
from tests.unit.lab.baselines.made_up import PERSONS, make_rows

PLANE = cg.Schema(
    person=None,
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=10), cg.Numeric("y", lower=0, upper=100)],
    public=["row"],
)


def _plane(x: list[float], y: list[float]) -> pa.Table:
    return pa.table({"x": x, "y": y, "row": np.arange(len(x))})


def _groups(box: object) -> list[list[int]]:
    codes = np.asarray(box)
    return sorted(np.flatnonzero(codes == number).tolist() for number in np.unique(codes[codes != NOWHERE]))


def test_eight_points_are_cut_into_four_groups_of_two() -> None:
    # x spans 1.0 of its domain and y 0.9: cut x at the 4th of 8 values, 3. The left four span 0.3 in x and nothing in
    # y: cut x at 1. The right four span 0.6 in x and 0.9 in y: cut y at 0.
    table = _plane([0, 1, 2, 3, 4, 5, 6, 10], [0, 0, 0, 0, 0, 90, 0, 90])
    coded = read(table, PLANE)
    boxed = mondrian(coded, k=2, delay=7)
    assert _groups(boxed.box) == [[0, 1], [2, 3], [4, 6], [5, 7]]
    rows = published(coded, boxed).to_pylist()
    assert rows[6] == {"x_min": 4, "x_max": 6, "y_min": 0, "y_max": 0, "row": 6}
    assert rows[7] == {"x_min": 5, "x_max": 10, "y_min": 90, "y_max": 90, "row": 7}


def test_equal_values_stay_together() -> None:
    # The median of 1, 1, 1, 1, 2 is 1, and above it is one row only.
    assert _groups(mondrian(read(_plane([1, 1, 1, 1, 2], [0] * 5), PLANE), k=2, delay=9).box) == [[0, 1, 2, 3, 4]]


def test_the_next_column_is_cut_if_the_widest_cannot_be() -> None:
    # x has the larger span, 0 to 9, but only one row above its median.
    table = _plane([0, 0, 0, 9], [0, 10, 20, 30])
    assert _groups(mondrian(read(table, PLANE), k=2, delay=9).box) == [[0, 1], [2, 3]]


def test_categories_are_cut_into_the_children_of_their_node() -> None:
    table = pa.table(
        {
            "pid": [1, 2, 3, 4, 5],
            "x": [0, 0, 0, 0, 0],
            "education": ["Junior", "Master", "Junior", "Bachelor", "Master"],
            "illness": ["a"] * 5,
            "row": range(5),
        }
    )
    coded = read(table, PERSONS)
    rows = published(coded, mondrian(coded, k=2, delay=9)).to_pylist()
    assert [row["education"] for row in rows] == ["Junior", "University", "Junior", "University", "University"]


def test_windows_are_published_at_their_end_and_a_last_one_that_is_too_small_is_not() -> None:
    boxed = mondrian(read(_plane([0, 1, 2, 3, 4, 5], [0] * 6), PLANE), k=3, delay=3)
    assert boxed.released.tolist() == [4, 4, 4, 4, 6, 6]
    assert boxed.box.tolist() == [0, 0, 0, 0, NOWHERE, NOWHERE]


def test_persons_count_and_not_rows() -> None:
    # Cut at 1 the left half would be two rows of one person.
    table = pa.table(
        {
            "pid": [7, 7, 8, 9],
            "x": [0, 1, 9, 10],
            "education": ["Junior"] * 4,
            "illness": ["a", "b", "a", "b"],
            "row": range(4),
        }
    )
    assert _groups(mondrian(read(table, PERSONS), k=2, delay=9).box) == [[0, 1, 2, 3]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(0, 60), st.integers(0, 30))
def test_every_group_has_k_persons_and_l_values(seed: int, k: int, l: int, rows: int, delay: int) -> None:
    table = make_rows(seed, rows)
    coded = read(table, PERSONS)
    boxed = mondrian(coded, k=k, l=l, delay=delay)
    found = verify(published(coded, boxed), table, PERSONS, k=k, l=l, link="row", closed=True)
    assert found.ok, found.sentence
    waits = boxed.released - 1 - np.arange(rows)
    assert waits.max(initial=0) <= delay
    # Unpublished rows form a whole window with too few persons or values.
    for start in range(0, rows, delay + 1):
        window = boxed.box[start : start + delay + 1]
        assert (window == NOWHERE).all() or (window != NOWHERE).all()
