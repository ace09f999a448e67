"""Invalid criteria are refused at construction."""

from typing import Any

import pytest

from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import ColumnFacts, Criteria


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, "2", None, True])
def test_k_below_two_or_not_a_whole_number_is_refused(k: object) -> None:
    with pytest.raises(PolicyError, match="k must be"):
        Criteria(k=k)  # type: ignore[arg-type]


@pytest.mark.parametrize("l", [0, -1, 2.0, "2", None])
def test_l_below_one_or_not_a_whole_number_is_refused(l: object) -> None:
    with pytest.raises(PolicyError, match="l must be"):
        Criteria(k=3, l=l)  # type: ignore[arg-type]


def test_l_above_k_is_refused() -> None:
    with pytest.raises(PolicyError, match="l must not be above k"):
        Criteria(k=3, l=4)
    assert Criteria(k=3, l=3).l == 3


def test_an_unknown_way_to_count_is_refused() -> None:
    with pytest.raises(PolicyError, match="l_per"):
        Criteria(k=3, l_per="column")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"diversity": "simpson"}, "diversity must be 'distinct' or 'entropy' or 'recursive', got 'simpson'"),
        ({"diversity": "entropy", "l": 1}, "diversity='entropy' needs l of at least 2, got 1"),
        ({"diversity": "recursive", "l": 1, "c": 2}, "diversity='recursive' needs l of at least 2, got 1"),
        ({"diversity": "recursive"}, "c and diversity='recursive' go together: give both or neither"),
        ({"c": 2.0}, "c and diversity='recursive' go together: give both or neither"),
        ({"diversity": "recursive", "c": 0}, "c must be a number above 0, got 0"),
        ({"diversity": "recursive", "c": "2"}, "c must be a number above 0, got '2'"),
        ({"diversity": "recursive", "c": float("inf")}, "c must be a number above 0, got inf"),
        ({"closeness": 0.2}, "closeness must be a Closeness, got float"),
    ],
)
def test_an_invalid_diversity_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        Criteria(**{"k": 3, "l": 2, **given})
    assert str(refused.value) == message


CLOSE = Criteria(k=3, closeness=Closeness(t=0.2))
BY_TREE = Criteria(k=3, closeness=Closeness(t=0.2, distance="hierarchical"))
ENTROPIC = Criteria(k=3, l=2, diversity="entropy")


@pytest.mark.parametrize(
    ("criteria", "columns", "message"),
    [
        (Criteria(k=3, l=2), {}, "l=2 needs at least one sensitive column in the schema"),
        (CLOSE, {}, "t-closeness needs at least one sensitive column in the schema"),
        (CLOSE, {"s": ColumnFacts(None, False)}, "t-closeness needs the values of column 's'"),
        (ENTROPIC, {"s": ColumnFacts(None, False)}, "entropy diversity needs the values of column 's'"),
        (ENTROPIC, {"s": ColumnFacts(5000, False)}, "entropy diversity takes at most 4096 values, column 's' has 5000"),
        (BY_TREE, {"s": ColumnFacts(3, False)}, "distance='hierarchical' needs a hierarchy for column 's'"),
    ],
)
def test_columns_that_cannot_be_judged_are_refused(
    criteria: Criteria, columns: dict[str, ColumnFacts], message: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        criteria.check_columns(columns)
    assert str(refused.value).startswith(message)


def test_columns_with_public_values_can_be_judged() -> None:
    for criteria in (CLOSE, BY_TREE, ENTROPIC):
        assert criteria.judges_shape
        criteria.check_columns({"s": ColumnFacts(4096, True), "u": ColumnFacts(1, True)})
    distinct = Criteria(k=3, l=3)
    assert not distinct.judges_shape
    distinct.check_columns({"s": ColumnFacts(None, False)})
