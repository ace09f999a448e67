"""Splitting one epsilon over columns."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import PolicyError
from castleguard.privacy.epsilon_shares import share_epsilon

numbers = st.floats(1e-6, 1e6)


@given(numbers, st.dictionaries(st.sampled_from("abcd"), numbers))
def test_shares_add_up_to_the_whole_exactly(epsilon: float, weights: dict[str, float]) -> None:
    shares = share_epsilon("abcd", epsilon=epsilon, weights=weights)
    assert sum(shares.values()) == Fraction(repr(epsilon))
    assert all(share > 0 for share in shares.values())


def test_numbers_are_taken_as_they_are_written() -> None:
    assert share_epsilon(["a"], epsilon=0.1) == {"a": Fraction(1, 10)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either epsilon .* or phi"),
        ({"epsilon": 1, "phi": 1}, "give either epsilon"),
        ({"epsilon": 0}, "epsilon must be above 0, got 0"),
        ({"epsilon": float("nan")}, "epsilon must be a number above 0"),
        ({"phi": -1}, "phi must be above 0, got -1"),
        ({"phi": 1, "weights": {"a": 1}}, "with phi every column has the same share"),
        ({"epsilon": 1, "weights": {"x": 1}}, "weights names an unknown column 'x'; the columns are a, b"),
        ({"epsilon": 1, "weights": {"a": 0}}, "the weight of 'a' must be above 0"),
        ({"epsilon": True}, "epsilon must be a number above 0"),
    ],
)
def test_an_epsilon_that_cannot_be_split_is_refused_in_one_sentence(given: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        share_epsilon(["a", "b"], **given)  # type: ignore[arg-type]
