"""What a job file says about NATS: how to be let in, what to read, where to write."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from castleguard.connectors.csv_options import DEFAULT, CsvOutput, check_csv_section
from castleguard.connectors.payloads import Format


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where the server is and how to be let in."""

    servers: str | tuple[str, ...] = "nats://127.0.0.1:4222"
    """One address or several of one cluster: nats://host:4222, tls://host:4222."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials_file: Path | None = None
    """A .creds file: a signed user and its key."""
    ca_file: Path | None = None
    """Who signs the server's certificate, where the system does not know it. Makes the connection a secure one."""
    certificate_file: Path | None = None
    """The certificate that the server asks for; with `key_file`."""
    key_file: Path | None = None
    timeout: float = 10.0
    """Seconds to wait for an answer."""

    def addresses(self) -> list[str]:
        """The servers, as a list."""
        return [self.servers] if isinstance(self.servers, str) else list(self.servers)


@dataclass(frozen=True, kw_only=True)
class NatsSourceOptions(Access):
    """A stream to read from."""

    stream: str = field(metadata={"identity": True})
    subject: str | None = field(default=None, metadata={"identity": "choice"})
    """Only messages of this subject, which may have wildcards; None: all of the stream."""
    format: Format = "json"
    columns: tuple[str, ...] = ()
    """The names of the values in a CSV line, from left to right."""
    batch_messages: int = 5000
    """How many messages are read at once, at most; never more than 8 MiB of them."""
    start: Literal["beginning", "now"] = "beginning"
    """Where the very first start of a job begins: with what the stream holds, or with what comes from now on."""
    skip_deleted: bool = False
    """Whether to go on where the stream has deleted messages before they were read. They are lost."""


@dataclass(frozen=True, kw_only=True)
class NatsSinkOptions(Access):
    """A subject to write to. It belongs to one job alone."""

    stream: str = field(metadata={"identity": True})
    subject: str = field(metadata={"identity": True})
    format: Format = "json"
    rows_per_message: int | None = None
    """None: one in JSON and CSV, 4096 in Arrow. Several rows in JSON or CSV are one per line."""
    begins_empty: bool = False
    """Say that this job has never written to the subject, where the stream has deleted messages and nobody can tell."""
    csv: CsvOutput = field(default=DEFAULT, metadata={"identity": True})
    """How CSV is written."""

    def __post_init__(self) -> None:
        """Refuse a section that would do nothing."""
        check_csv_section(self.format, self.csv)
