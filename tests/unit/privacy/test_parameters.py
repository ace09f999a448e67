"""A printed loss is never smaller than the loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.privacy.parameters import rounded_up


@given(value=st.floats(1e-300, 1e300), digits=st.integers(2, 8))
def test_a_loss_is_never_shown_smaller_than_it_is(value: float, digits: int) -> None:
    shown = float(rounded_up(value, digits))
    assert value * (1 - 1e-12) <= shown <= value * (1 + 1.01 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("value", "shown"), [(0.1 + 0.2, "0.3"), (24 * 0.1, "2.4"), (0.9999991, "1"), (1e-6, "1e-06"), (0.0, "0"), (3, "3")]
)
def test_rounding_errors_are_not_rounded_up(value: float, shown: str) -> None:
    assert rounded_up(value) == shown
