"""A stand-in for a Kafka producer that changes some of its calls."""

from typing import Any


class ForwardingProducer:
    """Passes every call on to a producer, except those that a subclass defines."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)
