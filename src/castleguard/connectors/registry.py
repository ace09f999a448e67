"""Connectors by name, as a job file names its source and sink: those of the package and those of other packages.

A connector is one module with both directions and a `CONNECTOR` that describes them. Connectors of other packages are
found by the entry point group `castleguard.connectors`, whose entries point at such a `CONNECTOR`. A module is imported
when a job names it, so that a job without Kafka needs no Kafka client.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, get_args

from castleguard.connectors.base import Position, Sink, Source, Unfit
from castleguard.connectors.csv_options import unfit_for_csv
from castleguard.connectors.formats import Format
from castleguard.errors import ConfigError

GROUP = "castleguard.connectors"

Finding = tuple[str, bool, str]
"""A check in words; whether it passed; the remedy if it did not."""

_BUILT_IN = {
    **{format: f"castleguard.connectors.files:{format.upper()}" for format in get_args(Format)},
    "stdio": "castleguard.connectors.stdio:CONNECTOR",
    "kafka": "castleguard.connectors.kafka:CONNECTOR",
    "nats": "castleguard.connectors.nats:CONNECTOR",
}


@dataclass(frozen=True, kw_only=True)
class Connector:
    """One technology. The options of a direction are a frozen dataclass; None: it does not have this direction.

    An option with the metadata {"default": "job name"} defaults to the job's name instead of None.
    Fields with the metadata {"identity": True} identify the input or output (a topic, not its brokers): a job with
    another value is another job. Without any such field, all options that are not secret identify it.
    {"identity": "choice"} marks a selection within the input that does not change the meaning of positions: it can
    change with a drain, and the job keeps its position.
    """

    source_options: type | None = None
    sink_options: type | None = None
    open_source: Callable[[Any, Sequence[str], Position | None], Source] | None = None
    """From options, the declared columns and the position to restore. Raises InputError, SchemaError; UnavailableError
    here or at the first read."""
    open_sink: Callable[[Any], Sink] | None = None
    """From options. Raises OutputError; UnavailableError here or at the first delivery."""
    unfit: Callable[[Any], Unfit | None] | None = unfit_for_csv
    """From the options of a sink: the values it cannot take. Rows with them are rejected when they are read. The
    default rejects what an option `csv` refuses."""
    exactly_once: bool = True
    """`exactly_once` of its sinks, known before one is opened."""
    check: Callable[[Any], Sequence[Finding]] | None = None
    """From the options of either direction: checks before a job runs that brokers, topics and permissions exist.
    Changes nothing outside, answers within seconds. May raise UnavailableError, InputError, OutputError."""


def names() -> list[str]:
    """Every type that a job file can name."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def find(name: str) -> Connector:
    """The connector of this name; those of this package come first."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return _checked(name, getattr(importlib.import_module(module), attribute))
    for entry in entry_points(group=GROUP, name=name):
        return _checked(name, entry.load())
    close = get_close_matches(name, names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names())}"
    raise ConfigError(f"there is no connector {name!r}{hint}")


def _checked(name: str, found: object) -> Connector:
    if not isinstance(found, Connector):
        raise ConfigError(f"the connector {name!r} must be a Connector, got {type(found).__name__}")
    return found
