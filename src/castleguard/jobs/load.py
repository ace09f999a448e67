"""Reads and checks job files and schemas, into frozen values."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from castleguard.config.document import spell
from castleguard.config.job_file import Options, load_job
from castleguard.config.job_model import Endpoint, JobFile
from castleguard.config.problems import Problem
from castleguard.config.schema_file import build_schema
from castleguard.config.schema_file import load_schema as load_schema_file
from castleguard.connectors import registry
from castleguard.connectors.registry import Connector
from castleguard.errors import ConfigError, Mistake
from castleguard.schema.roles import Schema

_BOUNDS = ("lower", "upper", "bins")


def load(path: str | Path, *, site: str | None = None) -> JobFile:
    """Read a job file, for one site if it has several; raises ConfigError with one line per problem."""
    return load_job(path, Connectors(), site=site, relay=relay_options)


def load_schema(source: str | Path | Mapping[str, Any], *, folder: str | Path = ".") -> Schema:
    """Read a schema from a YAML file, or from a mapping with the same keys.

    Paths of hierarchies are relative to `folder` in a mapping, and to the file otherwise. Bounds in a mapping may be
    ISO dates and times, as in JSON. Raises ConfigError with all mistakes.

    >>> schema = load_schema({"person": "pid", "quasi_identifiers": [{"name": "age", "lower": 0, "upper": 100}]})
    >>> schema.columns
    ('pid', 'age')
    """
    if not isinstance(source, Mapping):
        return load_schema_file(source)
    problems: list[Problem] = []
    schema = build_schema(_with_times(dict(source)), (), problems, Path(folder))
    if schema is None:
        raise ConfigError(*(Mistake(sentence, key=spell(place)) for place, sentence in problems))
    return schema


def _with_times(value: Any, key: str = "") -> Any:
    """The mapping with ISO texts among its bounds turned into dates and times."""
    if isinstance(value, dict):
        return {name: each if name == "hierarchy" else _with_times(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_times(each, key) for each in value]
    if not isinstance(value, str) or key not in _BOUNDS:
        return value
    for kind in (dt.date, dt.datetime):
        with suppress(ValueError):
            return kind.fromisoformat(value)
    return value


def relay_options() -> type:
    """The options of the relay between sites."""
    from castleguard.connectors.nats.nats_options import Access

    return Access


def connector_of(endpoint: Endpoint) -> Connector:
    """The connector of a source or sink."""
    return find_connector(endpoint.type)


def find_connector(kind: str) -> Connector:
    """The connector with this name; raises ConfigError if it does not exist or cannot be imported."""
    try:
        return registry.find(kind)
    except ImportError as exc:
        raise ConfigError(f"the connector {kind!r} cannot be loaded: {exc}") from exc


class Connectors(Mapping[str, Options]):
    """The options of all connectors, imported on demand."""

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
