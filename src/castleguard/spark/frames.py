"""Sources and sinks of a job as Spark frames and writers."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.column_checks import require_columns
from castleguard.connectors.csv_input import csv_input_of
from castleguard.connectors.formulas import ESCAPABLE, ESCAPABLE_NUMBER, escape_names
from castleguard.connectors.listing import Listing, list_files
from castleguard.errors import InputError, UsageError
from castleguard.spark.output import DETAIL, OUTCOME, OWN, PLACE, PUBLISHED, REJECTED
from castleguard.spark.reading import BAD, MALFORMED, PLACES, ROW, FileRead, MessageRead

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
FORMATS = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}

_FILES = "path string, modificationTime timestamp, length long, content binary"
_FOR_EVER = "36500d"  # by default Spark skips files that are a week older than the newest
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "dateFormat": "yyyy-MM-dd",
}
# Every option that affects how values are written is explicit: distinct values must not be written as the same text.
_TEXT = {**_TIMES, "encoding": "UTF-8", "lineSep": "\n"}
_CSV = {
    "header": "true",
    "sep": ",",
    "quote": '"',
    "escape": '"',
    "escapeQuotes": "true",
    "quoteAll": "false",
    "nullValue": "",
    "emptyValue": '""',
    "ignoreLeadingWhiteSpace": "false",  # by default Spark's writer strips spaces and control characters
    "ignoreTrailingWhiteSpace": "false",
}
_SPECIAL = re.compile(r"([*?\[\]{}\\])")
_SMALL = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.float16(): pa.float32()}

Reading = FileRead | MessageRead
Inputs = tuple[tuple[str, int, int], ...]
"""Files: name, size and modification time."""


def reading_of(job: JobFile, columns: tuple[str, ...]) -> Reading:
    """Return how the source is read. Raises InputError, UnavailableError, SchemaError."""
    options = job.source.options
    if job.source.type == "kafka":
        types = pa.schema([(name, pa.string()) for name in columns])
        return MessageRead(
            format=options.format,
            columns=types,
            order=tuple(options.columns),
            key_column=options.key_column,
            fields=options.fields,
        )
    listing = _listing(job.source)
    return FileRead(
        format=job.source.type,  # type: ignore[arg-type]  # the section refuses every other type
        folder=Path(os.path.abspath(listing.folder)),
        pattern=listing.pattern,
        columns=_types(job.source.type, listing, columns),
        batch_rows=options.batch_rows,
        csv=csv_input_of(options),
        fields=getattr(options, "fields", None),
    )


def _listing(source: Endpoint) -> Listing:
    listing = list_files(source.options.path)
    if source.options.follow and not listing.several:
        raise InputError(f"{source.options.path} is a file and cannot be followed: use its folder, or a pattern")
    if not source.options.follow and not listing.names():
        raise InputError(f"{source.options.path} cannot be read: no such file")
    return listing


def inputs_of(job: JobFile) -> Inputs:
    """Return the files of a finite source: name, size and modification time."""
    listing = _listing(job.source)
    return tuple(_stat(listing.folder, name) for name in listing.names())


def changed_inputs(folder: Path, inputs: Inputs) -> list[str]:
    """Return the names of files that have changed or are gone."""
    found = []
    for before in inputs:
        try:
            same = _stat(folder, before[0]) == before
        except OSError:
            same = False
        if not same:
            found.append(before[0])
    return found


def _stat(folder: Path, name: str) -> tuple[str, int, int]:
    status = (folder / name).stat()
    return name, status.st_size, status.st_mtime_ns


def _types(format: str, listing: Listing, columns: tuple[str, ...]) -> pa.Schema:
    """Return the types of the columns: text, or those of the first Parquet file."""
    if format != "parquet":
        return pa.schema([(name, pa.string()) for name in columns])
    first = next(iter(listing.names()), None)
    if first is None:
        raise InputError(
            f"{listing.folder} has no Parquet file yet, and Spark needs the column types before it starts: put a file "
            f"there, which may have no rows"
        )
    path = listing.path(first)
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as exc:
        raise InputError(f"{path} cannot be read: it is not a Parquet file, or it is damaged") from exc
    require_columns(columns, found.names, str(path))
    return pa.schema([(name, spark_type(name, found.field(name).type)) for name in columns])


def spark_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return a lossless type for a column in Spark: text if Spark has no such type. Raises InputError."""
    if pa.types.is_dictionary(kind):
        return spark_type(name, kind.value_type)
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise InputError(f"column {name!r} has type {kind}, which a job cannot read")
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if kind in _SMALL:
        return _SMALL[kind]
    kept = pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind) or pa.types.is_floating(kind)
    return kind if kept or pa.types.is_decimal128(kind) else pa.string()


def place_names(kind: str) -> tuple[str, ...]:
    """Return the columns with the place of a row in this kind of source."""
    return tuple(PLACES["kafka" if kind == "kafka" else "files"].names)


