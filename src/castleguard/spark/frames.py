"""A job's source as a frame of Spark, and a frame as what a job's sink writes."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.column_checks import require_columns
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
_FOR_EVER = "36500d"  # Spark leaves out files that are older than the newest by more than a week
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "dateFormat": "yyyy-MM-dd",
}
# All that decides on how a value is written is said here: two values that count as two must not be written as one.
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
    "ignoreLeadingWhiteSpace": "false",  # Spark's writer takes away all that is not above a space
    "ignoreTrailingWhiteSpace": "false",
}
_SPECIAL = re.compile(r"([*?\[\]{}\\])")
_SMALL = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.float16(): pa.float32()}

Reading = FileRead | MessageRead
Inputs = tuple[tuple[str, int, int], ...]
"""Files by name, size and time."""


def reading_of(job: JobFile, columns: tuple[str, ...]) -> Reading:
    """What is to be read of the source. Raises InputError, UnavailableError, SchemaError."""
    options = job.source.options
    if job.source.type == "kafka":
        types = pa.schema([(name, pa.string()) for name in columns])
        return MessageRead(
            format=options.format, columns=types, order=tuple(options.columns), key_column=options.key_column
        )
    listing = _listing(job.source)
    return FileRead(
        format=job.source.type,  # type: ignore[arg-type]  # the section refuses every other type
        folder=Path(os.path.abspath(listing.folder)),
        pattern=listing.pattern,
        columns=_types(job.source.type, listing, columns),
        batch_rows=options.batch_rows,
    )


def _listing(source: Endpoint) -> Listing:
    listing = list_files(source.options.path)
    if source.options.follow and not listing.several:
        raise InputError(f"{source.options.path} cannot be followed: it is a file; name its folder, or a pattern")
    if not source.options.follow and not listing.names():
        raise InputError(f"{source.options.path} cannot be read: there is no file")
    return listing


def inputs_of(job: JobFile) -> Inputs:
    """The files of a source that ends, by name, size and time."""
    listing = _listing(job.source)
    return tuple(_told(listing.folder, name) for name in listing.names())


def changed_inputs(folder: Path, inputs: Inputs) -> list[str]:
    """Those of the files that are not any more what they were."""
    found = []
    for told in inputs:
        try:
            same = _told(folder, told[0]) == told
        except OSError:
            same = False
        if not same:
            found.append(told[0])
    return found


def _told(folder: Path, name: str) -> tuple[str, int, int]:
    status = (folder / name).stat()
    return name, status.st_size, status.st_mtime_ns


def _types(format: str, listing: Listing, columns: tuple[str, ...]) -> pa.Schema:
    """The types of what is read: text, or what the first file of Parquet says."""
    if format != "parquet":
        return pa.schema([(name, pa.string()) for name in columns])
    first = next(iter(listing.names()), None)
    if first is None:
        raise InputError(
            f"{listing.folder} has no Parquet file yet, and Spark must know the types of its columns before it starts: "
            f"put a first file there, it may be one without rows"
        )
    path = listing.path(first)
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as exc:
        raise InputError(f"{path} cannot be read: it is not a Parquet file, or it is damaged") from exc
    require_columns(columns, found.names, str(path))
    return pa.schema([(name, spark_type(name, found.field(name).type)) for name in columns])


def spark_type(name: str, kind: pa.DataType) -> pa.DataType:
    """The type of Spark for a column, without loss: text where Spark has none. Raises InputError."""
    if pa.types.is_dictionary(kind):
        return spark_type(name, kind.value_type)
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise InputError(f"the column {name!r} is {kind}, which cannot be a column of a job")
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
    """The columns that say where a row of such a source stood."""
    return tuple(PLACES["kafka" if kind == "kafka" else "files"].names)


def source_frame(spark: "SparkSession", job: JobFile, reading: Reading, inputs: Inputs) -> "DataFrame":
    """All that the source has or will have: rows with their places, and what is no row, with a reason. One that ends
    has these `inputs`, and no others that come later.
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
    # All folders below, because Spark takes some of them for columns otherwise. What is not meant is left out later.
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
    """How Spark reaches the brokers."""
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
    except Exception as exc:  # whatever py4j makes of a class that is not there
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise UsageError(
            f"this Spark cannot read or write Kafka: add its package to the job file, "
            f"spark: {{settings: {{spark.jars.packages: {package}}}}}"
        ) from exc


def good(frame: "DataFrame") -> "DataFrame":
    """The rows."""
    from pyspark.sql.functions import col

    return frame.where(col(BAD).isNull()).drop(BAD)


def with_malformed(output: "DataFrame", frame: "DataFrame") -> "DataFrame":
    """The output, and beside it what was no row in the first place: rejected, without a shard."""
    from pyspark.sql.functions import col, concat, lit, struct, to_json

    place = [name for name in frame.columns if name in {*PLACES["files"].names, *PLACES["kafka"].names}]
    told: dict[str, Column] = {
        OUTCOME: lit(REJECTED),
        PLACE: to_json(struct(*[col(name).alias("_line" if name == ROW else name) for name in place])),
        DETAIL: concat(lit(MALFORMED), col(BAD)),
    }
    columns = [
        (told[field.name] if field.name in told else lit(None)).cast(field.dataType).alias(field.name)
        for field in output.schema
    ]
    return output.unionAll(frame.where(col(BAD).isNotNull()).select(*columns))


def written(frame: "DataFrame", job: JobFile) -> Any:
    """What writes the frame to the sink: of a streaming frame or not, and to be started by whoever asked for it."""
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
    """The frame with formulas escaped in text and names, as castleguard's own sinks do it."""
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
    """How text is written: as castleguard's own sinks do it, and with quotes around a text that is empty, which is no
    null.
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
