"""What a job file can name as its source or sink: the connectors that come with the package, and those of others.

A connector is one module with both directions and a `CONNECTOR` that describes them. Somebody else's is found by the
entry point group `castleguard.connectors`, whose entries point at such a `CONNECTOR`. A module is imported when a job
names it, not before: whoever has no Kafka needs no Kafka client.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, get_args

from castleguard.connectors.base import Position, Sink, Source, Unfit
from castleguard.connectors.formats import Format
from castleguard.errors import ConfigError

GROUP = "castleguard.connectors"

Finding = tuple[str, bool, str]
"""Something that was looked at, in words; whether it is as it must be; what to do if it is not."""

_BUILT_IN = {
    **{format: f"castleguard.connectors.files:{format.upper()}" for format in get_args(Format)},
    "stdio": "castleguard.connectors.stdio:CONNECTOR",
    "kafka": "castleguard.connectors.kafka:CONNECTOR",
    "nats": "castleguard.connectors.nats:CONNECTOR",
}


@dataclass(frozen=True, kw_only=True)
class Connector:
    """One technology. The options of a direction are a frozen dataclass; None: there is no such direction.

    An option with the metadata {"default": "job name"} has the job's name instead of None.
    Fields with the metadata {"identity": True} say what is read or written (a topic, not its brokers): with another one
    it is another job. Without any such mark all options that are not secret say it. {"identity": "choice"} marks what a
    source chooses from that, where positions mean the same whatever is chosen: it can change with a drain, and the job
    goes on from where it stands.
    """

    source_options: type | None = None
    sink_options: type | None = None
    open_source: Callable[[Any, Sequence[str], Position | None], Source] | None = None
    """From options, the declared columns and the position to begin at. Raises InputError, SchemaError; UnavailableError
    may also be left to the first read."""
    open_sink: Callable[[Any], Sink] | None = None
    """From options. Raises OutputError; UnavailableError may also be left to the first delivery."""
    unfit: Callable[[Any], Unfit | None] | None = None
    """From the options of a sink: which values it cannot take. Rows with them are rejected when they are read."""
    exactly_once: bool = True
    """Whether its sinks know what they have: what an open sink says of itself, said before one is opened."""
    check: Callable[[Any], Sequence[Finding]] | None = None
    """From the options of either direction: whether what they name is there (a broker, a topic, a right), asked before
    a job runs. Changes nothing outside, answers within seconds. May raise UnavailableError, InputError, OutputError."""


def names() -> list[str]:
    """Every type that a job file can name."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def find(name: str) -> Connector:
    """The connector of this name; the package's own come first."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return _checked(name, getattr(importlib.import_module(module), attribute))
    for entry in entry_points(group=GROUP, name=name):
        return _checked(name, entry.load())
    close = get_close_matches(name, names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f": known are {', '.join(names())}"
    raise ConfigError(f"there is no connector {name!r}{hint}")


def _checked(name: str, found: object) -> Connector:
    if not isinstance(found, Connector):
        raise ConfigError(f"the connector {name!r} is a {type(found).__name__}, and must be a Connector")
    return found
