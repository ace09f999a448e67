"""Kafka: a topic as a source, a topic as a sink.

Only `client` loads the client library, and late, so that a job without Kafka does not need it.
"""

from collections.abc import Sequence

from castleguard.connectors.base import Position
from castleguard.connectors.kafka.client import Health, client_library, configured, error_of, partitions_of
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions, KafkaSourceOptions
from castleguard.connectors.kafka.kafka_sink import KafkaSink
from castleguard.connectors.kafka.kafka_source import KafkaSource
from castleguard.connectors.registry import Connector, Finding
from castleguard.errors import InputError, OutputError, SchemaError

__all__ = [
    "CONNECTOR",
    "KafkaSink",
    "KafkaSinkOptions",
    "KafkaSource",
    "KafkaSourceOptions",
    "open_sink",
    "open_source",
]

_CHECK_SECONDS = 5.0  # limit of the check of the brokers before a job runs


def open_source(options: KafkaSourceOptions, columns: Sequence[str], position: Position | None) -> KafkaSource:
    """A topic, from a position. Connects at the first read."""
    for name in columns:
        if options.format == "csv" and name != options.key_column and options.columns.count(name) != 1:
            raise SchemaError(f"the option columns must have the declared column {name!r} once")
    if options.key_column is not None and options.key_column not in columns:
        raise SchemaError(f"key_column {options.key_column!r} is not a declared column")
    return KafkaSource(options, columns, position)


def open_sink(options: KafkaSinkOptions) -> KafkaSink:
    """A topic to write to. Connects when `last` is called."""
    options.writer_settings()
    return KafkaSink(options)


def check(options: KafkaSourceOptions | KafkaSinkOptions) -> list[Finding]:
    """Check that the topic exists. Never as the producer, which would fence a job that is running."""
    reading = isinstance(options, KafkaSourceOptions)
    health = Health(f"topic {options.topic}")
    settings = {**options.settings(), "group.id": "castleguard-check"}
    client = configured(client_library().Consumer, settings, error_cb=health.report)
    try:
        number = len(partitions_of(client, options.topic, min(options.timeout, _CHECK_SECONDS)))
    except client_library().KafkaException as exc:
        client.poll(0)
        error = error_of(exc)
        if error.code() == error.UNKNOWN_TOPIC_OR_PART:
            return [(f"topic {options.topic} exists", False, "create it, or let this user see it")]
        raise health.failure(error, InputError if reading else OutputError) from exc
    finally:
        client.close()
    return [(f"topic {options.topic} exists, with {number} partition{'s' if number > 1 else ''}", True, "")]


CONNECTOR = Connector(
    source_options=KafkaSourceOptions,
    sink_options=KafkaSinkOptions,
    open_source=open_source,
    open_sink=open_sink,
    check=check,
)
