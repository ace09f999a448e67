"""A job file as a frozen value; `jobs.assemble` turns it into live objects.

No repr here shows option values, which may come from the environment.
"""

import base64
import binascii
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from castleguard.algorithms.policy import Policy
from castleguard.config.document import Document
from castleguard.config.environment import Variables
from castleguard.config.secrets import HIDDEN
from castleguard.errors import ConfigError
from castleguard.schema.roles import Schema

if TYPE_CHECKING:
    from castleguard.config.sites_section import Sites
    from castleguard.config.spark_section import Spark

Numbers = Literal["bounds", "interval", "midpoint"]

_KEY_BYTES = 32
_ENDLESS = ("kafka", "nats")


def parse_key(text: str, name: str) -> bytes:
    """Decode a base64 key. Errors show `name`, its place in the file, and never the key."""
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != _KEY_BYTES:
        raise ConfigError(f"{name} must be {_KEY_BYTES} bytes in base64: create one with `openssl rand -base64 32`")
    return found


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """State that a job restores after a stop or a crash. Without this section it starts from the beginning."""

    path: Path
    """The file, created by the first run. It holds raw rows, so only its owner can read it."""
    every: float = 5.0
    """Time between commits: released rows are stored and delivered together."""
    key: str | None = field(default=None, repr=False)
    """Encrypts checkpoint and dead letters: 32 bytes in base64, from the environment: ${CASTLEGUARD_KEY}."""

    def __post_init__(self) -> None:
        if self.every <= 0:
            raise ConfigError(f"every must be above 0, got {self.every:g}")
        if self.key is not None:
            self.key_bytes()

    def key_bytes(self) -> bytes | None:
        """The decoded key."""
        return None if self.key is None else parse_key(self.key, "key")


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """Where rejected rows go, each with reason and place."""

    path: Path
    """The file, in JSON lines. It holds raw rows, so only its owner can read it."""
    max_share: float = 1.0
    """The job fails if more than this share of the rows since its start is rejected. Checked with every commit from a
    thousand rows on, and at the end of the source."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_share <= 1:
            raise ConfigError(f"max_share must be between 0 and 1, got {self.max_share:g}")


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Prometheus metrics of the job."""

    port: int
    """Port to listen on; 0 lets the system choose one."""
    host: str = "127.0.0.1"
    """Address to listen on; the default admits only this machine."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, got {self.port}")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A source or a sink: the type of its connector, and the connector's options."""

    type: str
    options: Any = field(repr=False)
    hidden: frozenset[str] = field(default=frozenset(), repr=False)
    """Options that are never printed: secrets by name, and values from the environment."""

    @property
    def never_ends(self) -> bool:
        """Whether it is a source that waits for more rows forever."""
        return self.type in _ENDLESS or bool(getattr(self.options, "follow", False))

    def shown(self) -> dict[str, str]:
        """The options that differ from their defaults, secrets hidden."""
        shown = {}
        for option in dataclasses.fields(self.options):
            value = getattr(self.options, option.name)
            if option.name in self.hidden:
                shown[option.name] = HIDDEN
            elif value != option.default:
                shown[option.name] = str(value)
        return shown


@dataclass(frozen=True, kw_only=True, repr=False)
class JobFile:
    """The whole file. Paths are absolute, or relative to the working directory like the file's own path."""

    name: str
    source: Endpoint
    schema: Schema
    policy: Policy
    sink: Endpoint
    numbers: Numbers | None = None
    checkpoint: Checkpoint | None = None
    dead_letter: DeadLetter | None = None
    metrics: Metrics | None = None
    sites: "Sites | None" = None
    site: str | None = None
    """Name of this site."""
    spark: "Spark | None" = None
    """Set for a job that runs with `castleguard spark`, whose checkpoint is a folder."""
    document: Document
    """The parsed file before variables were replaced, for the lines of messages."""
    variables: Variables
    """Values from the environment, to mask them in messages."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.document.path

    @property
    def folder(self) -> Path:
        """Folder of the file, to which its paths are relative."""
        return self.document.path.parent

    def where(self, *place: str) -> str:
        """File and line of a section or a key: "job.yaml:14"."""
        return self.document.where(place)

    def mask(self, message: str) -> str:
        """The message with values from the environment masked."""
        return self.variables.mask(message)

    def __repr__(self) -> str:
        """Name, source and sink."""
        return f"JobFile({self.name}: {self.source.type} to {self.sink.type})"
