"""Options of NATS in a job file: access to the server, a stream to read, a subject to write to."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from castleguard.connectors.csv_options import DEFAULT, CsvOutput, check_csv_section
from castleguard.connectors.json_paths import check_fields
from castleguard.connectors.payloads import Format


@dataclass(frozen=True, kw_only=True)
class Access:
    """Address of the server, and credentials."""

    servers: str | tuple[str, ...] = "nats://127.0.0.1:4222"
    """One or several addresses of one cluster: nats://host:4222, tls://host:4222."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials_file: Path | None = None
    """A .creds file: a signed user and its key."""
    ca_file: Path | None = None
    """PEM file of the authority that signs the server's certificate, if the system does not know it. Turns TLS on."""
    certificate_file: Path | None = None
    """Certificate of this client, where the server requires one; with `key_file`."""
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
    """Read only messages of this subject, which may have wildcards; None: all of the stream."""
    format: Format = "json"
    columns: tuple[str, ...] = ()
    """The names of the values in a CSV line, from left to right."""
    fields: dict[str, str] = field(default_factory=dict, metadata={"identity": True})
    """For JSON: paths of columns inside nested objects, such as postcode: address[0].postalCode."""
    batch_messages: int = 5000
    """Maximum number of messages per read; never more than 8 MiB of them."""
    start: Literal["beginning", "now"] = "beginning"
    """Where a new job begins: with the first message of the stream, or with messages from now on."""
    skip_deleted: bool = False
    """Skip messages that the stream deleted before they were read. They are lost."""

    def __post_init__(self) -> None:
        """Refuse paths that cannot be read, or that have no effect."""
        check_fields(self.fields, is_json=self.format == "json")


@dataclass(frozen=True, kw_only=True)
class NatsSinkOptions(Access):
    """A subject to write to. It belongs to one job alone."""

    stream: str = field(metadata={"identity": True})
    subject: str = field(metadata={"identity": True})
    format: Format = "json"
    rows_per_message: int | None = None
    """None: one in JSON and CSV, 4096 in Arrow. Several rows in JSON or CSV are one per line."""
    begins_empty: bool = False
    """Confirms that this job has never written to the subject, where deleted messages hide that."""
    csv: CsvOutput = field(default=DEFAULT, metadata={"identity": True})
    """Options of CSV output."""

    def __post_init__(self) -> None:
        """Refuse a section that has no effect."""
        check_csv_section(self.format, self.csv)
