"""Calls of compiled kernels pass every kind of argument, and refuse what the compiled code would misread."""

import threading
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.arrays import Flags, Floats, Floats3, Hashes, Ints, Ints2, Singles2, Words
from castleguard.kernels.compile import Int, bind, entry_kernel

pytestmark = pytest.mark.compiled


class Everything(NamedTuple):
    """One array of every type."""

    floats: Floats
    cube: Floats3
    table: Ints2
    singles: Singles2
    words: Words
    flags: Flags


@entry_kernel
def sum_up(given: Everything, pair: tuple[bool, bool], number: Int, key: np.uint64, scale: float, out: Ints) -> float:
    """Write sizes and scalars to `out`; return the sum of everything."""
    out[0] = number
    out[1] = np.int64(key >> np.uint64(1))
    out[2] = 1 if pair[0] and not pair[1] else 0
    out[3] = given.cube.shape[0] * 100 + given.cube.shape[1] * 10 + given.cube.shape[2]
    total = scale
    for at in range(given.floats.size):
        total += given.floats[at]
    for row in range(given.table.shape[0]):
        for column in range(given.table.shape[1]):
            total += given.table[row, column]
    for row in range(given.singles.shape[0]):
        for column in range(given.singles.shape[1]):
            total += given.singles[row, column]
    for at in range(given.words.size):
        total += np.float64(given.words[at])
    for at in range(given.flags.size):
        total += 1.0 if given.flags[at] else 0.0
    return total


@entry_kernel
def is_above(numbers: Floats, limit: float) -> bool:
    """Whether the first number is above a limit."""
    return bool(numbers[0] > limit)


@entry_kernel
def largest(keys: Hashes) -> np.uint64:
    """Largest key."""
    found = np.uint64(0)
    for at in range(keys.size):
        found = max(found, keys[at])
    return found


@entry_kernel
def add_to(numbers: Ints, number: Int) -> None:
    """Add to every number."""
    for at in range(numbers.size):
        numbers[at] += number


small = st.integers(-(2**40), 2**40)


@given(
    shape=st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 3)),
    floats=st.lists(st.integers(-100, 100), max_size=5),
    number=st.integers(-(2**63), 2**63 - 1),
    key=st.integers(0, 2**64 - 1),
    first=st.booleans(),
    second=st.booleans(),
)
def test_every_kind_of_argument_arrives(
    shape: tuple[int, int, int], floats: list[int], number: int, key: int, first: bool, second: bool
) -> None:
    table = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape[:2])
    arrays = Everything(
        np.array(floats, dtype=np.float64),
        np.zeros(shape),
        table,
        np.full((2, 2), 0.5, dtype=np.float32),
        np.array([7, 2**32 - 1], dtype=np.uint32),
        np.array([True, False, True]),
    )
    out = np.zeros(4, dtype=np.int64)
    found = sum_up(arrays, (first, second), number, np.uint64(key), 0.25, out)
    assert found == 0.25 + sum(floats) + table.sum() + 2 + 7 + 2**32 - 1 + 2
    assert out.tolist() == [number, key >> 1, int(first and not second), shape[0] * 100 + shape[1] * 10 + shape[2]]


@pytest.mark.parametrize(("number", "above"), [(1.5, True), (0.5, False), (float("nan"), False), (float("inf"), True)])
def test_truth_values_are_returned(number: float, above: bool) -> None:
    assert is_above(np.array([number]), 1.0) is above


def test_large_keys_are_returned() -> None:
    assert largest(np.array([2**64 - 1, 3], dtype=np.uint64)) == 2**64 - 1


def locked(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, dtype=np.int32),
        np.zeros(3),
        np.zeros((3, 1), dtype=np.int64),
        np.zeros(6, dtype=np.int64)[::2],
        locked(np.zeros(3, dtype=np.int64)),
        np.frombuffer(bytearray(25), dtype=np.uint8)[1:].view(np.int64),
    ],
    ids=["narrow", "float", "axes", "strided", "read-only", "misaligned"],
)
def test_an_array_that_would_be_misread_is_refused(array: NDArray[np.int64]) -> None:
    before = array.tobytes()
    with pytest.raises(TypeError):
        add_to(array, 1)
    assert array.tobytes() == before


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError):
        add_to(np.zeros(3, dtype=np.int64))  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        add_to(np.zeros(3, dtype=np.int64), 1, 2)  # type: ignore[call-arg]


def test_an_integer_beyond_64_bits_is_refused() -> None:
    with pytest.raises(TypeError):
        add_to(np.zeros(3, dtype=np.int64), 2**63)


def test_bound_arguments_are_those_of_the_binding() -> None:
    numbers = np.zeros(3, dtype=np.int64)
    add = bind(add_to, numbers)
    add(2)
    numbers[0] = 10
    add(1)
    assert numbers.tolist() == [11, 3, 3]


def test_threads_do_not_disturb_each_other() -> None:
    arrays = [np.zeros(1000, dtype=np.int64) for _ in range(4)]

    def work(at: int) -> None:
        for _ in range(200):
            add_to(arrays[at], at + 1)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(array.tolist()) for array in arrays] == [{200}, {400}, {600}, {800}]
