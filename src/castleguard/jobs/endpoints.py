"""Opens the source, sink, relay, manifest and cipher of a job file; also the source and sink of a dry run."""

from dataclasses import fields, replace
from typing import Any, cast, get_args

import pyarrow as pa

from castleguard.checkpoint.cipher import Cipher
from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.base import Position, Sink, Source, Unfit
from castleguard.connectors.formats import Format
from castleguard.connectors.holding import check_held
from castleguard.connectors.manifest import Manifest
from castleguard.errors import ConfigError, Mistake
from castleguard.jobs.load import connector_of
from castleguard.sites.transport import Transport

FORMATS = ("csv", "jsonl", "parquet", "arrow")
"""Sink types that write a folder of parts."""


def open_source(job: JobFile, position: Position | None = None, *, most: int | None = None) -> Source:
    """Open the source at a position, or at its beginning; `most` bounds the rows of one read."""
    opener = connector_of(job.source).open_source
    if opener is None:
        raise ConfigError(
            Mistake(f"cannot be {job.source.type}, which is not a source", where=job.where("source"), key="source.type")
        )
    return opener(_small(_named(job.source.options, job.name), most), job.schema.columns, position)


def open_sink(job: JobFile) -> Sink:
    """Open the sink."""
    opener = connector_of(job.sink).open_sink
    if opener is None:
        raise ConfigError(
            Mistake(f"cannot be {job.sink.type}, which is not a sink", where=job.where("sink"), key="sink.type")
        )
    return opener(_named(job.sink.options, job.name))


def open_relay(job: JobFile) -> Transport:
    """Open the relay to the other sites. Raises OutputError, ConfigError; an unavailable server is retried later."""
    from castleguard.connectors.nats.relay import NatsRelay

    assert job.sites is not None
    assert job.site is not None
    return NatsRelay(job.sites.relay.options, job.name, job.site)


def unfit_values(job: JobFile) -> Unfit | None:
    """The values that the sink cannot write; None if it writes all."""
    connector = connector_of(job.sink)
    return None if connector.unfit is None else connector.unfit(job.sink.options)


def manifest_of(job: JobFile) -> Manifest | None:
    """The manifest of the parts of a file sink; None for other sinks."""
    return Manifest(job.sink.options.path) if job.sink.type in FORMATS else None


def cipher_of(job: JobFile) -> Cipher | None:
    """The cipher of checkpoint and dead letters; None without a key."""
    key = None if job.checkpoint is None else job.checkpoint.key_bytes()
    return None if key is None else Cipher(key)


def _named(options: Any, name: str) -> Any:
    """Options with the job's name filled in where a connector uses it as a default."""
    asked = [option.name for option in fields(options) if option.metadata.get("default") == "job name"]
    return replace(options, **{option: name for option in asked if getattr(options, option) is None})


def _small(options: Any, most: int | None) -> Any:
    """Options that read at most this many rows at once, if the connector has such an option."""
    sizes = [option.name for option in fields(options) if option.name in ("batch_rows", "batch_messages")]
    return options if most is None else replace(options, **{name: min(getattr(options, name), most) for name in sizes})


class Nowhere:
    """A sink that discards everything."""

    exactly_once = True
    longest_row = None

    def __init__(self, sink: Endpoint) -> None:
        """Stands in for `sink` and checks columns by its format."""
        format = getattr(sink.options, "format", sink.type)
        self._format = "jsonl" if format == "json" else format

    def last(self) -> int:
        """Number of the last delivered segment: always 0."""
        return 0

    def check(self, columns: pa.Schema) -> None:
        """Refuse columns that the format of the real sink cannot hold."""
        if self._format in get_args(Format):
            check_held(columns, cast(Format, self._format), "the sink")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Discard the segment."""

    def close(self) -> None:
        """Close nothing."""


class _Quiet:
    """A source without acknowledgements, so that the broker keeps no trace of a dry run."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.position, self.lag, self.close = source.read, source.position, source.lag, source.close

    @property
    def finished(self) -> bool:
        return self._source.finished

    def acknowledge(self, position: Position) -> None:
        """Do nothing."""


def open_quietly(job: JobFile, position: Position | None) -> Source:
    """The source, without acknowledgements."""
    return _Quiet(open_source(job, position))
