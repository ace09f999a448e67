"""Connectors for tests of job files: options like those of real ones, files read as they are, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from castleguard.config.job_file import Options
from castleguard.connectors import registry
from castleguard.connectors.base import Position, Read
from castleguard.connectors.files import FileSourceOptions
from castleguard.connectors.formats import open_reader
from castleguard.connectors.registry import Connector, Finding
from castleguard.errors import ConfigError, UnavailableError


@dataclass(frozen=True, kw_only=True)
class FileOptions(FileSourceOptions):
    """Files of one format, to read or to write."""

    path: Path
    """A file, a folder or a pattern."""


@dataclass(frozen=True, kw_only=True)
class Tls:
    """How to trust the broker."""

    ca_file: Path
    verify: bool = True


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    """A broker."""

    servers: str | tuple[str, ...]
    """One address, or several."""
    topic: str
    password: str | None = field(default=None, repr=False)
    format: Literal["json", "csv"] = "json"
    timeout: float = 10.0
    headers: dict[str, str] = field(default_factory=dict)
    tls: Tls | None = None
    schema: str | None = None
    """A name that every pydantic model has already."""


@dataclass(frozen=True, kw_only=True)
class PipeOptions:
    """Standard output."""

    format: Literal["csv", "jsonl"] = "csv"


class FakeSource:
    """The first file of a path."""

    finished = False

    def __init__(self, options: FileOptions, columns: Sequence[str], position: Position | None) -> None:
        path = options.path
        if not path.is_file():
            path = min((path if path.is_dir() else path.parent).glob("*" if path.is_dir() else path.name))
        self._reader = open_reader(path, columns, batch_rows=options.batch_rows)
        self._batches = iter(self._reader)

    def read(self, timeout: float) -> Read | None:
        batch = next(self._batches, None)
        return None if batch is None else Read(batch, str)

    def position(self) -> Position:
        return {}

    def acknowledge(self, position: Position) -> None:
        pass

    def lag(self) -> int | None:
        return None

    def close(self) -> None:
        self._reader.close()


class FakeSink:
    """Takes everything."""

    exactly_once = True
    longest_row = None

    def last(self) -> int:
        return 0

    def check(self, columns: pa.Schema) -> None:
        """It holds everything."""

    def deliver(self, number: int, table: pa.Table) -> None:
        pass

    def close(self) -> None:
        pass


def ask_broker(options: BrokerOptions) -> list[Finding]:
    """A broker that answers by the name of its topic."""
    if options.topic == "far":
        raise UnavailableError("the broker does not answer")
    return [("the topic is there", options.topic == "there", "make the topic")]


FILES = Connector(
    source_options=FileOptions, sink_options=FileOptions, open_source=FakeSource, open_sink=lambda _: FakeSink()
)
CONNECTORS = {
    "csv": FILES,
    "parquet": FILES,
    "kafka": Connector(source_options=BrokerOptions, sink_options=BrokerOptions, check=ask_broker),
    "stdio": Connector(sink_options=PipeOptions, exactly_once=False),
}


class Offered(dict[str, Options]):
    """What config is handed; one connector is known but cannot be used."""

    def __init__(self) -> None:
        super().__init__({kind: Options(made.source_options, made.sink_options) for kind, made in CONNECTORS.items()})
        self["nats"] = Options(None, None)

    def __getitem__(self, kind: str) -> Options:
        if kind == "nats":
            raise ConfigError("nats needs its client: pip install 'castleguard[nats]'")
        return super().__getitem__(kind)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the registry find these connectors alone."""
    monkeypatch.setattr(registry, "names", lambda: sorted(CONNECTORS))
    monkeypatch.setattr(registry, "find", CONNECTORS.__getitem__)
