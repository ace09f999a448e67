"""The Kafka client library, loaded only here and on first use, and the meaning of its errors."""

import logging
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

from castleguard.connectors.kafka.kafka_options import Setting
from castleguard.errors import CastleguardError, ConfigError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

PROBE_SECONDS = 1.0  # limit of a request to the brokers while the job waits for rows

LOG = logging.getLogger("castleguard.connectors.kafka")


def client_library() -> ModuleType:
    """The library. Raises ConfigError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as exc:
        raise ConfigError("kafka needs its client library: pip install 'castleguard[kafka]'") from exc
    return confluent_kafka


def error_of(exc: Exception) -> "KafkaError":
    """The error inside a KafkaException."""
    error: KafkaError = exc.args[0]
    return error


def is_permanent(error: "KafkaError") -> bool:
    """Whether the same request would fail again until an operator acts."""
    kind = type(error)
    return error.code() in {
        kind.CLUSTER_AUTHORIZATION_FAILED,
        kind.GROUP_AUTHORIZATION_FAILED,
        kind.INVALID_TRANSACTION_TIMEOUT,
        kind.MSG_SIZE_TOO_LARGE,
        kind.POLICY_VIOLATION,
        kind.RECORD_LIST_TOO_LARGE,
        kind.SASL_AUTHENTICATION_FAILED,
        kind.TOPIC_AUTHORIZATION_FAILED,
        kind.TOPIC_EXCEPTION,
        kind.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        kind.UNKNOWN_TOPIC_OR_PART,
        kind.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        kind.UNSUPPORTED_SASL_MECHANISM,
        kind.UNSUPPORTED_VERSION,
        kind._INVALID_ARG,
        kind._UNKNOWN_PARTITION,
        kind._UNKNOWN_TOPIC,
        kind._UNSUPPORTED_FEATURE,
    }


def error_text(error: "KafkaError") -> str:
    """The client's message without its internal details."""
    return re.sub(r"^(Broker|Local): | \(after .*\)$|/bootstrap", "", error.str()).rstrip(".")


def configured(make: Any, settings: dict[str, Setting], **callbacks: Any) -> Any:
    """A client. Raises ConfigError if it refuses the settings, never with their values."""
    try:
        return make({**settings, **callbacks, "logger": LOG})
    except client_library().KafkaException as exc:
        text = error_text(error_of(exc))
        for value in settings.values():
            if isinstance(value, str) and value:
                text = text.replace(value, "****")
        raise ConfigError(f"the Kafka client refuses its settings: {text}") from exc


class Health:
    """Errors that the client reports in the background: failed connections do not belong to a single call."""

    def __init__(self, where: str) -> None:
        self.down = False
        self._where = where
        self._worked = False
        self._reason = ""
        self._refused = False

    def report(self, error: "KafkaError") -> None:
        """Record an error. Called by the client, in the thread that uses it."""
        kind = type(error)
        if error.code() in {kind._AUTHENTICATION, kind._SSL, kind.SASL_AUTHENTICATION_FAILED}:
            self._refused = True
            self._reason = error_text(error)
        elif error.code() == kind._ALL_BROKERS_DOWN:
            self._reason = self._reason or "no broker answers"
        elif not self._refused:
            self._reason = error_text(error)
        self.down = True

    def well(self) -> None:
        """Record that a broker has answered."""
        self.down = self._refused = False
        self._worked = True
        self._reason = ""

    def failure(self, error: "KafkaError", wrong: type[CastleguardError]) -> CastleguardError:
        """The error to raise for a failed request: `wrong` if a retry cannot fix it."""
        if error.code() in {error.UNKNOWN_TOPIC_OR_PART, error._UNKNOWN_TOPIC}:
            return wrong(f"{self._where} does not exist, or may not be seen")
        if is_permanent(error):
            return wrong(f"{self._where}: {error_text(error)}")
        # Refused before anything worked: a wrong password or certificate. Refused later: a broker in trouble.
        if self._refused and not self._worked:
            return wrong(f"{self._where}: the brokers refuse the connection: {self._reason}")
        return UnavailableError(f"{self._where} cannot be reached: {self._reason or error_text(error)}")


def partitions_of(client: Any, topic: str, timeout: float) -> list[int]:
    """The partitions of a topic. Raises KafkaException."""
    found = client.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is not None:
        raise client_library().KafkaException(found.error)
    return sorted(found.partitions)
