"""The output: columns that are filled for each outcome."""

import json

import pyarrow as pa

import castleguard as cg
from castleguard.shards.plan import Plan
from castleguard.shards.promises import OWN_COLUMNS
from castleguard.shards.routing import HashRoute
from castleguard.shards.shard import Outcome, Reject, Shard
from castleguard.spark.output import OWN, output_schema, output_tables

SCHEMA = cg.Schema(
    person="pid", quasi_identifiers=[cg.Numeric("x", lower=0, upper=100, step=5)], sensitive=["s"], public=["row"]
)
PLAN = Plan(schema=SCHEMA, policy=cg.Castle(k=2, delay=5), route=HashRoute(SCHEMA, 1))
ROWS = pa.table({"pid": [1, 2, 3], "x": [1.0, 2.0, 3.0], "s": ["a", "b", "c"], "row": pa.array([1, 2, 3], pa.int32())})


def test_schema_contains_the_published_columns() -> None:
    schema = output_schema(PLAN, ROWS.schema)
    assert schema.names == ["outcome", "x_min", "x_max", "s", "row", "shard", "place", "detail"]
    assert schema.field("row").type == pa.int32()
    assert set(OWN) == set(OWN_COLUMNS)


def test_only_published_rows_have_values() -> None:
    shard = Shard(PLAN, 0, key=b"k" * 32, kept=True)
    shard.take(ROWS, 0.0)
    outcome = shard.flush(0.0)._replace(rejected=[Reject(None, "x: null")])
    published, rejected, counts = output_tables(outcome, 7, output_schema(PLAN, ROWS.schema))
    assert set(published["outcome"].to_pylist()) == {"published"}
    assert published["shard"].null_count == published["detail"].null_count == published.num_rows == 3
    assert rejected.to_pylist() == [
        dict.fromkeys(rejected.column_names) | {"outcome": "rejected", "shard": 7, "detail": "x: null"}
    ]
    (books,) = counts.to_pylist()
    assert (books["outcome"], books["row"], json.loads(books["detail"])["published"]) == ("counts", None, 3)


def test_call_without_rows_outputs_only_the_books() -> None:
    (counts,) = output_tables(Outcome([], [], "{}"), 0, output_schema(PLAN, ROWS.schema))
    assert counts["outcome"].to_pylist() == ["counts"]
