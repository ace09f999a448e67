"""NATS JetStream: rows from the messages of a stream, segments as the messages of a subject.

Only `connection` loads the client library, and late, so that a job without NATS does not need it.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from castleguard.connectors.base import Position
from castleguard.connectors.nats.connection import Connection
from castleguard.connectors.nats.nats_options import Access, NatsSinkOptions, NatsSourceOptions
from castleguard.connectors.nats.nats_sink import NatsSink
from castleguard.connectors.nats.nats_source import NatsSource
from castleguard.connectors.nats.stream_state import look_up
from castleguard.connectors.registry import Connector, Finding
from castleguard.errors import CastleguardError, ConfigError, InputError, OutputError

__all__ = ["CONNECTOR", "NatsSink", "NatsSinkOptions", "NatsSource", "NatsSourceOptions", "open_sink", "open_source"]


def open_source(options: NatsSourceOptions, columns: Sequence[str], position: Position | None) -> NatsSource:
    """A stream, from `position` or from `start`. Raises InputError, ConfigError, UnavailableError."""
    if options.format == "csv":
        missing = [name for name in columns if options.columns.count(name) != 1]
        if missing:
            raise ConfigError(f"columns must name every value of a CSV line once: {missing[0]!r} is missing or twice")
    if options.batch_messages < 1:
        raise ConfigError(f"batch_messages must be at least 1, got {options.batch_messages}")
    with _connected(options, InputError) as connection:
        source = NatsSource(options, columns, connection)
        connection.run(source.begin(position))
        return source


def open_sink(options: NatsSinkOptions) -> NatsSink:
    """A subject to write to. Raises OutputError, ConfigError, UnavailableError."""
    if any(token in ("*", ">", "") for token in options.subject.split(".")):
        raise ConfigError(f"a sink writes to one subject, without wildcards, got {options.subject!r}")
    if options.rows_per_message is not None and options.rows_per_message < 1:
        raise ConfigError(f"rows_per_message must be at least 1, got {options.rows_per_message}")
    with _connected(options, OutputError) as connection:
        sink = NatsSink(options, connection)
        connection.run(sink.begin())
        return sink


@contextmanager
def _connected(options: Access, error: type[CastleguardError]) -> Iterator[Connection]:
    """A connection, closed only if the block fails."""
    connection = Connection(options, error)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def check(options: NatsSourceOptions | NatsSinkOptions) -> list[Finding]:
    """Check that the server accepts us and has the stream. Raises UnavailableError, InputError, OutputError."""
    error = InputError if isinstance(options, NatsSourceOptions) else OutputError
    with closing(Connection(options, error)) as connection:
        connection.run(look_up(connection, options.stream))
    return [(f"the server can be reached and has the stream {options.stream}", True, "")]


CONNECTOR = Connector(
    source_options=NatsSourceOptions,
    sink_options=NatsSinkOptions,
    open_source=open_source,
    open_sink=open_sink,
    check=check,
)
