"""Parameters that cannot be promised are refused when they are written down."""

import pytest

from castleguard.errors import PolicyError
from castleguard.privacy.criteria import Criteria


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, "2", None, True])
def test_k_below_two_or_no_whole_number_is_refused(k: object) -> None:
    with pytest.raises(PolicyError, match="k must be"):
        Criteria(k=k)  # type: ignore[arg-type]


@pytest.mark.parametrize("l", [0, -1, 2.0, "2", None])
def test_l_below_one_or_no_whole_number_is_refused(l: object) -> None:
    with pytest.raises(PolicyError, match="l must be"):
        Criteria(k=3, l=l)  # type: ignore[arg-type]


def test_l_above_k_is_refused() -> None:
    with pytest.raises(PolicyError, match="l must not be above k"):
        Criteria(k=3, l=4)
    assert Criteria(k=3, l=3).l == 3


def test_an_unknown_way_to_count_is_refused() -> None:
    with pytest.raises(PolicyError, match="l_per"):
        Criteria(k=3, l_per="column")  # type: ignore[arg-type]
