"""The Spark example runs, and the guide shows it unchanged."""

import json
import re
import runpy
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from castleguard.jobs.load import load
from castleguard.runtime.stopping import Stop
from castleguard.spark.committed import committed
from castleguard.spark.spark_job import follow_query, prepare, start
from tests.integration.spark.conftest import SHARDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from castleguard.spark.query_progress import Batch

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "spark"
GUIDE = ROOT / "docs" / "guides" / "spark.md"
SHOWN = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROWS = 4_000

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_python_code_of_the_guide_equals_the_example() -> None:
    program = (EXAMPLE / "frames.py").read_text(encoding="utf-8")
    shown = [text for language, text in SHOWN.findall(GUIDE.read_text(encoding="utf-8")) if language == "py"]
    assert len(shown) >= 4
    for text in shown:
        assert text in program


def test_example_job_can_run_in_spark(tmp_path: Path) -> None:
    prepared = prepare(load(_copied(tmp_path)))
    assert prepared.streaming
    assert prepared.plan.shards == SHARDS
    assert "4 shards" in prepared.guarantee.promise


@pytest.mark.slow
@pytest.mark.compiled
def test_example_job_publishes_every_publishable_row(spark: "SparkSession", tmp_path: Path) -> None:
    path = _copied(tmp_path)
    path.write_text(path.read_text().replace("max_wait: 20s", "max_wait: 1s").replace("every: 5s", "every: 200ms"))
    prepared = prepare(load(path))
    batches: list[Batch] = []
    query = start(spark, prepared)
    assert follow_query(query, prepared, batches.append, stop=Stop(), until_idle=True) == "idle"
    assert sum(batch.rows for batch in batches) == ROWS
    assert batches[-1].pending == 0
    assert 0 < sum(batch.rejected for batch in batches) < 0.02 * ROWS
    assert 0.95 * ROWS < sum(batch.published for batch in batches) < ROWS


@pytest.mark.compiled
def test_frames_of_the_example_are_published(spark: "SparkSession", tmp_path: Path) -> None:
    example: Any = runpy.run_path(str(EXAMPLE / "frames.py"))
    assert example["SHARDS"] == SHARDS
    source, out = str(tmp_path / "in"), str(tmp_path / "stream")
    example["write_visits"](source, 2, ROWS // 2)
    example["publish_batch"](spark, source, str(tmp_path / "batch"))
    assert 0.95 * ROWS < example["published_rows"](str(tmp_path / "batch")) < ROWS
    query = example["publish_stream"](spark, source, out, str(tmp_path / "state"), "200 milliseconds")
    while not _is_dry(spark, out):
        assert query.isActive
        time.sleep(0.5)
    query.stop()
    published = example["published_rows"](out)
    assert 0.95 * ROWS < published < ROWS
    assert spark.read.parquet(out).where("outcome = 'published'").count() == published


def _copied(folder: Path) -> Path:
    """Copy the job to a folder with two input files."""
    shutil.copytree(EXAMPLE, folder / "spark", ignore=shutil.ignore_patterns("incoming", "out", "state"))
    shutil.copytree(ROOT / "examples" / "visits", folder / "visits")
    runpy.run_path(str(EXAMPLE / "feed.py"))["main"](str(folder / "spark" / "incoming"), 2, 0)
    return folder / "spark" / "job.yaml"


def _is_dry(spark: "SparkSession", folder: str) -> bool:
    """Whether the books show no pending rows, read as in the guide."""
    if not (Path(folder) / "_spark_metadata").is_dir() or not committed(folder, "counts"):
        return False
    (query,) = [text for language, text in SHOWN.findall(GUIDE.read_text(encoding="utf-8")) if language == "sql"]
    spark.read.parquet(folder).createOrReplaceTempView("out")
    books = [json.loads(row["books"]) for row in spark.sql(query).collect()]
    came = sum(entry["rows_in"] + entry["waiting"] for entry in books)
    return came == ROWS and not any(entry["pending"] + entry["waiting"] for entry in books)
