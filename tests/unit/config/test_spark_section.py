"""Jobs for Spark: what their file may say, and what is said of one that Spark could not honour."""

from pathlib import Path

import pytest

from castleguard.config.job_model import JobFile
from castleguard.config.spark_section import Spark, check_settings, fixed_settings
from castleguard.errors import ConfigError
from castleguard.jobs.load import Connectors
from tests.unit.config import test_job_file
from tests.unit.config.test_job_file import SCHEMA

SOURCE = "source: {type: csv, path: in/, follow: true}\n"
SINK = "sink: {type: parquet, path: out/}\n"
PRIVACY = "privacy: {algorithm: castle, k: 10, delay: 100, max_wait: 30s}\n"
CHECKPOINT = "checkpoint: {path: state/}\n"
SPARK = "spark: {shards: 4}\n"


def load(folder: Path, text: str) -> JobFile:
    return test_job_file.load(folder, text, Connectors())


def problems(folder: Path, text: str) -> list[str]:
    """The lines of the error, without the file and its lines."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return [line.partition("  ")[2] for line in str(caught.value).splitlines()]


def job(
    *, source: str = SOURCE, sink: str = SINK, checkpoint: str = CHECKPOINT, spark: str = SPARK, more: str = ""
) -> str:
    return source + SCHEMA + PRIVACY + sink + checkpoint + spark + more


def test_a_section_is_read_with_its_defaults(tmp_path: Path) -> None:
    found = load(tmp_path, job())
    assert found.spark == Spark(shards=4)
    assert found.spark.route == "hash"
    assert found.spark.position is None
    assert found.source.never_ends


def test_every_key_is_read(tmp_path: Path) -> None:
    keys = "shards: 2, route: locality, cuts: cuts.json, position: [at], max_files: 3"
    settings = "settings: {spark.executor.memory: 4g, spark.ui.enabled: true, spark.executor.cores: 2}"
    found = load(tmp_path, job(spark=f"spark: {{{keys}, {settings}}}\n")).spark
    assert found is not None
    assert (found.shards, found.route, found.cuts) == (2, "locality", tmp_path / "cuts.json")
    assert (found.position, found.max_files, found.max_offsets) == (("at",), 3, None)
    assert found.plain_settings() == {
        "spark.executor.memory": "4g",
        "spark.ui.enabled": "true",
        "spark.executor.cores": "2",
    }


def test_a_job_without_the_section_has_none(tmp_path: Path) -> None:
    assert load(tmp_path, job(spark="")).spark is None


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{}", "spark.shards is missing"),
        ("{shards: 0}", "spark.shards must be at least 1, got 0"),
        ("{shards: 2, shard: 3}", "spark.shard is not a known key; did you mean shards?"),
        ("{shards: 2, route: random}", "spark.route must be 'hash' or 'locality', got 'random'"),
        ("{shards: 2, cuts: c.json}", "spark.cuts needs route: locality; the route hash has no cut points"),
        ("{shards: 2, max_files: 0}", "spark.max_files must be at least 1, got 0"),
        ("{shards: 2, position: [at, at]}", "spark.position names a column twice"),
        ("4", "spark must be a mapping; delete the key if you do not need it"),
    ],
)
def test_a_mistake_in_the_section_is_reported(tmp_path: Path, section: str, said: str) -> None:
    assert problems(tmp_path, job(spark=f"spark: {section}\n")) == [said]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("spark.speculation: true", "spark.settings must have spark.speculation: false"),
        ("spark.sql.session.timeZone: CET", "must have spark.sql.session.timeZone: UTC"),
        ("spark.sql.shuffle.partitions: 200", "set spark.shards instead"),
        ("spark.sql.streaming.checkpointLocation: x", "set checkpoint.path instead"),
        ("spark.sql.streaming.noDataMicroBatches.enabled: false", "max_wait must expire while no rows arrive"),
        ("spark.sql.streaming.stateStore.providerClass: Mine", "only this store supports the state of shards"),
        ("spark.sql.files.ignoreCorruptFiles: true", "rows would be skipped silently"),
        ("spark.sql.streaming.commitProtocolClass: Mine", "committed files could no longer be identified"),
        ("spark.sql.parquet.outputTimestampType: INT96", "times must be written as they are read"),
        ("spark.sql.legacy.timeParserPolicy: LEGACY", "times must keep all their digits"),
        ("spark.sql.legacy.charVarcharAsString: true", "may write two values as one"),
        ("executor.memory: 4g", "must have names that begin with spark., got 'executor.memory'"),
    ],
)
def test_a_setting_that_would_break_a_promise_is_refused(tmp_path: Path, setting: str, said: str) -> None:
    (line,) = problems(tmp_path, job(spark=f"spark: {{shards: 4, settings: {{{setting}}}}}\n"))
    assert said in line


def test_a_setting_with_its_fixed_value_is_accepted() -> None:
    check_settings({**fixed_settings(), "spark.sql.shuffle.partitions": 4, "spark.speculation": False}, 4)
    with pytest.raises(ConfigError, match=r"spark\.shards"):
        check_settings({"spark.sql.shuffle.partitions": 4}, 3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("dead_letter: {path: r.jsonl}\n", "dead_letter is not supported in Spark: rejected rows are in the output"),
        ("metrics: {port: 0}\n", "metrics is not supported in Spark, which has its own metrics"),
    ],
)
def test_sections_that_spark_cannot_honour_are_refused(tmp_path: Path, more: str, said: str) -> None:
    (line,) = problems(tmp_path, job(more=more))
    assert line.startswith(said)


def test_a_key_of_the_checkpoint_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, job(checkpoint='checkpoint: {path: state, key: "${KEY}"}\n'))
    assert line.startswith("checkpoint.key cannot be used: Spark does not encrypt its state")
    assert line.endswith("put checkpoint.path and spark.local.dir on an encrypted volume")


def test_a_stream_needs_a_checkpoint_and_a_batch_does_not(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, job(checkpoint=""))
    assert line.startswith("checkpoint is missing: a stream in Spark keeps its state in a folder")
    batch = load(tmp_path, job(source="source: {type: csv, path: in/}\n", checkpoint=""))
    assert batch.checkpoint is None
    assert not batch.source.never_ends


def test_a_limit_of_a_micro_batch_is_refused_where_there_is_none(tmp_path: Path) -> None:
    text = job(source="source: {type: csv, path: in/}\n", spark="spark: {shards: 2, max_files: 3}\n")
    assert problems(tmp_path, text) == ["spark.max_files applies to streams only: a source that ends is one batch"]


def test_a_limit_that_another_kind_of_source_has_is_refused(tmp_path: Path) -> None:
    text = job(spark="spark: {shards: 2, max_offsets: 9}\n")
    (said,) = problems(tmp_path, text)
    assert said.startswith("spark.max_offsets has no effect on a source of type csv")
    assert said.endswith("use max_files")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            "source: {type: stdio, format: csv}\n",
            "source.type cannot be stdio in Spark: use csv, jsonl, parquet or kafka",
        ),
        ("sink: {type: arrow, path: out}\n", "sink.type cannot be arrow in Spark: use csv, jsonl, parquet or kafka"),
        ("sink: {type: csv, path: out.csv}\n", "sink.path must be a folder in Spark, such as out/"),
        (
            'source: {type: kafka, brokers: "b:1", topic: t, group: g}\n',
            "source.group cannot be used in Spark: Spark keeps its offsets in the checkpoint, not in a consumer group",
        ),
        (
            'sink: {type: kafka, brokers: "b:1", topic: t, format: csv}\n',
            "sink.format must be json in Spark",
        ),
    ],
)
def test_a_source_or_sink_that_spark_cannot_serve_is_refused_by_name(tmp_path: Path, section: str, said: str) -> None:
    key = section.partition(":")[0]
    assert problems(tmp_path, job(**{key: section})) == [said]
