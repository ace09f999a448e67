"""`castleguard hierarchy`: files that a schema can name, made from a column."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import castleguard as cg
from castleguard.schema.hierarchy import Hierarchy

Run = Callable[..., Any]
ROWS = "zip;town;seen;size\n" + "".join(
    f"{zip};{town};12.0{month}.2024;{size},5\n"
    for zip, town, month, size in [
        ("98101", "Rome", 1, 1),
        ("98115", "Oslo", 2, 2),
        ("10115", "Bern", 3, 3),
        ("98101", "Rome", 4, 4),
    ]
    for _ in range(3)
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "in.csv").write_text(ROWS)
    return tmp_path / "in.csv"


@pytest.mark.parametrize(
    ("column", "options", "rows"),
    [
        ("zip", ["--prefixes", "3"], ["10115;101*;*", "98101;981*;*", "98115;981*;*"]),
        ("zip", ["--prefixes", "1,3"], ["10115;101*;1*;*", "98101;981*;9*;*", "98115;981*;9*;*"]),
        ("seen", ["--dates", "quarter,year"], ["2024-01-12;2024 Q1;2024;*", "2024-04-12;2024 Q2;2024;*"]),
        ("size", ["--bins", "2"], ["1.5;1.5 to 2.5;*", "2.5;1.5 to 2.5;*", "3.5;3.5 to 4.5;*", "4.5;3.5 to 4.5;*"]),
        ("town", ["--frequent", "1"], ["Rome;*", "Bern;other;*", "Oslo;other;*"]),
    ],
)
def test_each_way_makes_a_tree(run: Run, data: Path, column: str, options: list[str], rows: list[str]) -> None:
    target = data.with_name("tree.csv")
    shown = run("hierarchy", column, data, "-o", target, *options)
    assert shown.code == 0, shown.err
    assert set(rows) <= set(target.read_text().splitlines())
    assert target.stat().st_mode & 0o077 == 0
    tree = Hierarchy.from_csv(target)
    assert cg.Categorical(column, hierarchy=tree).hierarchy.labels[0] == "*"


def test_values_that_a_table_lacks_are_counted_and_not_shown(run: Run, data: Path) -> None:
    lookup = data.with_name("lookup.csv")
    lookup.write_text("Rome,Italy,Europe\nOslo,Norway,Europe\n")
    target = data.with_name("tree.csv")
    shown = run("hierarchy", "town", data, "-o", target, "--lookup", lookup)
    assert "1 values in 3 rows are not in the table" in shown.out
    assert "Bern" not in shown.out
    assert target.read_text().splitlines() == ["Oslo;Norway;Europe;*", "Rome;Italy;Europe;*", "Bern;other;*"]


def test_a_tree_in_yaml_is_taken(run: Run, data: Path) -> None:
    tree = data.with_name("tree.yaml")
    tree.write_text("all: {south: [Rome], north: [Oslo, Bern]}\n")
    target = data.with_name("tree.csv")
    assert run("hierarchy", "town", data, "-o", target, "--tree", tree).code == 0
    assert target.read_text().splitlines() == ["Bern;north;*", "Oslo;north;*", "Rome;south;*"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["town"], "give exactly one of --prefixes"),
        (["town", "--bins", "2", "--frequent", "2"], "give exactly one of"),
        (["zip", "--prefixes", "x"], "whole numbers"),
        (["seen", "--dates", "week"], "parts of dates are month"),
        (["city", "--frequent", "2"], "no column 'city'"),
    ],
)
def test_mistakes_are_one_line(run: Run, data: Path, arguments: list[str], message: str) -> None:
    shown = run("hierarchy", arguments[0], data, "-o", data.with_name("t.csv"), *arguments[1:])
    assert shown.code != 0
    assert message in shown.err
    assert not data.with_name("t.csv").exists()


def test_a_file_is_not_replaced(run: Run, data: Path) -> None:
    data.with_name("t.csv").write_text("mine")
    shown = run("hierarchy", "town", data, "-o", data.with_name("t.csv"), "--frequent", 2)
    assert "already exists" in shown.err
    assert data.with_name("t.csv").read_text() == "mine"


def test_lists_and_mappings_are_hierarchies() -> None:
    flat = cg.Categorical("town", hierarchy=["Rome", "Oslo"])
    assert flat.hierarchy == Hierarchy.flat(["Rome", "Oslo"])
    nested = cg.Categorical("town", hierarchy={"all": {"south": ["Rome"], "north": ["Oslo"]}})
    assert nested.hierarchy.labels == ("all", "south", "Rome", "north", "Oslo")
