"""Broker fixtures for the tests of this folder."""

from tests.integration.broker_kafka import kafka_broker

__all__ = ["kafka_broker"]
