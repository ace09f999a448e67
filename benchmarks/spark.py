"""Cost of anonymising in Spark, beside jobs that only copy rows through the same operator with as much state.

    python -m benchmarks.spark --rows 4000000 --shards 4

Three streams from files to files in one session, alternating, each from its first micro-batch to its last:

    anonymise    castleguard.spark
    copy         the same way, blobs included, with a shard that passes its rows through and keeps as much state
    copy-frames  written by hand: rows go through the operator as pandas data frames

The rate is rows per second of the micro-batches that have rows, without the first two: there Spark and the workers
start up. Wall time, on as many cores as `--master` has.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import castleguard as cg
from castleguard.judge.verify.structure import verify
from castleguard.shards.plan import Plan
from castleguard.shards.routing import HashRoute
from castleguard.shards.shard import Shard
from castleguard.spark import anonymise
from castleguard.spark.blobs import LABEL, ROWS, labels_of, part, unpack
from castleguard.spark.committed import committed
from castleguard.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = 6
WARM_UP = 2
IDLE = 3
MAX_WAIT = 5.0


class Rate(NamedTuple):
    """One stream, measured."""

    job: str
    rows_per_second: float
    batch_seconds: float
    idle_seconds: float
    """Duration of an empty micro-batch."""
    state_bytes: int
    """Bytes of one shard as Spark stores it in a micro-batch: compressed."""


def schema() -> cg.Schema:
    """Six numbers, a sensitive value, and the row number that identifies a row."""
    numbers = [cg.Numeric(f"x{at}", lower=0, upper=100) for at in range(COLUMNS)]
    return cg.Schema(person="pid", quasi_identifiers=numbers, sensitive=["s"], public=["row"])


def make_rows(chance: np.random.Generator, first: int, size: int, persons: int) -> pa.Table:
    """Rows numbered from `first` on."""
    columns: dict[str, Any] = {f"x{at}": chance.normal(50, 15, size).round(2) for at in range(COLUMNS)}
    columns["pid"] = chance.integers(0, persons, size)
    columns["s"] = pa.array(chance.choice(["a", "b", "c", "d"], size))
    columns["row"] = np.arange(first, first + size)
    return pa.table(columns)


def write_rows(folder: Path, rows: int, files: int) -> None:
    """Rows of persons that occur twice on average."""
    chance = np.random.default_rng(1)
    folder.mkdir()
    size = rows // files
    for number in range(files):
        table = make_rows(chance, number * size, size, rows // 2)
        pq.write_table(table, folder / f"{number:04}.parquet")


def usual_state(plan: Plan) -> bytes:
    """State of a full shard: the same bytes for the copies, because Spark compresses them."""
    shard = Shard(plan, 0, key=bytes(32), kept=True)
    rows = 3 * plan.policy.delay + 1 if isinstance(plan.policy, cg.Castle) else 1
    shard.take(make_rows(np.random.default_rng(2), 0, rows, rows), 0.0)
    return shard.snapshot()


def _keeping(state: bytes, *, blobs: bool) -> Any:
    """A shard that passes rows through, and reads and writes this state."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Copy(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("copy", "state binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            if self._state.exists():
                self._state.get()
            for frame in rows:
                yield frame[[ROWS]] if blobs else frame.drop(columns=LABEL)
            self._state.update((state,))

        def close(self) -> None:
            pass

    return Copy()


def copied(frame: "DataFrame", plan: Plan, state: bytes, *, blobs: bool) -> "DataFrame":
    """The frame through the operator, unchanged."""
    chosen = frame.select(*plan.columns)
    labels, route = labels_of(plan.shards), plan.route
    if blobs:

        def parted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from part(batches, route, labels)

        processor = _keeping(state, blobs=True)
        through = chosen.mapInArrow(parted, f"{LABEL} int, {ROWS} binary").groupBy(LABEL)
        out = through.transformWithStateInPandas(processor, f"{ROWS} binary", "append", "processingTime")
        return out.mapInArrow(unpack, chosen.schema)

    def labelled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shards = route.shard_of(pa.Table.from_batches([batch]))
            numbers = pa.array(np.array(labels, dtype=np.int32)[shards])
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], names=[LABEL, *batch.schema.names])

    given = ", ".join([f"{LABEL} int", *(f"{field.name} {field.dataType.simpleString()}" for field in chosen.schema)])
    processor = _keeping(state, blobs=False)
    grouped = chosen.mapInArrow(labelled, given).groupBy(LABEL)
    return grouped.transformWithStateInPandas(processor, chosen.schema, "append", "processingTime")


