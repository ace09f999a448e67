"""Rows for the tests in Spark, and the checks of their output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import castleguard as cg
from castleguard.judge.verify.structure import verify
from castleguard.spark.committed import committed

K, L, DELAY = 5, 2, 300
SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=5),
        cg.Numeric("zip", lower=0, upper=1000, step=50),
        cg.Categorical(
            "region",
            hierarchy=cg.Hierarchy.from_mapping({"all": {"north": ["oslo", "turku"], "south": ["rome", "bari"]}}),
        ),
    ],
    sensitive=["job"],
    public=["row"],
)
BAD = 251
"""Every so many rows one has an age that cannot be read."""


def make_visits(rows: int, *, first: int = 0) -> pa.Table:
    """Rows with two numbers: `row` is published, to match the output; `at` is the position. Persons are
    large numbers, some of them missing, which floats would confuse.
    """
    chance = np.random.default_rng(first + 5)
    number = np.arange(first, first + rows)
    persons = pa.array(2**60 + chance.integers(0, rows // 2, rows), mask=number % 97 == 0)
    ages = [None if at % BAD == 3 else float(age) for at, age in zip(number, chance.normal(45, 15, rows), strict=True)]
    return pa.table(
        {
            "pid": persons,
            "age": pa.array(ages, pa.float64()),
            "zip": chance.integers(0, 1000, rows),
            "region": pa.array(chance.choice(["oslo", "turku", "rome", "bari"], rows)),
            "job": pa.array(chance.choice(["cook", "clerk", "nurse"], rows)),
            "row": number,
            "at": number,
            "secret": pa.array([f"secret {at}" for at in number]),
        }
    )


def write_parts(table: pa.Table, folder: Path, parts: int) -> None:
    """Write the rows as so many files, in order; names sort by arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-table.num_rows // parts)
    for part in range(parts):
        pq.write_table(table.slice(part * size, size), folder / f"part-{part:03}.parquet")


def read_committed(folder: Path, outcome: str | None = "published") -> list[pa.Table]:
    """Return the committed files of Spark as tables, in the order of commits."""
    return [pq.read_table(path, partitioning=None) for path in committed(folder, outcome)]


def published_columns(table: pa.Table) -> pa.Table:
    """Drop the columns that are not published."""
    return table.drop_columns([name for name in ("outcome", "shard", "place", "detail") if name in table.column_names])


def last_books(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """Return the latest books of each shard."""
    latest: dict[int, dict[str, Any]] = {}
    for table in tables:
        for entry in table.to_pylist():
            books = json.loads(entry["detail"])
            before = latest.get(entry["shard"])
            if before is None or (books["rows_in"], books["now"]) >= (before["rows_in"], before["now"]):
                latest[entry["shard"]] = books
    return list(latest.values())


def check_all(original: pa.Table, published: list[pa.Table], books: list[dict[str, Any]]) -> None:
    """Check the guarantee of the whole output against the input rows."""
    rows = [published_columns(table) for table in published]
    verdict = verify(rows, original, SCHEMA, k=K, l=L, link="row", every_moment=True)
    assert verdict.ok, verdict.sentence
    assert sum(entry["rows_in"] for entry in books) == original.num_rows
    assert sum(entry["pending"] + entry["waiting"] for entry in books) == 0
    assert sum(entry["published"] for entry in books) == verdict.rows
    refused = pc.sum(pc.is_null(original["age"])).as_py()
    assert sum(sum(entry["rejected"].values()) for entry in books) == refused
    suppressed = sum(entry["suppressed"] for entry in books)
    assert verdict.rows + suppressed + refused == original.num_rows
    assert suppressed < 0.01 * original.num_rows, "so many rows that nothing much was tested"
    assert max(entry["oldest_wait"] for entry in books) <= DELAY
