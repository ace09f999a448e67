"""A topic as a sink.

One transaction writes a segment and commits its number as the offset of a separate consumer group. So messages and
number become visible together or not at all, and after a crash the brokers know which segment was the last.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from castleguard.connectors.kafka.client import (
    LOG,
    PROBE_SECONDS,
    Health,
    client_library,
    configured,
    error_of,
    error_text,
    partitions_of,
)
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions
from castleguard.connectors.payloads import check_payloads, write_payloads
from castleguard.connectors.text_columns import as_text
from castleguard.errors import CastleguardError, OutputError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

SEGMENT_HEADER = "castleguard-segment"
_MESSAGE_BYTES = 1_000_000  # librdkafka's own limit
_ENVELOPE_BYTES = 4096  # headers; the schema of an Arrow message, and the room between its buffers


class KafkaSink:
    """See `base.Sink`."""

    exactly_once = True

    @property
    def longest_row(self) -> int | None:
        """The client's limit. A lower limit of the topic (max.message.bytes) is unknown here."""
        return int(self._options.client.get("message.max.bytes", _MESSAGE_BYTES)) - _ENVELOPE_BYTES

    def __init__(self, options: KafkaSinkOptions) -> None:
        self._kafka = client_library()
        self._options = options
        self._health = Health(f"topic {options.topic}")
        self._producer: Producer | None = None
        self._numbers: Consumer | None = None
        self._last = 0

    def last(self) -> int:
        """The committed number, read as the owner of the transactional id, so that no older delivery can follow."""
        self._connect()
        return self._last

    def check(self, columns: pa.Schema) -> None:
        """Check that messages can hold these columns, and that one of them is the key."""
        check_payloads(self._options.format, columns, f"topic {self._options.topic}")
        name = self._options.key_column
        if name is not None and name not in columns.names:
            raise OutputError(f"key_column {name!r} is not published: name one of {', '.join(columns.names)}")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Write a segment in one transaction:

        (1) become the owner of the transactional id, which aborts any open transaction;
        (2) check the last number: an earlier attempt may have arrived;
        (3) send the messages;
        (4) send the number;
        (5) commit.
        """
        messages = write_payloads(self._options.format, table, csv=self._options.csv)
        keys = self._keys(table, len(messages))
        self._connect()  # (1)
        if self._last == number:  # (2)
            return
        if self._last > number:
            raise self._fenced(f"segment {self._last} was already delivered, and this is {number}")
        assert self._producer is not None
        assert self._numbers is not None
        timeout = self._options.timeout
        try:
            self._producer.begin_transaction()
            self._produce(number, messages, keys)  # (3)
            self._producer.send_offsets_to_transaction(  # (4)
                [self._kafka.TopicPartition(self._options.topic, 0, number)],
                self._numbers.consumer_group_metadata(),
                timeout,
            )
            self._producer.commit_transaction(timeout)  # (5)
        except self._kafka.KafkaException as exc:
            failure = self._failure(error_of(exc))
            self._drop_producer()
            raise failure from exc
        except BaseException:
            self._drop_producer()
            raise
        self._last = number
        self._health.well()

    def close(self) -> None:
        """Disconnect."""
        self._drop_producer()
        numbers, self._numbers = self._numbers, None
        if numbers is not None:
            numbers.close()

    def _connect(self) -> None:
        """Make a producer that owns the transactional id, unless there is one, and read the last segment number."""
        if self._producer is not None:
            return
        options = self._options
        if self._numbers is None:
            self._numbers = configured(self._kafka.Consumer, options.numbers_settings(), error_cb=self._health.report)
        producer = configured(self._kafka.Producer, options.writer_settings(), error_cb=self._health.report)
        try:
            partitions_of(self._numbers, options.topic, options.timeout)
            producer.init_transactions(options.timeout)
            place = self._kafka.TopicPartition(options.topic, 0)
            committed = self._numbers.committed([place], timeout=options.timeout)[0]
            if committed.error is not None:
                raise self._kafka.KafkaException(committed.error)
        except self._kafka.KafkaException as exc:
            producer.poll(0)  # the client's background report explains more than a timeout
            self._numbers.poll(0)
            raise self._failure(error_of(exc)) from exc
        self._health.well()
        self._last = max(committed.offset, 0)
        self._producer = producer

    def _produce(self, number: int, messages: Sequence[bytes], keys: Sequence[str | None]) -> None:
        """Hand all messages to the client, waiting while its queue is full.

        All have the same timestamp and headers, so that the rows of a release differ only in their values.
        """
        assert self._producer is not None
        produce, topic = self._producer.produce, self._options.topic
        headers: Any = [(SEGMENT_HEADER, str(number).encode())] if self._options.segment_header else None
        moment = int(time.time() * 1000)
        full_until = time.monotonic() + self._options.timeout
        for message, key in zip(messages, keys, strict=True):
            while True:
                try:
                    # By position (key, partition, two callbacks, timestamp, headers): names take as long as the rest.
                    produce(topic, message, key, -1, None, None, moment, headers)
                    break
                except BufferError as exc:
                    if self._producer.poll(0.1):
                        full_until = time.monotonic() + self._options.timeout
                    elif time.monotonic() > full_until:
                        raise UnavailableError(f"topic {topic} takes no messages now") from exc
        self._producer.poll(0)

    def _keys(self, table: pa.Table, messages: int) -> Sequence[str | None]:
        name = self._options.key_column
        if name is None:
            return [None] * messages
        keys: list[str | None] = as_text(table[name]).to_pylist()
        return keys

    def _failure(self, error: "KafkaError") -> CastleguardError:
        if error.code() in {error._FENCED, error.PRODUCER_FENCED, error.INVALID_PRODUCER_EPOCH}:
            return self._fenced("or a transaction took longer than transaction_timeout")
        return self._health.failure(error, OutputError)

    def _fenced(self, detail: str) -> OutputError:
        return OutputError(
            f"topic {self._options.topic}: another process has taken over the transactional id "
            f"{self._options.transactional_id!r} ({detail}); nothing of this segment was published by this one"
        )

    def _drop_producer(self) -> None:
        """Drop the producer; the next one, or the brokers' timeout, aborts its open transaction."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge()
            producer.abort_transaction(PROBE_SECONDS)
        except self._kafka.KafkaException as exc:
            LOG.debug("no transaction was aborted: %s", error_text(error_of(exc)))