def measure(spark: "SparkSession", job: str, make: "Callable[[DataFrame], DataFrame]", folder: Path, per: int) -> Rate:
    """Run one stream until a few micro-batches have brought nothing."""
    source = folder / "in"
    kind = spark.read.parquet(str(source)).schema
    frame = spark.readStream.schema(kind).option("maxFilesPerTrigger", per).parquet(str(source))
    writer = make(frame).writeStream.format("parquet").option("path", str(folder / job / "out"))
    if job == "anonymise":
        writer = writer.partitionBy("outcome")
    query = writer.option("checkpointLocation", str(folder / job / "state")).trigger(processingTime="0 seconds").start()
    seen: dict[int, dict[str, Any]] = {}
    quiet_since: float | None = None
    while quiet_since is None or time.monotonic() < quiet_since + MAX_WAIT + IDLE:
        query.awaitTermination(1)
        seen.update({entry["batchId"]: entry for entry in query.recentProgress})
        latest = seen[max(seen)] if seen else None
        if latest is not None and len(seen) > WARM_UP and latest["numInputRows"] == 0:
            quiet_since = quiet_since or time.monotonic()
        else:
            quiet_since = None
    query.stop()
    full = [entry for number, entry in sorted(seen.items()) if entry["numInputRows"]][WARM_UP:]
    idle = [entry["durationMs"]["triggerExecution"] / 1000 for entry in seen.values() if not entry["numInputRows"]]
    seconds = [entry["durationMs"]["triggerExecution"] / 1000 for entry in full]
    rows = sum(entry["numInputRows"] for entry in full)
    size = state_size(folder / job / "state")
    return Rate(job, rows / sum(seconds), statistics.median(seconds), statistics.median(idle), size)


def state_size(state: Path) -> int:
    """Stored bytes of one shard per change: the whole state every time, since it is one value. Changes of micro-batches
    without rows are almost empty."""
    sizes = [size for path in state.rglob("*.changelog") if (size := path.stat().st_size) > 4096]
    return int(statistics.median(sizes)) if sizes else 0


def verified(folder: Path, k: int) -> str:
    """Compare the published rows with the input rows."""
    original = pq.read_table(folder / "in")
    tables = [pq.read_table(path, partitioning=None) for path in committed(folder / "anonymise" / "out")]
    whole = pa.concat_tables(tables).drop_columns(["shard", "place", "detail"])
    books = [
        json.loads(row["detail"])
        for path in committed(folder / "anonymise" / "out", "counts")
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    verdict = verify(whole, original, schema(), k=k, link="row")
    waits = max(entry["oldest_wait"] for entry in books)
    left_out = original.num_rows - whole.num_rows
    return f"{verdict.sentence}; {left_out:,} rows suppressed; longest wait {waits:,} arrivals of a shard"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batches", type=int, default=8, help="micro-batches that the rows come in")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--delay", type=int, default=10_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    policy = cg.Castle(k=options.k, delay=options.delay, max_wait=MAX_WAIT)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    plan = Plan(schema=schema(), policy=policy, route=HashRoute(schema(), options.shards))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "in", options.rows, options.batches * 2)
        spark = session({"spark.driver.memory": "4g"}, options.shards, master=options.master)
        ours = measure(
            spark, "anonymise", lambda frame: anonymise(frame, schema(), policy, shards=options.shards), folder, 2
        )
        state = usual_state(plan)
        rates = [
            ours,
            measure(spark, "copy", lambda frame: copied(frame, plan, state, blobs=True), folder, 2),
            measure(spark, "copy-frames", lambda frame: copied(frame, plan, state, blobs=False), folder, 2),
        ]
        for rate in rates:
            print(
                f"{rate.job:12} {rate.rows_per_second:10,.0f} rows/s  {rate.batch_seconds:6.2f} s a micro-batch, "
                f"{rate.idle_seconds:5.2f} s idle, {rate.state_bytes / 1e6:4.1f} MB of state a shard; "
                f"anonymise is {ours.rows_per_second / rate.rows_per_second:.2f} of it"
            )
        print(verified(folder, options.k))
        spark.stop()
    if options.json:
        options.json.write_text(json.dumps([rate._asdict() for rate in rates], indent=2) + "\n")


if __name__ == "__main__":
    main()
