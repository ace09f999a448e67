"""A tree of cut points assigns every row to one shard."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.shards.cut_tree import Branch, Cut, Cuts

TREE = Cuts(Cut("x", 5.0, Cut("y", 2.0, 0, 3), Cut("x", 8.0, Cut("y", 7.0, 1, 4), 2)))


def test_tree_knows_its_shards_and_columns() -> None:
    assert TREE.shards == 5
    assert TREE.columns == ("x", "y")
    assert [cut.at for cut in TREE.walk()] == [5.0, 2.0, 8.0, 7.0]


def test_value_at_the_cut_point_lies_above() -> None:
    assert Cuts(Cut("x", 5.0, 0, 1)).shard_of({"x": np.array([4.999, 5.0])}, rows=2).tolist() == [0, 1]


def slow(branch: Branch, row: dict[str, float]) -> int:
    """Slow twin: row by row, cut by cut."""
    while isinstance(branch, Cut):
        branch = branch.below if row[branch.column] < branch.at else branch.above
    return branch


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=50))
def test_vectorised_assignment_matches_single_rows(rows: list[tuple[int, int]]) -> None:
    values = {"x": np.array([x for x, _ in rows], dtype=float), "y": np.array([y for _, y in rows], dtype=float)}
    expected = [slow(TREE.root, {"x": float(x), "y": float(y)}) for x, y in rows]
    assert TREE.shard_of(values, rows=len(rows)).tolist() == expected


def test_every_shard_is_the_end_of_one_path() -> None:
    for root in (Cut("x", 1.0, 0, 0), Cut("x", 1.0, 0, 2), Cut("x", 1.0, -1, 0), 1):
        with pytest.raises(SchemaError, match="cut points need each of the shards"):
            Cuts(root)


def test_infinite_cut_point_is_refused() -> None:
    with pytest.raises(SchemaError, match="must be finite"):
        Cuts(Cut("x", float("nan"), 0, 1))
