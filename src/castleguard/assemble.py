"""From a job file to live objects: the only place that knows every implementation."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from castleguard.config.job_file import Options, load_job
from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors import registry
from castleguard.connectors.base import Position, Sink, Source
from castleguard.connectors.registry import Connector
from castleguard.errors import ConfigError, PolicyError, SchemaError
from castleguard.stream import Anonymiser


def load(path: str | Path) -> JobFile:
    """Read a job file; raises ConfigError with one line per problem."""
    return load_job(path, Connectors())


def connector_of(endpoint: Endpoint) -> Connector:
    """The connector of a source or sink."""
    return find_connector(endpoint.type)


def open_source(job: JobFile, position: Position | None = None) -> Source:
    """The source, to begin at a position that it gave, or at its beginning."""
    opener = connector_of(job.source).open_source
    if opener is None:
        raise ConfigError(f"{job.where('source')}  source.type cannot be {job.source.type}: that is no source")
    return opener(job.source.options, job.schema.columns, position)


def open_sink(job: JobFile) -> Sink:
    """The sink."""
    opener = connector_of(job.sink).open_sink
    if opener is None:
        raise ConfigError(f"{job.where('sink')}  sink.type cannot be {job.sink.type}: that is no sink")
    return opener(job.sink.options)


def make_stream(job: JobFile, snapshot: bytes | None = None) -> Anonymiser:
    """A new stream, or the one that a snapshot was taken of."""
    try:
        if snapshot is not None:
            return Anonymiser.restore(job.schema, job.policy, snapshot, numbers=job.numbers)
        return Anonymiser(job.schema, job.policy, numbers=job.numbers)
    except (PolicyError, SchemaError) as exc:
        raise ConfigError(f"{job.where('privacy')}  privacy cannot work: {exc}") from exc


def find_connector(kind: str) -> Connector:
    """The connector of this name; raises ConfigError if there is none, or if its module cannot be imported."""
    try:
        return registry.find(kind)
    except ImportError as exc:
        raise ConfigError(f"the connector {kind!r} cannot be loaded: {exc}") from exc


class Connectors(Mapping[str, Options]):
    """The options of all connectors. A module is imported when its options are asked for, not before."""

    def __getitem__(self, kind: str) -> Options:
        if kind not in registry.names():
            raise KeyError(kind)
        found = find_connector(kind)
        return Options(found.source_options, found.sink_options)

    def __contains__(self, kind: object) -> bool:
        return kind in registry.names()

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names())

    def __len__(self) -> int:
        return len(registry.names())
