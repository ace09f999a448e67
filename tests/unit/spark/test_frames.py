"""Types, options and files for Spark. No Spark is started here."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.config.job_model import JobFile
from castleguard.connectors.kafka.kafka_options import KafkaSourceOptions, Sasl, Tls
from castleguard.errors import InputError, SchemaError, UsageError
from castleguard.jobs.load import load
from castleguard.spark.frames import (
    changed_inputs,
    check_kafka,
    inputs_of,
    kafka_options,
    reading_of,
    spark_type,
    text_options,
)
from castleguard.spark.reading import FileRead, MessageRead

JOB = """
source: {source}
schema:
  person: pid
  quasi_identifiers: [{{name: age, lower: 0, upper: 100, step: 5}}]
privacy: {{algorithm: castle, k: 5, delay: 100, max_wait: 10s}}
sink: {{type: {sink}}}
checkpoint: {{path: state}}
spark: {{shards: 2}}
"""


def job(folder: Path, source: str, sink: str = "parquet, path: out") -> JobFile:
    (folder / "job.yaml").write_text(JOB.format(source=source, sink=sink))
    return load(folder / "job.yaml")


def put(folder: Path, name: str, **columns: pa.Array) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (pa.string(), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.null(), pa.string()),
        (pa.int32(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.string()),  # too large for a number in Spark
        (pa.float16(), pa.float32()),
        (pa.bool_(), pa.bool_()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Europe/Rome"), pa.timestamp("us", tz="UTC")),
        (pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.large_binary(), pa.binary()),
        (pa.time64("us"), pa.string()),
    ],
)
def test_column_gets_a_lossless_type_in_spark(kind: pa.DataType, wanted: pa.DataType) -> None:
    assert spark_type("x", kind) == wanted


def test_column_of_an_unsupported_type_is_named() -> None:
    with pytest.raises(InputError, match="'trip' has type list<item: int64>, which a job cannot read"):
        spark_type("trip", pa.list_(pa.int64()))


def test_text_formats_are_read_as_text_even_from_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    found = reading_of(job(tmp_path, "{type: csv, path: in/, follow: true}"), ("pid", "age"))
    assert isinstance(found, FileRead)
    assert found.columns == pa.schema([("pid", pa.string()), ("age", pa.string())])
    assert (found.folder, found.pattern) == (tmp_path / "in", "*")


def test_stream_of_parquet_has_the_types_of_its_first_file(tmp_path: Path) -> None:
    put(tmp_path, "in/b.parquet", pid=pa.array(["x"]), age=pa.array([1]))
    put(tmp_path, "in/a.parquet", age=pa.array([1], pa.int32()), pid=pa.array([1], pa.uint64()), more=pa.array([1]))
    found = reading_of(job(tmp_path, '{type: parquet, path: "in/*.parquet", follow: true}'), ("pid", "age"))
    assert found.columns == pa.schema([("pid", pa.string()), ("age", pa.int32())])


def test_empty_parquet_folder_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = job(tmp_path, "{type: parquet, path: in/, follow: true}")
    with pytest.raises(InputError, match=r"has no Parquet file yet.*put a file there, which may have no rows"):
        reading_of(stream, ("pid", "age"))
    put(tmp_path, "in/a.parquet", pid=pa.array([1]))
    with pytest.raises(SchemaError, match="has no column 'age'"):
        reading_of(stream, ("pid", "age"))
    (tmp_path / "in" / "a.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="is not a Parquet file"):
        reading_of(stream, ("pid", "age"))


def test_following_a_file_and_reading_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a.csv").write_text("pid,age\n")
    with pytest.raises(InputError, match="is a file and cannot be followed"):
        reading_of(job(tmp_path, "{type: csv, path: a.csv, follow: true}"), ("pid",))
    with pytest.raises(InputError, match="no such file"):
        reading_of(job(tmp_path, "{type: csv, path: in/}"), ("pid",))
    with pytest.raises(InputError, match="no such file or folder"):
        reading_of(job(tmp_path, "{type: csv, path: nowhere/, follow: true}"), ("pid",))


def test_files_of_a_batch_are_identified_by_name_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("pid,age\n")
    status = (tmp_path / "in" / "a.csv").stat()
    found = inputs_of(job(tmp_path, "{type: csv, path: in/}"))
    assert found == (("a.csv", 8, status.st_mtime_ns),)
    assert changed_inputs(tmp_path / "in", found) == []
    (tmp_path / "in" / "b.csv").write_text("pid,age\n")  # arrived later, and is not part of this batch
    assert changed_inputs(tmp_path / "in", found) == []
    os.utime(tmp_path / "in" / "a.csv", ns=(0, status.st_mtime_ns + 1))
    assert changed_inputs(tmp_path / "in", found) == ["a.csv"]
    (tmp_path / "in" / "a.csv").unlink()
    assert changed_inputs(tmp_path / "in", found) == ["a.csv"]


def test_message_options_come_from_the_connector(tmp_path: Path) -> None:
    source = '{type: kafka, brokers: "b:9092", topic: trips, format: csv, columns: [age], key_column: pid}'
    found = reading_of(job(tmp_path, source), ("pid", "age"))
    assert isinstance(found, MessageRead)
    assert (found.format, found.order, found.key_column) == ("csv", ("age",), "pid")


def test_broker_options_come_from_the_job_file() -> None:
    plain = KafkaSourceOptions(brokers="a:1,b:2", topic="t")
    assert kafka_options(plain) == {"kafka.bootstrap.servers": "a:1,b:2", "kafka.security.protocol": "PLAINTEXT"}
    sasl = Sasl(user="ann", password='hush"')
    safe = kafka_options(KafkaSourceOptions(brokers="a:1", topic="t", tls=Tls(ca_file=Path("ca.pem")), sasl=sasl))
    assert safe["kafka.security.protocol"] == "SASL_SSL"
    assert (safe["kafka.ssl.truststore.type"], safe["kafka.ssl.truststore.location"]) == ("PEM", "ca.pem")
    assert safe["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert safe["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="hush\\"";'
    )


def test_spark_without_kafka_names_the_missing_package() -> None:
    class Session:
        version = "4.1.0"

        @property
        def _jvm(self) -> Any:
            raise RuntimeError("java.lang.ClassNotFoundException")

    session: Any = Session()
    with pytest.raises(
        UsageError, match=r"spark\.jars\.packages: org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\.1\.0"
    ):
        check_kafka(session)


def test_distinct_values_are_written_differently(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = "{type: csv, path: in/, follow: true}"
    csv = text_options(job(tmp_path, source, "csv, path: out, gzip: true").sink)
    assert (csv["header"], csv["quote"], csv["escape"], csv["compression"]) == ("true", '"', '"', "gzip")
    assert (csv["nullValue"], csv["emptyValue"]) == ("", '""')
    assert {csv["ignoreLeadingWhiteSpace"], csv["ignoreTrailingWhiteSpace"]} == {"false"}
    assert "SSSSSS" in csv["timestampFormat"]
    jsonl = text_options(job(tmp_path, source, "jsonl, path: out").sink)
    assert jsonl["compression"] == "none"
    assert "header" not in jsonl
    assert jsonl["encoding"] == csv["encoding"] == "UTF-8"
    assert text_options(job(tmp_path, source).sink) == {}
