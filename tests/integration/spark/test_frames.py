"""Frames in Spark: verified output, equal to one engine for one shard, and deterministic replay."""

import datetime as dt
import decimal
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import castleguard as cg
from castleguard.connectors.formulas import SIGNS, escape
from castleguard.errors import PolicyError, UsageError
from castleguard.shards.plan import Plan
from castleguard.shards.routing import HashRoute
from castleguard.spark import anonymise, operator, run_plan
from castleguard.spark.frames import without_formulas
from tests.integration.spark.conftest import SHARDS
from tests.integration.spark.visits import (
    BAD,
    DELAY,
    SCHEMA,
    K,
    L,
    check_all,
    last_books,
    make_visits,
    published_columns,
    read_committed,
    write_parts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.integration,
    pytest.mark.compiled,
    # Raised by pyspark's own conversions, which the tests use to read results.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

POLICY = cg.Castle(k=K, l=L, delay=DELAY, max_wait=2)


def test_output_of_a_batch_frame_is_verified_for_both_routes(spark: "SparkSession", tmp_path: Path) -> None:
    visits = make_visits(12_000)
    write_parts(visits, tmp_path / "in", 3)
    frame = spark.read.parquet(str(tmp_path / "in"))
    for route in ("hash", "locality"):
        folder = tmp_path / route
        out = anonymise(frame, SCHEMA, POLICY, shards=SHARDS, route=route)
        out.write.partitionBy("outcome").parquet(str(folder))
        books = last_books(read_committed(folder, "counts"))
        assert len(books) == SHARDS
        check_all(visits, read_committed(folder), books)


def test_output_of_a_batch_frame_is_verified_for_citadel(spark: "SparkSession", tmp_path: Path) -> None:
    visits = make_visits(6_000)
    write_parts(visits, tmp_path / "in", 2)
    frame = spark.read.parquet(str(tmp_path / "in"))
    out = anonymise(frame, SCHEMA, cg.Citadel(k=K, l=L, delay=DELAY), shards=SHARDS)
    out.write.partitionBy("outcome").parquet(str(tmp_path / "out"))
    check_all(visits, read_committed(tmp_path / "out"), last_books(read_committed(tmp_path / "out", "counts")))


def test_one_shard_publishes_the_same_as_one_engine(spark: "SparkSession", tmp_path: Path) -> None:
    visits = make_visits(6_000)
    write_parts(visits, tmp_path / "in", 3)
    frame = spark.read.parquet(str(tmp_path / "in"))
    plan = Plan(schema=SCHEMA, policy=POLICY, route=HashRoute(SCHEMA, 1), position=("at",), seed=9)
    out = run_plan(frame, plan).where("outcome = 'published'")
    alone = cg.anonymise(visits, SCHEMA, POLICY, seed=9)
    assert out.drop("outcome", "shard", "place", "detail").toArrow().cast(alone.schema).equals(alone)


def test_rejected_row_shows_its_place_and_never_its_values(spark: "SparkSession", tmp_path: Path) -> None:
    visits = make_visits(1_000)
    write_parts(visits, tmp_path / "in", 1)
    frame = spark.read.parquet(str(tmp_path / "in"))
    out = anonymise(frame, SCHEMA, POLICY, position=["at"]).where("outcome = 'rejected'").toArrow()
    assert out["detail"].unique().to_pylist() == ["age: null"]
    assert sorted(out["place"].to_pylist()) == sorted(f'{{"at": {at}}}' for at in range(3, 1_000, BAD))
    assert all(
        column.null_count == len(column)
        for name, column in zip(out.column_names, out.columns, strict=True)
        if name not in ("outcome", "shard", "place", "detail")
    )


def test_output_of_a_stream_is_verified_and_a_replayed_batch_gives_the_same_rows(
    spark: "SparkSession", tmp_path: Path
) -> None:
    # The input of the batch to be replayed must still exist then.
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "100")
    for files in (3, 9, 27):  # enough files that a slow poll does not find all of them read
        folder, visits = tmp_path / str(files), make_visits(2_000 * (files + 1))
        write_parts(visits.slice(0, 2_000 * files), folder / "in", files)
        _wait(_start(spark, folder), lambda folder=folder: _rows_in(folder / "out") >= 4_000)  # type: ignore[misc]
        if _rows_in(folder / "out") < 2_000 * files:
            break
    else:
        pytest.fail("it has always read everything before it could be stopped: the next batch has no rows")
    _copy(folder, folder / "before")
    write_parts(visits.slice(2_000 * files), folder / "more", 1)
    (folder / "more" / "part-000.parquet").rename(folder / "in" / f"part-{files:03d}.parquet")
    second = _start(spark, folder)
    _wait(second, lambda: _rows_in(folder / "out") == visits.num_rows and not _pending(folder / "out"))
    check_all(visits, read_committed(folder / "out"), last_books(read_committed(folder / "out", "counts")))

    # As after a kill during the next batch: Spark knows its input, and replays it.
    next_batch = 1 + max(int(path.name) for path in (folder / "before" / "state" / "commits").glob("[0-9]*"))
    for log in ("offsets", "sources/0", "sources/1"):
        for path in (folder / "state" / log).glob("*[0-9]*"):
            if log != "offsets" or path.name in (str(next_batch), f".{next_batch}.crc"):
                shutil.copy(path, folder / "before" / "state" / log)
    assert (folder / "before" / "state" / "offsets" / str(next_batch)).exists()
    again = _start(spark, folder / "before", source=folder)
    _wait(again, (folder / "before" / "out" / "_spark_metadata" / str(next_batch)).exists)
    repeated = _rows_of_batch(folder / "before" / "out", next_batch)
    assert repeated.num_rows > 1_000
    assert repeated.to_pylist() == _rows_of_batch(folder / "out", next_batch).to_pylist()


