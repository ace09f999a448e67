"""Deterministic order: independent of the order of arrival, and not determined by values."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.shards.order import fixed_order, permutation, put_in_order

KEY = b"k" * 32
VALUES = st.tuples(
    st.none() | st.floats(width=32) | st.sampled_from([0.0, -0.0]),
    st.none() | st.integers(-3, 3),
    st.none() | st.text("ab", max_size=2),
    st.none() | st.booleans(),
)
TYPES = {"x": pa.float64(), "n": pa.int64(), "s": pa.string(), "b": pa.bool_()}


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(TYPES)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TYPES.values(), strict=True)]
    return pa.table(dict(zip(TYPES, arrays, strict=True)))


def bits_of(table: pa.Table) -> bytes:
    """The content bit by bit: 0.0 differs from -0.0, and NaN equals itself."""
    seen = table.set_column(0, "x", table["x"].combine_chunks().view(pa.int64()))
    return repr(seen.to_pylist()).encode()


@given(rows=st.lists(VALUES, max_size=12), mix=st.randoms(use_true_random=False), position=st.booleans())
def test_order_of_arrival_does_not_matter(
    rows: list[tuple[object, ...]], mix: "np.random.Generator", position: bool
) -> None:
    mixed = list(rows)
    mix.shuffle(mixed)
    columns = ["n"] if position else []
    assert bits_of(put_in_order(table_of(rows), columns, KEY)) == bits_of(put_in_order(table_of(mixed), columns, KEY))


def test_rows_are_ordered_by_position() -> None:
    table = pa.table({"offset": [3, 1, 2], "partition": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    assert put_in_order(table, ["partition", "offset"], KEY)["x"].to_pylist() == [3.0, 1.0, 2.0]
    assert put_in_order(table, ["offset"], KEY)["x"].to_pylist() == [2.0, 3.0, 1.0]


def test_rows_of_one_position_are_not_ordered_by_their_values() -> None:
    table = pa.table({"offset": [0] * 64, "x": np.arange(64.0)})
    found = put_in_order(table, ["offset"], KEY)["x"].to_pylist()
    assert sorted(found) == list(range(64))
    assert found != sorted(found)
    assert found != put_in_order(table, ["offset"], b"j" * 32)["x"].to_pylist()


def test_nan_positions_do_not_distinguish_rows() -> None:
    table = pa.table({"at": [float("nan")] * 8, "x": np.arange(8.0)})
    turned = table.take(pa.array(np.arange(8)[::-1]))
    assert put_in_order(table, ["at"], KEY)["x"].equals(put_in_order(turned, ["at"], KEY)["x"])


@pytest.mark.statistical
def test_every_order_is_equally_likely_for_any_values() -> None:
    """All 24 orders of four rows are equally frequent, for two tables of which one has equal rows.
    Chi-square with 23 degrees of freedom exceeds 60 by chance once in 30,000; keys are fixed.
    """
    runs = 4_800
    orders = Counter(tuple(permutation(4, number.to_bytes(32, "big"))) for number in range(runs))
    expected = runs / 24
    assert set(orders) == set(itertools.permutations(range(4)))
    assert sum((count - expected) ** 2 / expected for count in orders.values()) < 60


def test_order_depends_on_the_ranks_of_rows_only() -> None:
    """Replacing values therefore permutes ranks, and a uniform permutation of them stays uniform."""
    low, high = pa.table({"x": [1.0, 2.0, 3.0]}), pa.table({"x": [10.0, 7.0, 99.0]})
    assert fixed_order(low, [], KEY).tolist() == permutation(3, KEY).tolist()
    ranks = np.array([1, 0, 2])  # positions of the sorted values of `high`
    assert fixed_order(high, [], KEY).tolist() == ranks[permutation(3, KEY)].tolist()


def test_column_that_cannot_be_sorted_needs_positions() -> None:
    table = pa.table({"tags": [["a"], ["b"]], "at": [1, 0]})
    with pytest.raises(SchemaError, match="column 'tags' of type list"):
        put_in_order(table, [], KEY)
    assert put_in_order(table, ["at"], KEY)["tags"].to_pylist() == [["b"], ["a"]]


def test_columns_without_a_type_and_empty_tables_have_an_order() -> None:
    assert put_in_order(pa.table({"x": pa.nulls(3)}), [], KEY).num_rows == 3
    assert put_in_order(pa.table({"x": pa.array([], pa.float64())}), ["x"], KEY).num_rows == 0
