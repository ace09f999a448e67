"""Rows as JSON objects: the text of rows that share their first columns is the same as that of any others."""

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors import json_rows
from castleguard.connectors.json_rows import render_messages, render_objects

COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 3) | st.integers(0, 2**64 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.sampled_from([0.0, -0.0, 0.5, 1e300, float("nan"), float("inf")]) | st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.sampled_from(["", "a", '"', "é", "\n"]) | st.text(max_size=3)),
    (pa.large_string(), st.sampled_from(["", "a"])),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1))),
    (pa.null(), st.none()),
]


def plain(table: pa.Table, end: str = "") -> list[str]:
    """Row by row: too few rows at a time to look for heads."""
    return [render_objects(table.slice(row, 1), end).to_pylist()[0] for row in range(table.num_rows)]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Few different rows, many times, and at times a column in which all differ."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(values | st.none() for _, values in chosen)), min_size=1, max_size=5))
    order = draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=40))
    columns = {
        f"c{number}": pa.array([rows[row][number] for row in order], kind) for number, (kind, _) in enumerate(chosen)
    }
    if draw(st.booleans()):
        columns["row"] = pa.array(range(len(order)))
    table = pa.table(columns)
    cut = draw(st.integers(0, table.num_rows))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)]) if draw(st.booleans()) else table


@given(table=tables(), end=st.sampled_from(["", "\n"]))
def test_rows_are_rendered_as_each_of_them_alone(table: pa.Table, end: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_FEWEST", 1)
        patch.setattr(json_rows, "_MOST_DISTINCT", 1)
        together = render_objects(table, end).to_pylist()
        messages = render_messages(table)
        patch.setattr(json_rows, "_FEWEST", 10**9)
        assert together == plain(table, end)
        assert messages == [text.encode() for text in plain(table)]


@pytest.mark.parametrize("payload", [False, True])
def test_many_rows_of_few_boxes_have_the_text_of_each_box(payload: bool) -> None:
    table = pa.table({"low": [row % 7 for row in range(10_000)], "high": [row % 7 + 10 for row in range(10_000)]})
    if payload:
        table = table.append_column("row", pa.array(range(10_000)))
    heads = json_rows._heads_of(table)
    assert heads is not None
    assert (heads.columns, len(heads.first)) == (2, 7)
    assert [json.loads(message) for message in render_messages(table)] == table.to_pylist()


def test_numbers_that_are_mixed_to_one_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_FACTOR", json_rows._FACTOR * 0)
    table = pa.table({"low": [row % 7 for row in range(10_000)]})
    assert json_rows._heads_of(table) is None
    assert [json.loads(message) for message in render_messages(table)] == table.to_pylist()
