"""A process that delivers a segment to Kafka and stops at a named step, for a test to kill it there.

    python -m tests.integration.kafka_victim BROKERS TOPIC STEP

It prints "stopped" at that step and then waits to be killed.
"""

import sys
import time
from typing import Any

import pyarrow as pa

from castleguard.connectors.kafka import open_sink
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions
from tests.integration.forwarding import ForwardingProducer
from tests.patience import PATIENCE

STEPS = ["messages", "number", "commit"]


class Stopping(ForwardingProducer):
    """The producer up to a step."""

    def __init__(self, producer: Any, step: str) -> None:
        super().__init__(producer)
        self._step = step

    def send_offsets_to_transaction(self, *args: Any) -> None:
        if self._step == "messages":
            self._producer.flush(PATIENCE)  # so that the messages are in the topic and not only in this process
            stop()
        self._producer.send_offsets_to_transaction(*args)
        if self._step == "number":
            self._producer.flush(PATIENCE)
            stop()

    def commit_transaction(self, *args: Any) -> None:
        self._producer.commit_transaction(*args)
        stop()


def stop() -> None:
    sys.stdout.write("stopped\n")
    sys.stdout.flush()
    time.sleep(600)


def main(brokers: str, topic: str, step: str) -> None:
    sink: Any = open_sink(KafkaSinkOptions(brokers=brokers, topic=topic, transactional_id=topic))
    sink.last()
    sink._producer = Stopping(sink._producer, step)
    sink.deliver(1, pa.table({"n": list(range(100))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
