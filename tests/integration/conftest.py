"""The brokers that the tests of this folder may ask for."""

from tests.integration.broker_kafka import kafka_broker

__all__ = ["kafka_broker"]
