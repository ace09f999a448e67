"""The gate's matching, compared with a slow one, and at sizes beyond the recursion limit."""

from hypothesis import given
from hypothesis import strategies as st

from castleguard.privacy.matching import largest_matching
from tests.properties.tables import most_apart


def test_one_person_is_matched_to_one_value() -> None:
    assert largest_matching([]) == 0
    assert largest_matching([(1, 10), (1, 20), (1, 30)]) == 1
    assert largest_matching([(1, 10), (2, 10), (3, 10)]) == 1


def test_a_person_is_moved_to_another_value_if_necessary() -> None:
    assert largest_matching([(1, 10), (2, 10), (2, 20), (3, 20), (3, 30), (1, 30)]) == 3
    assert largest_matching([(2, 10), (2, 20), (1, 10)]) == 2


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_the_size_agrees_with_halls_theorem(pairs: set[tuple[int, int]]) -> None:
    assert largest_matching(pairs) == most_apart(pairs)


def test_the_order_of_rows_does_not_matter() -> None:
    pairs = [(person, person * step % 7) for step in (1, 2) for person in range(9)]
    assert largest_matching(pairs) == largest_matching(reversed(pairs))


def test_a_chain_longer_than_the_recursion_limit_is_matched() -> None:
    """Every person is moved once."""
    count = 5000
    chain = [(number + side, number) for number in range(count) for side in (0, 1)]
    assert largest_matching([*chain, (0, count)]) == count + 1
