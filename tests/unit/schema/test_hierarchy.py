"""Hierarchies: numbering, cover, loss, and invalid trees."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import Hierarchy

EDUCATION = {
    "Any": {"School": ["Junior", "Senior"], "University": {"Bachelor": None, "Graduate": ["Master", "Doctor"]}}
}


def write(folder: Path, text: str) -> Path:
    path = folder / "tree.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_nodes_and_leaves_are_numbered_depth_first() -> None:
    tree = Hierarchy.from_mapping(EDUCATION)
    assert tree.labels == (
        "Any", "School", "Junior", "Senior", "University", "Bachelor", "Graduate", "Master", "Doctor",
    )  # fmt: skip
    assert tree.leaves == ("Junior", "Senior", "Bachelor", "Master", "Doctor")
    assert tree.parents.tolist() == [-1, 0, 1, 1, 0, 4, 4, 6, 6]
    assert tree.leaf_nodes.tolist() == [2, 3, 5, 7, 8]
    assert tree.first_leaf.tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 4]
    assert tree.last_leaf.tolist() == [4, 1, 0, 1, 4, 2, 4, 3, 4]
    assert tree.parents.dtype == tree.first_leaf.dtype == tree.last_leaf.dtype == tree.leaf_nodes.dtype == np.int32


def test_children_keep_their_order_of_first_appearance_even_if_rows_are_shuffled(tmp_path: Path) -> None:
    tree = Hierarchy.from_csv(write(tmp_path, "b;Y;*\na;X;*\nc;Y;*\n"))
    assert tree.labels == ("*", "Y", "b", "c", "X", "a")
    assert tree.leaves == ("b", "c", "a")


def test_loss_is_zero_at_a_leaf_and_one_at_the_root() -> None:
    tree = Hierarchy.from_mapping(EDUCATION)
    assert tree.losses.tolist() == [1.0, 0.25, 0, 0, 0.5, 0, 0.25, 0, 0]


def test_loss_of_a_tree_with_one_leaf_is_zero() -> None:
    assert Hierarchy.flat(["only"]).losses.tolist() == [0.0, 0.0]


def test_node_is_the_lowest_that_covers_both_leaves() -> None:
    tree = Hierarchy.from_mapping(EDUCATION)
    assert tree.labels[tree.node(0, 1)] == "School"
    assert tree.labels[tree.node(3, 4)] == "Graduate"
    assert tree.labels[tree.node(2, 4)] == "University"
    assert tree.labels[tree.node(1, 2)] == "Any"
    assert tree.labels[tree.node(3, 3)] == "Master"


def test_node_below_a_chain_of_single_children_is_the_lowest_of_the_chain(tmp_path: Path) -> None:
    tree = Hierarchy.from_csv(write(tmp_path, "a;low;high;*\nb;low;high;*\n"))
    assert tree.labels[tree.node(0, 1)] == "low"
    assert tree.losses.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("low", "high"), [(-1, 0), (1, 0), (0, 5)])
def test_node_refuses_an_invalid_interval_of_leaves(low: int, high: int) -> None:
    with pytest.raises(IndexError):
        Hierarchy.from_mapping(EDUCATION).node(low, high)


def test_rows_of_uneven_length_padding_blanks_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    tree = Hierarchy.from_csv(write(tmp_path, "\ufeffa ; X;*;;\n\nb;*\n  \nc;X;*\n"))
    assert tree.leaves == ("a", "c", "b")
    assert tree.labels == ("*", "X", "a", "c", "b")


def test_quoted_labels_may_contain_the_delimiter(tmp_path: Path) -> None:
    tree = Hierarchy.from_csv(write(tmp_path, 'a,"X, or Y",*\nb,*\n'), delimiter=",")
    assert tree.labels == ("*", "X, or Y", "a", "b")


def test_csv_mapping_and_flat_give_equal_trees(tmp_path: Path) -> None:
    from_csv = Hierarchy.from_csv(write(tmp_path, "a;*\nb;*\n"))
    assert from_csv == Hierarchy.from_mapping({"*": ["a", "b"]}) == Hierarchy.flat(["a", "b", "a"])
    assert hash(from_csv) == hash(Hierarchy.flat(["a", "b"]))
    assert from_csv != Hierarchy.flat(["b", "a"])
    assert from_csv != "a;*"


def test_a_list_may_mix_leaves_and_mappings() -> None:
    assert Hierarchy.from_mapping({"*": ["a", {"X": ["b", "c"]}]}).labels == ("*", "a", "X", "b", "c")


def test_numbers_and_booleans_become_the_labels_that_data_is_compared_with() -> None:
    assert Hierarchy.flat([3, 4.0, 2.5, True, np.int64(7), " x "]).leaves == ("3", "4", "2.5", "true", "7", "x")


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Hierarchy.flat(["a"]).parents[0] = 5


def test_repr_is_short() -> None:
    assert repr(Hierarchy.from_mapping(EDUCATION)) == "Hierarchy(root='Any', nodes=9, leaves=5)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a;X;*\nb;Y;All\n", "two roots, '*' and 'All'"),
        ("a;X;*\na;Y;*\n", "'a' under 'X' and under 'Y'"),
        ("a;X;*\nb;X;Y;*\n", "'X' under '*' and under 'Y'"),
        ("a;X;*\nX;*\n", "'X' as a leaf and as the parent of 'a'"),
        ("X;*\na;X;*\n", "'X' as a leaf and as the parent of 'a'"),
        ("a;b;a;*\n", "cycle: 'a' is its own ancestor"),
        ("a;a;*\n", "cycle: 'a' is its own ancestor"),
        ("a\n", "'a' without a parent"),
        ("a;;*\n", "empty label above 'a'"),
        (";X;*\n", "empty leaf"),
    ],
)
def test_an_invalid_tree_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=r"tree\.csv") as caught:
        Hierarchy.from_csv(write(tmp_path, text))
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"cannot read hierarchy .*absent\.csv: No such file"):
        Hierarchy.from_csv(tmp_path / "absent.csv")
    (tmp_path / "latin.csv").write_bytes(b"caf\xe9;*\n")
    with pytest.raises(SchemaError, match=r"cannot read hierarchy .*latin\.csv"):
        Hierarchy.from_csv(tmp_path / "latin.csv")


@pytest.mark.parametrize("nested", [{}, {"a": ["x"], "b": ["y"]}, ["a", "b"], "a"])
def test_a_mapping_needs_exactly_one_root(nested: object) -> None:
    with pytest.raises(SchemaError, match="exactly one root"):
        Hierarchy.from_mapping(nested)  # type: ignore[arg-type]


@pytest.mark.parametrize("below", [[], {}, "text", 3])
def test_a_mapping_refuses_a_node_that_is_neither_leaf_nor_parent(below: object) -> None:
    with pytest.raises(SchemaError, match="'X' needs a list of leaves"):
        Hierarchy.from_mapping({"*": {"X": below}})


def test_a_single_string_is_not_a_list_of_values() -> None:
    with pytest.raises(SchemaError, match="not a single string"):
        Hierarchy.flat("abc")


def test_a_label_must_be_text_or_a_number() -> None:
    with pytest.raises(SchemaError, match="got object"):
        Hierarchy.flat([object()])  # type: ignore[list-item]


@st.composite
def ancestries(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Random trees: the parent of each node is an earlier one; rows from leaf to root, in random order."""
    parents = [draw(st.integers(0, node)) for node in range(draw(st.integers(1, 25)))]
    leaves = set(range(len(parents) + 1)) - set(parents)
    rows = []
    for leaf in leaves:
        row = [leaf]
        while row[-1]:
            row.append(parents[row[-1] - 1])
        rows.append(tuple(f"n{node}" for node in row))
    return draw(st.permutations(rows))