def source_frame(spark: "SparkSession", job: JobFile, reading: Reading, inputs: Inputs) -> "DataFrame":
    """Return the source as a frame: rows with their places, and malformed entries with a reason.

    A finite source has exactly these `inputs`, without files that arrive later.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from castleguard.spark.operator import hiding_values

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with hiding_values():
            yield from reading.rows(batches)

    listed = _files(spark, job, reading, inputs) if isinstance(reading, FileRead) else _messages(spark, job, reading)
    return listed.mapInArrow(rows, from_arrow_schema(reading.output, prefer_timestamp_ntz=True))


def _files(spark: "SparkSession", job: JobFile, reading: FileRead, inputs: Inputs) -> "DataFrame":
    if not job.source.options.follow:
        paths = [(str(reading.folder / name),) for name, _, _ in inputs]
        return spark.createDataFrame(paths, "path string").repartition(len(paths))
    assert job.spark is not None
    reader = spark.readStream.format("binaryFile").schema(_FILES)
    # Recursive, because otherwise Spark takes some folders for columns. Other files are filtered out later.
    reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", _FOR_EVER)
    if job.spark.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", str(job.spark.max_files))
    return reader.load("file://" + _SPECIAL.sub(r"\\\1", str(reading.folder))).select("path")


def _messages(spark: "SparkSession", job: JobFile, reading: MessageRead) -> "DataFrame":
    check_kafka(spark)
    assert job.spark is not None
    options = {
        **kafka_options(job.source.options),
        "subscribe": job.source.options.topic,
        "startingOffsets": "latest" if job.source.options.start == "end" else "earliest",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }
    if job.spark.max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(job.spark.max_offsets)
    found = spark.readStream.format("kafka").options(**options).load()
    wanted = ["value", "partition", "offset", *(["key"] if reading.key_column is not None else [])]
    return found.select(*wanted)


def kafka_options(options: Any) -> dict[str, str]:
    """Return Spark's options for the brokers."""
    protocol = ("SASL_" if options.sasl else "") + ("SSL" if options.tls is not None else "PLAINTEXT")
    found = {"kafka.bootstrap.servers": options.brokers, "kafka.security.protocol": protocol}
    if options.tls is not None and options.tls.ca_file is not None:
        found |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(options.tls.ca_file)}
    if options.sasl:
        module = "plain.PlainLoginModule" if options.sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = _quoted(options.sasl.user), _quoted(options.sasl.password)
        found["kafka.sasl.mechanism"] = options.sasl.mechanism
        found["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        )
    return found


def _quoted(text: str) -> str:
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def check_kafka(spark: "SparkSession") -> None:
    """Raise UsageError if this Spark cannot read or write Kafka."""
    try:
        spark._jvm.Thread.currentThread().getContextClassLoader().loadClass(KAFKA)  # type: ignore[union-attr]
    except Exception as exc:  # py4j's errors for a missing class vary
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise UsageError(
            f"this Spark cannot read or write Kafka: add its package to the job file, "
            f"spark: {{settings: {{spark.jars.packages: {package}}}}}"
        ) from exc


def good(frame: "DataFrame") -> "DataFrame":
    """Return the rows of a source frame, without malformed entries."""
    from pyspark.sql.functions import col

    return frame.where(col(BAD).isNull()).drop(BAD)


def with_malformed(output: "DataFrame", frame: "DataFrame") -> "DataFrame":
    """Add the malformed entries of a source frame to the output, as rejected rows without a shard."""
    from pyspark.sql.functions import col, concat, lit, struct, to_json

    place = [name for name in frame.columns if name in {*PLACES["files"].names, *PLACES["kafka"].names}]
    known: dict[str, Column] = {
        OUTCOME: lit(REJECTED),
        PLACE: to_json(struct(*[col(name).alias("_line" if name == ROW else name) for name in place])),
        DETAIL: concat(lit(MALFORMED), col(BAD)),
    }
    columns = [
        (known[field.name] if field.name in known else lit(None)).cast(field.dataType).alias(field.name)
        for field in output.schema
    ]
    return output.unionAll(frame.where(col(BAD).isNotNull()).select(*columns))


def written(frame: "DataFrame", job: JobFile) -> Any:
    """Return a writer of the frame to the sink, streaming or not; the caller starts it."""
    options = job.sink.options
    if job.sink.type == "kafka":
        check_kafka(frame.sparkSession)
        frame = _published_messages(frame, options.key_column)
    elif job.sink.type == "csv" and options.csv.formulas == "escape":
        frame = without_formulas(frame)
    writer: Any = frame.writeStream if frame.isStreaming else frame.write
    if job.sink.type == "kafka":
        return writer.format("kafka").options(**kafka_options(options), topic=options.topic)
    writer = writer.format(FORMATS[job.sink.type]).partitionBy(OUTCOME).options(**text_options(job.sink))
    return writer.option("path", "file://" + os.path.abspath(options.path))


def without_formulas(frame: "DataFrame") -> "DataFrame":
    """Escape formulas in text and column names, as castleguard's own sinks do."""
    from pyspark.sql.functions import col, concat, lit, when
    from pyspark.sql.types import StringType

    columns = []
    for field, written in zip(frame.schema, escape_names(frame.columns), strict=True):
        column = col("`" + field.name.replace("`", "``") + "`")
        if isinstance(field.dataType, StringType) and field.name != OUTCOME:
            formula = column.rlike(ESCAPABLE) & ~column.rlike(ESCAPABLE_NUMBER)
            column = when(formula, concat(lit("'"), column)).otherwise(column)
        columns.append(column.alias(written))
    return frame.select(*columns)


def text_options(sink: Endpoint) -> dict[str, str]:
    """Return Spark's options for text, which follow castleguard's own sinks.

    Empty strings are quoted in CSV so that they differ from null.
    """
    if sink.type == "parquet":
        return {}
    found = {**_TEXT, "compression": "gzip" if sink.options.gzip else "none"}
    return {**found, "ignoreNullFields": "true"} if sink.type == "jsonl" else {**found, **_CSV}


def _published_messages(frame: "DataFrame", key_column: str | None) -> "DataFrame":
    from pyspark.sql.functions import col, struct, to_json

    columns = [name for name in frame.columns if name not in OWN]
    value = to_json(struct(*columns), {"ignoreNullFields": "false", **_TIMES}).alias("value")
    key = [] if key_column is None else [col(key_column).cast("string").alias("key")]
    return frame.where(col(OUTCOME) == PUBLISHED).select(value, *key)
