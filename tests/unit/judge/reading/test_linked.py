"""Rows are linked by a column that numbers them, and counted per group."""

import pyarrow as pa
import pytest

from castleguard.errors import InputError
from castleguard.judge.reading.linked import link, original_rows
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(person="who", quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["number"])
ORIGINAL = pa.table({"who": ["a", "a", "b", "c"], "age": [10, 12, 14, 50], "number": [1, 2, 3, 4]})


def published(numbers: list[int | str], lows: list[int], highs: list[int]) -> pa.Table:
    return pa.table({"age_min": lows, "age_max": highs, "number": numbers})


def test_rows_are_linked_in_any_order_and_type() -> None:
    table = published(["4", "1", " 3", "9"], [50] * 4, [60] * 4)
    assert original_rows(table, ORIGINAL, "number").tolist() == [3, 0, 2, -1]


def test_person_with_two_rows_in_a_group_counts_once() -> None:
    found = link(published([1, 2, 3, 4], [10, 10, 10, 50], [20, 20, 20, 60]), ORIGINAL, SCHEMA, by="number")
    assert found.rows_per_group.tolist() == [3, 1]
    assert found.persons_per_group.tolist() == [2, 1]


def test_row_without_an_original_adds_no_person() -> None:
    found = link(published([1, 9], [10, 10], [20, 20]), ORIGINAL, SCHEMA, by="number")
    assert found.rows_per_group.tolist() == [2]
    assert found.persons_per_group.tolist() == [1]
    assert found.known.tolist() == [0]


@pytest.mark.parametrize("numbers", [[1, 1, 2, 3], [1, None, 2, 3]])
def test_column_that_does_not_number_the_rows_is_refused(numbers: list[int | None]) -> None:
    original = ORIGINAL.set_column(2, "number", pa.array(numbers))
    with pytest.raises(InputError, match="does not number the original rows"):
        original_rows(published([1], [0], [100]), original, "number")


def test_missing_link_is_named() -> None:
    with pytest.raises(InputError, match="the published table has no column 'number'"):
        original_rows(pa.table({"age_min": [1]}), ORIGINAL, "number")
