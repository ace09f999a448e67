"""A job as its file describes it: a frozen value. `assemble` makes live objects of it.

No repr of anything here says more than names and numbers of keys: options may hold what came from the environment.
"""

import base64
import binascii
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from castleguard.algorithms.base import Policy
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
    """A key as it is written: in base64. `name` says where it stands; it is never shown itself."""
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != _KEY_BYTES:
        raise ConfigError(f"{name} must be {_KEY_BYTES} bytes in base64: make one with `openssl rand -base64 32`")
    return found


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where the job keeps what it needs to continue after a stop or a crash. Without this section it cannot."""

    path: Path
    """The file, made when the job first runs; it holds raw rows, so it is readable by its owner alone."""
    every: float = 5.0
    """How long to gather what is released before it is stored and delivered."""
    key: str | None = field(default=None, repr=False)
    """Encrypts checkpoint and dead letters: 32 bytes in base64, from the environment: ${CASTLEGUARD_KEY}."""

    def __post_init__(self) -> None:
        if self.every <= 0:
            raise ConfigError(f"every must be above 0, got {self.every:g}")
        if self.key is not None:
            self.key_bytes()

    def key_bytes(self) -> bytes | None:
        """The key itself."""
        return None if self.key is None else parse_key(self.key, "key")


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """Where rows go that cannot be used, each with its reason and the place where it stood."""

    path: Path
    """The file, of JSON lines; it holds raw rows, so it is readable by its owner alone."""
    max_share: float = 1.0
    """The job fails when more than this share of the rows since its start is rejected: looked at with every commit from
    a thousand rows on, and at the end of the source."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_share <= 1:
            raise ConfigError(f"max_share must be between 0 and 1, got {self.max_share:g}")


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Where Prometheus can ask how the job is doing."""

    port: int
    """0 lets the system choose one."""
    host: str = "127.0.0.1"
    """The address to listen at; by default only this machine can ask."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, got {self.port}")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A source or a sink: the type of its connector, and the options as that connector declares them."""

    type: str
    options: Any = field(repr=False)
    hidden: frozenset[str] = field(default=frozenset(), repr=False)
    """Options that never print: secrets by their name, and what came from the environment."""

    @property
    def never_ends(self) -> bool:
        """Whether it is a source that waits for more for ever."""
        return self.type in _ENDLESS or bool(getattr(self.options, "follow", False))

    def shown(self) -> dict[str, str]:
        """The options that differ from their defaults, as they may be shown."""
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
    """The whole file. Paths are absolute, or relative to the working folder as the file's own path is."""

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
    """Which of the sites this is."""
    spark: "Spark | None" = None
    """With it the job is one for `castleguard spark`, and its checkpoint a folder."""
    document: Document
    """The file as it was read, with its variables not replaced: for the lines of messages."""
    variables: Variables
    """What came from the environment, so that it can be kept out of messages."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.document.path

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return self.document.path.parent

    def where(self, *place: str) -> str:
        """File and line of a section or a key: "job.yaml:14"."""
        return self.document.where(place)

    def mask(self, message: str) -> str:
        """The message without anything that came from the environment."""
        return self.variables.mask(message)

    def __repr__(self) -> str:
        """Its name and where it leads."""
        return f"JobFile({self.name}: {self.source.type} to {self.sink.type})"
