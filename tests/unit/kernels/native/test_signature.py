"""Signatures of entry kernels follow from their annotations."""

from importlib import import_module
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from castleguard.kernels.arrays import Floats, Ints2, Table
from castleguard.kernels.compile import Bool, Int
from castleguard.kernels.native.library import ENTRIES, list_modules
from castleguard.kernels.native.signature import Array, Record, Scalar, Signature, signature_of


class Pair(NamedTuple):
    """Two arrays."""

    first: Floats
    second: Ints2


def takes_all(pair: Pair, table: Table, count: Int, on: Bool, flags: tuple[bool, bool], now: float) -> Int:
    """A function of every kind of parameter."""
    return count


def test_parameters_have_the_types_of_their_annotations() -> None:
    truth = Scalar("bool")
    assert signature_of(takes_all) == Signature(
        (
            Record(Pair, (Array("float64", 1), Array("int64", 2))),
            Array("uint64", 2),
            Scalar("int64"),
            truth,
            Record(tuple, (truth, truth)),
            Scalar("float64"),
        ),
        Scalar("int64"),
    )


def test_leaves_are_in_the_order_of_the_fields() -> None:
    leaves = signature_of(takes_all).leaves
    assert leaves[:3] == (Array("float64", 1), Array("int64", 2), Array("uint64", 2))
    assert len(leaves) == 8


def without_type(count) -> None:  # type: ignore[no-untyped-def]
    """A function with a parameter that has no type."""


def takes_text(text: str) -> None:
    """A function of something that no kernel takes."""


def takes_either(number: int | float) -> None:
    """A function of two types of compiled numbers."""


def gives_array() -> NDArray[np.float64]:
    """A function that returns an array."""
    return np.zeros(1)


def takes_text_with_axes(text: Annotated[str, 2]) -> None:
    """A function of axes of something that has none."""


@pytest.mark.parametrize("function", [without_type, takes_text, takes_either, gives_array, takes_text_with_axes])
def test_types_that_kernels_do_not_take_are_refused(function: object) -> None:
    with pytest.raises(TypeError):
        signature_of(function)  # type: ignore[arg-type]


@pytest.mark.compiled
def test_every_entry_has_a_signature() -> None:
    for module in list_modules():
        import_module(module)
    entries = [entry for entry in ENTRIES if entry.__module__ in list_modules()]
    assert {entry.__module__ for entry in entries} == set(list_modules())
    for entry in entries:
        assert signature_of(entry).parameters
