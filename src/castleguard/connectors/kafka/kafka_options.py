"""Options of Kafka in a job file, and the client settings that follow from them. Does not need the client library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from castleguard.connectors.csv_options import DEFAULT, CsvOutput, check_csv_section
from castleguard.connectors.json_paths import check_fields
from castleguard.connectors.payloads import Format
from castleguard.errors import ConfigError

Setting = str | int | float | bool

# Exactly-once depends on these, so the job file must not change them.
_OURS = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "metadata.broker.list",
        "sasl.password",
        "sasl.username",
        "transactional.id",
    }
)


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Encryption. An empty mapping trusts the certificates that the system trusts."""

    ca_file: Path | None = None
    """PEM file of the authority that signs the brokers' certificates."""
    certificate_file: Path | None = None
    """Certificate of this client, where the brokers require one."""
    key_file: Path | None = None
    """Key of the client's certificate."""
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Sasl:
    """Authentication by user and password. For other mechanisms see `client`."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Connection to the brokers, the same in both directions."""

    brokers: str
    """host:port of some brokers, separated by commas; the client finds the others through them."""
    topic: str = field(metadata={"identity": True})
    format: Format = "json"
    tls: Tls | None = None
    sasl: Sasl | None = None
    timeout: float = 30.0
    """Seconds until a request counts as failed."""
    client: Mapping[str, Setting] = field(default_factory=dict, repr=False)
    """Further settings of librdkafka, by their names there."""

    def __post_init__(self) -> None:
        """Refuse options that cannot work."""
        refused = sorted(_OURS & self.client.keys())
        if refused:
            raise ValueError(f"client cannot have {refused[0]}: castleguard sets it, or has an option for it")
        if not 1 <= self.timeout <= 300:
            raise ValueError(f"timeout must be from 1 to 300 seconds, got {self.timeout:g}")

    def settings(self) -> dict[str, Setting]:
        """The client's settings, without those of one direction."""
        protocol = ("sasl_" if self.sasl else "") + ("ssl" if self.tls else "plaintext")
        settings: dict[str, Setting] = {
            "bootstrap.servers": self.brokers,
            "security.protocol": protocol,
            "socket.timeout.ms": round(1000 * self.timeout),
            # Failed connections are reported as errors; they would fill the log.
            "log_level": 2,
        }
        if self.tls:
            files = {
                "ssl.ca.location": self.tls.ca_file,
                "ssl.certificate.location": self.tls.certificate_file,
                "ssl.key.location": self.tls.key_file,
            }
            settings |= {name: str(path) for name, path in files.items() if path is not None}
            if self.tls.key_password is not None:
                settings["ssl.key.password"] = self.tls.key_password
        if self.sasl:
            settings["sasl.mechanism"] = self.sasl.mechanism
            settings["sasl.username"] = self.sasl.user
            settings["sasl.password"] = self.sasl.password
        return settings | dict(self.client)


@dataclass(frozen=True, kw_only=True)
class KafkaSourceOptions(Cluster):
    """A topic to read: all of its partitions, by this job alone."""

    columns: tuple[str, ...] = ()
    """For CSV: names of the values of a line, from left to right."""
    fields: dict[str, str] = field(default_factory=dict, metadata={"identity": True})
    """For JSON: paths of columns inside nested objects, such as postcode: address[0].postalCode."""
    key_column: str | None = None
    """The declared column that is not in the payload but is the message's key, as text."""
    start: Literal["beginning", "end"] = "beginning"
    """Where a new job begins. A partition that appears later is always read from its beginning."""
    group: str | None = field(default=None, metadata={"default": "job name"})
    """The consumer group that shows the position in the tools of Kafka. The job never reads it."""
    batch_messages: int = 10_000
    """Maximum number of messages per read."""

    def __post_init__(self) -> None:
        """Refuse options that cannot work."""
        super().__post_init__()
        if not 1 <= self.batch_messages <= 1_000_000:
            raise ValueError(f"batch_messages must be from 1 to 1000000, got {self.batch_messages}")
        if self.format == "csv" and not self.columns:
            raise ValueError("columns must name the values of a CSV message from left to right: it has no header")
        check_fields(self.fields, is_json=self.format == "json")

    def reader_settings(self) -> dict[str, Setting]:
        """The settings of the consumer."""
        return {
            # The client stops fetching while enough messages are queued; by default it then waits a whole second.
            "fetch.queue.backoff.ms": 10,
            **self.settings(),
            "group.id": self.group or f"castleguard-{self.topic}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            # A lost position must be an error: starting elsewhere would lose rows or publish them twice.
            "auto.offset.reset": "error",
            # At the end of a partition, offsets before it that were not delivered are not for us.
            "enable.partition.eof": True,
        }


@dataclass(frozen=True, kw_only=True)
class KafkaSinkOptions(Cluster):
    """A topic to write to, with one transaction per segment."""

    key_column: str | None = None
    """The published column whose text is the key of a message: JSON and CSV only."""
    transactional_id: str | None = field(default=None, metadata={"default": "job name"})
    """Identity of the producer. No other job may use it: a later producer fences an earlier one."""
    transaction_timeout: float = 60.0
    """Seconds after which the brokers abort an incomplete segment."""
    segment_header: bool = False
    """Whether every message has the header `castleguard-segment`, the number of its segment."""
    csv: CsvOutput = field(default=DEFAULT, metadata={"identity": True})
    """Options of CSV output."""

    def __post_init__(self) -> None:
        """Refuse options that cannot work."""
        super().__post_init__()
        check_csv_section(self.format, self.csv)
        if self.key_column is not None and self.format == "arrow":
            raise ValueError("key_column cannot be used with Arrow messages: one of them holds many rows")
        if not 1 <= self.transaction_timeout <= 3600:
            raise ValueError(f"transaction_timeout must be from 1 to 3600 seconds, got {self.transaction_timeout:g}")

    @property
    def numbers_group(self) -> str:
        """The consumer group whose offset of partition 0 is the number of the last segment."""
        return f"{self.transactional_id}-segments"

    def writer_settings(self) -> dict[str, Setting]:
        """The settings of the producer. Raises ConfigError."""
        if not self.transactional_id:
            raise ConfigError("a kafka sink needs a transactional_id: a name that no other job has")
        return {
            # Fuller requests take less work. No delivery waits for it: a commit sends what is left at once.
            "linger.ms": 200,
            **self.settings(),
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": round(1000 * self.transaction_timeout),
        }

    def numbers_settings(self) -> dict[str, Setting]:
        """The settings of the client that reads the number of the last segment."""
        return {
            **self.settings(),
            "group.id": self.numbers_group,
            "enable.auto.commit": False,
            # Otherwise the number of a transaction that is still open would be missed.
            "isolation.level": "read_committed",
        }
