"""The outcome of a value depends on its declared type or on earlier values, never on the cut into batches."""

import datetime as dt
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.connectors.file_source import FileSource
from castleguard.connectors.formats import open_reader
from castleguard.connectors.listing import list_files
from castleguard.job import Job, Parts
from castleguard.schema.sensitive import ValueType
from castleguard.testing.in_memory import MemoryParts, MemorySink
from tests.properties.streams import examples

AGE = cg.Numeric("age", lower=0, upper=100, step=50)
POLICY = cg.Castle(k=2, delay=4)

Row = dict[str, Any]
Cut = Callable[[list[Row]], object]


class Outcome(NamedTuple):
    """All visible results of a stream."""

    published: list[Row]
    types: pa.Schema
    rejected: list[tuple[int, str]]
    report: cg.Report


JSON_VALUES = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.sampled_from([2**53 - 1, 2**53 + 1, 2**60, 2**70]),
    st.sampled_from([0.5, 2.0, -1.25, 1e300]),
    st.sampled_from(["V45", "5", "2.50", "", "true", "2020-01-02", "2020-01-02T03:04:05"]),
    st.booleans(),
)
VALUES = st.one_of(
    JSON_VALUES,
    st.sampled_from([dt.date(2020, 1, 2), dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)]),
    st.sampled_from([Decimal("2.5"), Decimal("0.1234567890123456789"), b"raw", [1], float("nan")]),
)
TYPES: st.SearchStrategy[ValueType | None] = st.sampled_from(
    [None, None, None, "text", "integer", "number", "boolean", "date", "timestamp"]
)


@st.composite
def schemas(draw: st.DrawFn) -> cg.Schema:
    return cg.Schema(
        person="pid",
        quasi_identifiers=[AGE],
        sensitive=[cg.Sensitive("x", type=draw(TYPES))],
        public=["row", cg.Public("y", type=draw(TYPES))],
    )


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Row]]:
    """Few ages, one of them invalid: its row is rejected and decides no type. Columns often start with nulls."""
    row = st.fixed_dictionaries({"age": st.sampled_from([10, 20, 60, None]), "x": values, "y": values})
    empty = st.fixed_dictionaries({"age": st.sampled_from([10, 60, None]), "x": st.none(), "y": st.none()})
    lists = st.tuples(st.lists(empty, max_size=12), st.lists(row, min_size=1, max_size=20))
    rows = lists.map(lambda two: [*two[0], *two[1]])
    return rows.map(lambda found: [{**one, "pid": f"p{at}", "row": at} for at, one in enumerate(found)])


def cuts_of(rows: list[Row], draw: st.DataObject) -> list[list[Row]]:
    inner = draw.draw(st.lists(st.integers(0, len(rows)), max_size=6))
    return [rows[low:high] for low, high in pairwise(sorted({0, len(rows), *inner}))]


def push_all(schema: cg.Schema, parts: list[list[Row]], made: Cut, *, restore: bool = False) -> Outcome:
    stream = cg.Anonymiser(schema, POLICY, seed=1)
    out, rejected, first = [], [], 0
    for part in parts:
        out.append(stream.push(made(part)))
        rejected += [(first + row, reason) for row, reason in stream.rejected()]
        first += len(part)
        if restore:
            stream = cg.Anonymiser.restore(schema, POLICY, stream.snapshot())
    out.append(stream.flush(warn=False))
    whole = pa.concat_tables([table.cast(out[-1].schema) for table in out])
    return Outcome(whole.to_pylist(), whole.schema, rejected, stream.report())


def object_frame(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]})


@pytest.mark.parametrize("made", [list, object_frame], ids=["records", "pandas objects"])
@examples(4)
@given(schema=schemas(), rows=rows_of(VALUES), draw=st.data())
def test_any_cut_publishes_and_rejects_the_same_rows(
    made: Cut, schema: cg.Schema, rows: list[Row], draw: st.DataObject
) -> None:
    whole = push_all(schema, [rows], made)
    event(f"published {bool(whole.published)}")
    event(f"rejected for its type {any('other type' in reason for _, reason in whole.rejected)}")
    parts = cuts_of(rows, draw)
    for cut, restore in ((parts, False), (parts, True), ([[row] for row in rows], False)):
        found = push_all(schema, cut, made, restore=restore)
        assert repr(found.published) == repr(whole.published)  # NaN is not equal to itself
        assert found.types == whole.types
        assert found.rejected == whole.rejected
        assert found.report.rejected == whole.report.rejected == dict(Counter(reason for _, reason in found.rejected))
        assert found.report.suppressed == whole.report.suppressed


@examples(1)
@given(schema=schemas(), rows=rows_of(JSON_VALUES), draw=st.data())
def test_a_job_over_json_lines_publishes_the_same_rows_in_any_batches_and_files(
    schema: cg.Schema, rows: list[Row], draw: st.DataObject
) -> None:
    outcomes = [
        run_job(schema, parts, batch_rows=batch_rows)
        for parts, batch_rows in (([rows], 1000), ([rows], 1), (cuts_of(rows, draw), 3))
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def run_job(schema: cg.Schema, parts: list[list[Row]], *, batch_rows: int) -> tuple[list[Row], dict[str, int]]:
    with tempfile.TemporaryDirectory() as name:
        for number, part in enumerate(parts):
            lines = "".join(json.dumps(row) + "\n" for row in part)
            (Path(name) / f"{number:03}.jsonl").write_text(lines)
        reader = partial(open_reader, columns=schema.columns, batch_rows=batch_rows, format="jsonl")
        delivered = MemoryParts()
        job = Job(
            Parts(
                open_source=lambda position: FileSource(list_files(Path(name)), reader, position),
                make_stream=lambda _: cg.Anonymiser(schema, POLICY, seed=1),
                sink=MemorySink(delivered),
            )
        )
        assert job.run() == "finished"
        return [row for _, table in delivered.delivered for row in table.to_pylist()], job.books().rejected