def test_rows_leave_after_max_wait_even_if_none_arrive_after_a_restart(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark runs no micro-batch after a restart without new data: the heartbeat provides it."""
    for max_wait in (12, 48, 192):  # on a slow machine all rows leave before the query is stopped
        folder, policy = tmp_path / str(max_wait), replace(POLICY, max_wait=max_wait)
        write_parts(make_visits(3_000), folder / "in", 3)
        started = _start(spark, folder, policy=policy)
        _wait(started, lambda folder=folder: _rows_in(folder / "out") == 3_000)  # type: ignore[misc]
        if _pending(folder / "out"):
            break
    else:
        pytest.fail("rows have always left before the query was stopped: a restart has nothing to show")
    _wait(_start(spark, folder, policy=policy), lambda: _pending(folder / "out") == 0)


def test_stream_without_max_wait_is_refused_before_it_starts(spark: "SparkSession", tmp_path: Path) -> None:
    write_parts(make_visits(10), tmp_path / "in", 1)
    frame = _stream(spark, tmp_path)
    with pytest.raises(PolicyError, match="a stream needs max_wait"):
        anonymise(frame, SCHEMA, cg.Castle(k=K, delay=DELAY), shards=SHARDS)


def test_plan_too_large_for_spark_is_refused_before_it_starts(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(make_visits(10), tmp_path / "in", 1)
    monkeypatch.setattr(operator, "_CODE_BYTES", 1 << 30)
    with pytest.raises(UsageError, match=r"set spark\.broadcast\.UDFCompressionThreshold"):
        anonymise(_stream(spark, tmp_path), SCHEMA, POLICY, shards=SHARDS)


def _stream(spark: "SparkSession", folder: Path) -> "DataFrame":
    kind = spark.read.parquet(str(folder / "in")).schema
    return spark.readStream.schema(kind).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def _start(
    spark: "SparkSession", folder: Path, *, source: Path | None = None, policy: cg.Castle = POLICY
) -> "StreamingQuery":
    out = anonymise(_stream(spark, source or folder), SCHEMA, policy, shards=SHARDS)
    writer = out.writeStream.format("parquet").partitionBy("outcome").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "state")).trigger(processingTime="200 milliseconds").start()


def _wait(query: "StreamingQuery", done: Callable[[], bool]) -> None:
    """Run the query until a condition holds, then stop it; the timeout of the test bounds the wait."""
    while not done():
        query.awaitTermination(1)
        assert query.isActive
    query.stop()


def _copy(folder: Path, to: Path) -> None:
    """Copy the committed state and output."""
    for name in ("state", "out"):
        shutil.copytree(folder / name, to / name)


def _books(folder: Path) -> list[dict[str, Any]]:
    return last_books(read_committed(folder, "counts")) if (folder / "_spark_metadata").exists() else []


def _rows_in(folder: Path) -> int:
    return sum(entry["rows_in"] for entry in _books(folder))


def _pending(folder: Path) -> int:
    return sum(entry["pending"] + entry["waiting"] for entry in _books(folder))


def _rows_of_batch(folder: Path, number: int) -> pa.Table:
    """Return the rows of a batch, regardless of file names."""
    lines = (folder / "_spark_metadata" / str(number)).read_text().splitlines()[1:]
    paths = [urlsplit(json.loads(line)["path"]).path for line in lines]
    kept = [path for path in paths if "outcome=published" in path]
    tables = [published_columns(pq.read_table(path, partitioning=None)) for path in kept]
    return pa.concat_tables(sorted(tables, key=lambda table: table["row"][0].as_py()))


def test_spark_escapes_formulas_like_the_sinks(spark: "SparkSession", tmp_path: Path) -> None:
    texts = [
        "".join(part)
        for part in product(("", "'", "''", " ", "\u00a0", "\t", "\n"), ("x", "-5", *SIGNS), ("", "1", "x"))
    ]
    frame = spark.createDataFrame([(text, -5) for text in [*texts, None]], "`=name.x` string, number long")
    found = without_formulas(frame).toArrow()
    assert found.column_names == ["'=name.x", "number"]
    assert found["number"].to_pylist() == [-5] * (len(texts) + 1)
    assert found["'=name.x"].to_pylist() == [*escape(pa.array(texts)).to_pylist(), None]


def test_names_with_dots_and_times_with_zones_are_preserved(spark: "SparkSession") -> None:
    schema = cg.Schema(
        person="p.id",
        quasi_identifiers=[cg.Numeric("a.ge", lower=0, upper=100, step=5)],
        public=["when", "amount", "tags"],
    )
    rows = [
        (2**60 + at, float(at % 90), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), decimal.Decimal("1.50"), ["a", "b"], at)
        for at in range(40)
    ]
    kind = "`p.id` long, `a.ge` double, when timestamp, amount decimal(10,2), tags array<string>, at long"
    out = anonymise(spark.createDataFrame(rows, kind), schema, cg.Castle(k=2, delay=10), position=["at"])
    published = out.where("outcome = 'published'").toArrow().to_pylist()
    assert len(published) == 40
    assert {row["when"].timestamp() for row in published} == {1767225600.0}
    assert {(str(row["amount"]), *row["tags"]) for row in published} == {("1.50", "a", "b")}
    assert {row["shard"] for row in published} == {None}
