"""What a job file names, opened: its source, its sink, its relay, the manifest and the cipher of what it keeps."""

from dataclasses import fields, replace
from typing import Any

from castleguard.checkpoint.cipher import Cipher
from castleguard.config.job_model import JobFile
from castleguard.connectors.base import Position, Sink, Source, Unfit
from castleguard.connectors.manifest import Manifest
from castleguard.errors import ConfigError, Mistake
from castleguard.jobs.load import connector_of
from castleguard.sites.transport import Transport

FORMATS = ("csv", "jsonl", "parquet", "arrow")
"""Types of a sink that is a folder of parts."""


def open_source(job: JobFile, position: Position | None = None, *, most: int | None = None) -> Source:
    """The source, to begin at a position that it gave, or at its beginning; to read so many rows at once, `most`."""
    opener = connector_of(job.source).open_source
    if opener is None:
        raise ConfigError(
            Mistake(f"cannot be {job.source.type}: that is no source", where=job.where("source"), key="source.type")
        )
    return opener(_small(_named(job.source.options, job.name), most), job.schema.columns, position)


def open_sink(job: JobFile) -> Sink:
    """The sink."""
    opener = connector_of(job.sink).open_sink
    if opener is None:
        raise ConfigError(
            Mistake(f"cannot be {job.sink.type}: that is no sink", where=job.where("sink"), key="sink.type")
        )
    return opener(_named(job.sink.options, job.name))


def open_relay(job: JobFile) -> Transport:
    """What carries messages to the other sites. Raises OutputError, ConfigError; a server that is away may come."""
    from castleguard.connectors.nats.relay import NatsRelay

    assert job.sites is not None
    assert job.site is not None
    return NatsRelay(job.sites.relay.options, job.name, job.site)


def unfit_values(job: JobFile) -> Unfit | None:
    """Which values the sink cannot take; None: it takes all."""
    connector = connector_of(job.sink)
    return None if connector.unfit is None else connector.unfit(job.sink.options)


def manifest_of(job: JobFile) -> Manifest | None:
    """What describes the parts of a job that publishes files; None for any other sink."""
    return Manifest(job.sink.options.path) if job.sink.type in FORMATS else None


def cipher_of(job: JobFile) -> Cipher | None:
    """What seals checkpoint and dead letters; None: the job has no key."""
    key = None if job.checkpoint is None else job.checkpoint.key_bytes()
    return None if key is None else Cipher(key)


def _named(options: Any, name: str) -> Any:
    """Options in which the job's name stands where a connector asks for it and the file says nothing."""
    asked = [option.name for option in fields(options) if option.metadata.get("default") == "job name"]
    return replace(options, **{option: name for option in asked if getattr(options, option) is None})


def _small(options: Any, most: int | None) -> Any:
    """Options by which not more rows are read at once, as far as the connector lets one choose."""
    sizes = [option.name for option in fields(options) if option.name in ("batch_rows", "batch_messages")]
    return options if most is None else replace(options, **{name: min(getattr(options, name), most) for name in sizes})
