"""castleguard on Spark data frames: a batch and an endless stream.

Run it with `python frames.py IN OUT`. IN is a folder of Parquet files with hospital visits; if it is missing, made-up
visits are written there. OUT gets the output of the batch and of the stream, and the checkpoint of the stream.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import castleguard as cg
from castleguard.config.schema_file import load_schema
from castleguard.spark import anonymise
from castleguard.spark.committed import committed
from castleguard.testing.streams import visits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = load_schema(Path(__file__).parents[1] / "visits" / "schema.yaml")
POLICY = cg.Castle(k=10, l=3, delay=500, max_wait=5)
SHARDS = 4


def make_session() -> "SparkSession":
    """A session with the settings that shards need."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the same packages
    settings = {
        "spark.sql.shuffle.partitions": SHARDS,
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "3",  # old state has raw rows and keys
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.appName("visits")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def publish_batch(spark: "SparkSession", source: str, target: str) -> None:
    """Publish all present rows, once."""
    frame = spark.read.parquet(source)
    out = anonymise(frame, SCHEMA, POLICY, shards=SHARDS)
    out.write.partitionBy("outcome").parquet(target)


def publish_stream(spark: "SparkSession", source: str, target: str, checkpoint: str, every: str = "5 seconds") -> Any:
    """Publish present and future rows until the query is stopped."""
    kind = spark.read.parquet(source).schema
    frame = spark.readStream.schema(kind).option("maxFilesPerTrigger", 20).parquet(source)
    out = anonymise(frame, SCHEMA, POLICY, shards=SHARDS)
    return (
        out.writeStream.format("parquet")
        .partitionBy("outcome")
        .option("path", target)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=every)
        .start()
    )


def published_rows(target: str) -> int:
    """Count the rows of committed files, which are the ones for readers."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in committed(target))


def write_visits(folder: str, files: int = 4, rows: int = 2_000) -> None:
    """Made-up visits as Parquet files."""
    Path(folder).mkdir(parents=True)
    for number, table in enumerate(visits(files * rows, seed=1, batch_rows=rows, flaws=0.01)):
        pq.write_table(table, Path(folder) / f"visits-{number:05}.parquet")


def main(source: str, target: str) -> None:
    """Publish the same visits in both ways. Publish real data once: two releases are two chances."""
    if not Path(source).exists():
        write_visits(source)
    spark = make_session()
    publish_batch(spark, source, f"{target}/batch")
    print(f"batch: {published_rows(f'{target}/batch'):,} rows published")
    query = publish_stream(spark, source, f"{target}/stream", f"{target}/checkpoint")
    query.awaitTermination(60)
    query.stop()
    print(f"stream: {published_rows(f'{target}/stream'):,} rows published")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python frames.py IN OUT")
    main(*sys.argv[1:])
