"""Attack by an observer of arrival times, on publications small enough to check by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.judge.attack.observer import UNKNOWN, Releases, look_into_cells, work_out
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10, outside="root")],
    sensitive=["illness"],
)
YOUNG, OLD, ALL = (0, 50), (50, 100), (0, 100)


def seen(
    rows: Sequence[tuple[str | None, int, str]],
    left: Sequence[tuple[int, int, tuple[int, int]]],
    arrived: Sequence[int],
    turn: Sequence[int] | None = None,
) -> Releases:
    """`rows` have a person, an age and an illness; each entry of `left` is a row, its release and its box."""
    original = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("pid", "age", "illness"))})
    columns: dict[str, Any] = {
        "age_min": [box[0] for _, _, box in left],
        "age_max": [box[1] for _, _, box in left],
        "illness": [rows[row][2] for row, _, _ in left],
    }
    published = pa.table(columns)
    return Releases(
        sides=read_boxes(published, SCHEMA),
        values=(value_codes(published.column("illness"), SCHEMA.sensitive[0]),),
        release=np.array([release for _, release, _ in left]),
        arrived=np.array(arrived),
        turn=np.array([UNKNOWN] * len(arrived) if turn is None else turn),
        originals=read_originals(original, SCHEMA),
        row=np.array([row for row, _, _ in left]),
    )


FOUR = [("a", 20, "flu"), ("b", 30, "rash"), ("c", 40, "flu"), ("d", 45, "cold")]


def test_row_released_alone_in_a_reused_box_is_alone_in_its_cell() -> None:
    """Three rows leave together, the fourth joins their box later: over all releases the box has four persons."""
    one = seen(FOUR, [(0, 0, YOUNG), (1, 0, YOUNG), (2, 0, YOUNG), (3, 1, YOUNG)], [3, 4])
    cells = look_into_cells(one)
    assert cells.persons.tolist() == [3, 3, 3, 1]
    assert cells.share == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    assert cells.values[0].top == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1])
    assert cells.values[0].certain.tolist() == [False, False, False, True]


def test_solved_cell_without_a_link_solves_other_cells() -> None:
    one = seen(FOUR, [(0, 0, YOUNG), (1, 0, YOUNG), (2, 0, YOUNG), (3, 1, YOUNG)], [3, 4])
    found = work_out(one, delay=10)
    # Only three rows had arrived at the first release; the second has four candidates, three of them assigned.
    assert found.solved.tolist() == [True] * 4
    assert found.candidates.tolist() == [3, 3, 3, 1]
    assert found.learnt[0].tolist() == [False, False, False, True]


def test_possibly_suppressed_row_stays_a_candidate() -> None:
    one = seen(FOUR, [(1, 0, YOUNG), (2, 0, YOUNG)], [3])
    found = work_out(one, delay=10)
    assert found.candidates.tolist() == [3, 3]
    assert found.persons.tolist() == [3, 3]
    assert not found.solved.any()


def test_delay_excludes_candidates() -> None:
    one = seen(FOUR, [(2, 0, YOUNG), (3, 0, YOUNG)], [4])
    assert work_out(one, delay=1).solved.all()
    assert work_out(one, delay=2).candidates.tolist() == [3, 3]
    assert work_out(one, delay=None).candidates.tolist() == [4, 4]


def test_release_of_one_row_is_the_row_that_had_to_leave() -> None:
    rows = [(person, 20, illness) for person, illness in zip("abcd", ("flu", "rash", "cold", "flu"), strict=True)]
    left = [(1, 0, YOUNG), (0, 1, YOUNG), (2, 1, YOUNG)]
    assert not work_out(seen(rows, left, [4, 4]), delay=3).solved.any()
    inferred = work_out(seen(rows, left, [4, 4], turn=[1, 1]), delay=3)
    # The turn of a release of several rows gives no information.
    assert inferred.solved.tolist() == [True, False, False]
    assert inferred.candidates.tolist() == [1, 3, 3]
    assert inferred.learnt[0].tolist() == [True, False, False]


def test_upper_bound_of_half_open_cells_is_outside() -> None:
    rows = [("a", 49, "flu"), ("b", 50, "rash"), ("c", 100, "cold")]
    found = work_out(seen(rows, [(0, 0, YOUNG), (1, 1, OLD), (2, 1, OLD)], [3, 3]), delay=5)
    assert found.candidates.tolist() == [1, 2, 2]
    assert found.solved.all()


def test_row_for_the_root_is_a_candidate_only_at_the_root() -> None:
    """The age of 130 is clipped to 100 when it is read, and still no candidate of the box up to 100."""
    rows = [("a", 130, "flu"), ("b", 60, "rash"), ("c", 70, "cold")]
    left = [(0, 0, ALL), (1, 1, OLD)]
    found = work_out(seen(rows, left, [1, 3]), delay=5)
    assert found.solved.tolist() == [True, False]
    assert found.candidates.tolist() == [1, 2]


def test_missing_person_adds_no_person_but_counts_as_one_for_shares() -> None:
    rows = [("a", 20, "flu"), (None, 20, "rash"), (None, 20, "cold"), ("b", 20, "flu")]
    one = seen(rows, [(row, 0, YOUNG) for row in range(4)], [4])
    cells = look_into_cells(one)
    assert cells.persons.tolist() == [2] * 4
    assert cells.share == pytest.approx([0.5] * 4)
    assert work_out(one, delay=9).persons.tolist() == [2] * 4


def test_constant_value_is_found_by_intersecting_cells() -> None:
    """The cells of person a have flu and rash, then flu and cold: only flu is in both."""
    rows = [("a", 20, "flu"), ("b", 20, "rash"), ("a", 20, "flu"), ("c", 20, "cold")]
    values = look_into_cells(seen(rows, [(0, 0, YOUNG), (1, 0, YOUNG), (2, 1, YOUNG), (3, 1, YOUNG)], [4, 4])).values[0]
    assert (values.kept, values.pinned) == (1, 1)
    assert not values.certain.any()


def test_constant_value_occurs_in_a_cell_as_often_as_the_person_has_rows() -> None:
    """Person a has two rows in the cell, and only flu occurs twice; person b changes value and is not counted."""
    rows = [("a", 20, "flu"), ("a", 20, "flu"), ("b", 20, "rash"), ("b", 20, "cold")]
    values = look_into_cells(seen(rows, [(row, 0, YOUNG) for row in range(4)], [4])).values[0]
    assert (values.kept, values.pinned) == (1, 1)
    rows[3] = ("b", 20, "rash")
    values = look_into_cells(seen(rows, [(row, 0, YOUNG) for row in range(4)], [4])).values[0]
    assert (values.kept, values.pinned) == (2, 0)
