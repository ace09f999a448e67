"""The mock Kafka cluster of the client library, for tests that must run without Java."""

from collections.abc import Sequence

from confluent_kafka import Producer

from tests.patience import PATIENCE


class MockCluster:
    """A cluster of one broker in this process. It creates a topic of four partitions on demand.

    It does not keep offsets that are committed in a transaction, so the sink needs a real broker.
    """

    def __init__(self) -> None:
        # The cluster exists as long as this handle.
        self._handle = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._handle.list_topics(timeout=PATIENCE).brokers.values()
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def write(self, topic: str, messages: Sequence[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
        for message in messages:
            self._handle.produce(topic, message, key, partition=partition)
        assert self._handle.flush(PATIENCE) == 0
