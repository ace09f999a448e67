"""Sorting and selecting keys in place, against numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.sorting import lower_half, make_key, select_keys, sort_keys

KEYS = st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=200)


@entry_kernel
def sort(keys: NDArray[np.uint64], start: int, stop: int) -> None:
    """Sort some of the keys."""
    sort_keys(keys, start, stop)


@entry_kernel
def select(keys: NDArray[np.uint64], start: int, stop: int, count: int) -> None:
    """Put the smallest of some keys first."""
    select_keys(keys, start, stop, count)


@entry_kernel
def join(bits: NDArray[np.uint32], lower: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
    """Make keys, and take their lower halves."""
    for at in range(bits.size):
        keys[at] = make_key(bits[at], lower[at])
        lower[at] = lower_half(keys[at])


@given(numbers=KEYS, data=st.data())
def test_only_the_range_is_sorted(numbers: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    stop = data.draw(st.integers(start, len(numbers)))
    keys = np.array(numbers, dtype=np.uint64)
    sort(keys, start, stop)
    assert keys.tolist() == numbers[:start] + sorted(numbers[start:stop]) + numbers[stop:]


@given(numbers=KEYS, data=st.data())
def test_the_smallest_keys_come_first_and_none_is_lost(numbers: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    stop = data.draw(st.integers(start, len(numbers)))
    count = data.draw(st.integers(0, stop - start))
    keys = np.array(numbers, dtype=np.uint64)
    select(keys, start, stop, count)
    assert sorted(keys[start : start + count].tolist()) == sorted(numbers[start:stop])[:count]
    assert sorted(keys[start:stop].tolist()) == sorted(numbers[start:stop])
    assert keys[:start].tolist() + keys[stop:].tolist() == numbers[:start] + numbers[stop:]


def test_long_rows_of_sorted_keys_are_selected_and_sorted() -> None:
    for numbers in (range(5000), range(5000, 0, -1), [*range(2500), *range(2500, 0, -1)]):
        keys = (np.array(numbers, dtype=np.uint64) << np.uint64(32)) | np.arange(5000, dtype=np.uint64)
        expected = np.sort(keys)
        chosen = keys.copy()
        select(chosen, 0, 5000, 77)
        assert np.array_equal(np.sort(chosen[:77]), expected[:77])
        sort(keys, 0, 5000)
        assert np.array_equal(keys, expected)


@given(
    values=st.lists(st.floats(0, 1e9, width=32), min_size=2, max_size=2),
    numbers=st.tuples(*[st.integers(0, 2**31)] * 2),
)
def test_keys_order_as_distance_and_then_as_the_number(values: list[float], numbers: tuple[int, int]) -> None:
    bits = (np.array(values, dtype=np.float32) + np.float32(0)).view(np.uint32)
    lower = np.array(numbers, dtype=np.int64)
    keys = np.zeros(2, dtype=np.uint64)
    join(bits, lower, keys)
    assert (keys[0] < keys[1]) == ((values[0], numbers[0]) < (values[1], numbers[1]))
    assert lower.tolist() == list(numbers)