@given(ancestries())
def test_every_node_covers_exactly_the_leaves_below_it(rows: list[tuple[str, ...]]) -> None:
    nested: dict[str, object] = {}
    for row in rows:
        below = nested
        for label in reversed(row[1:]):
            below = below.setdefault(label, {})  # type: ignore[assignment]
        below[row[0]] = None
    tree = Hierarchy.from_mapping(nested)
    assert sorted(tree.leaves) == sorted(row[0] for row in rows)
    for node, label in enumerate(tree.labels):
        covered = set(tree.leaves[tree.first_leaf[node] : tree.last_leaf[node] + 1])
        assert covered == {row[0] for row in rows if label in row}
    ancestors = {row[0]: row for row in rows}
    for low in range(len(tree.leaves)):
        for high in range(low, len(tree.leaves)):
            common = [label for label in ancestors[tree.leaves[low]] if label in ancestors[tree.leaves[high]]]
            assert tree.labels[tree.node(low, high)] == common[0]


@pytest.mark.parametrize("family", ["tds", "arx"])
@pytest.mark.parametrize(
    ("attribute", "leaves"),
    [("workclass", 8), ("education", 16), ("marital-status", 7), ("occupation", 14), ("native-country", 41)],
)
def test_the_hierarchies_of_adult_are_read(data_folder: Path, family: str, attribute: str, leaves: int) -> None:
    tree = Hierarchy.from_csv(data_folder / "adult" / "hierarchies" / f"{family}_{attribute}.csv")
    assert len(tree.leaves) == leaves
    assert tree.labels[0] == "*"
    assert tree.labels[tree.node(0, leaves - 1)] == "*"
