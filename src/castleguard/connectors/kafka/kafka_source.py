"""A topic as a source.

It assigns itself all partitions and keeps its own positions; the offsets that it commits to its consumer group are for
monitoring only. It reads only committed messages.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.connectors.base import BadRow, Position, Read
from castleguard.connectors.kafka.client import (
    PROBE_SECONDS,
    Health,
    client_library,
    configured,
    error_of,
    is_permanent,
    partitions_of,
)
from castleguard.connectors.kafka.kafka_options import KafkaSourceOptions
from castleguard.connectors.payloads import read_payloads
from castleguard.errors import CastleguardError, InputError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

PARTITIONS_EVERY = 30.0  # seconds between two searches for new partitions
_TOMBSTONE = "it has no value (a tombstone)"


class KafkaSource:
    """See `base.Source`. A position is the next offset of every partition: {"0": 17, "1": 4}."""

    finished = False

    def __init__(self, options: KafkaSourceOptions, columns: Sequence[str], position: Position | None) -> None:
        self._kafka = client_library()
        self._options = options
        self._columns = list(columns)
        self._payload_columns = [name for name in columns if name != options.key_column]
        self._health = Health(f"topic {options.topic}")
        self._consumer: Consumer | None = None
        self._first_start = not position
        self._next = {int(partition): int(offset) for partition, offset in (position or {}).items()}
        self._assigned: set[int] = set()
        self._ends: dict[int, int] = {}
        self._listed_at = 0.0
        self._partition_error: KafkaError | None = None
        self._error_partition = -1

    def read(self, timeout: float) -> Read | None:
        """The messages that have arrived, up to a batch."""
        self._connect()
        if self._partition_error is not None:  # arrived together with the messages of the last read
            raise self._failure()
        messages = self._consume(timeout)
        if messages:
            return self._read(messages)
        if self._partition_error is not None:
            raise self._failure()
        if self._health.down:
            self._probe()
        return None

    def position(self) -> Position:
        """The next offset of every partition."""
        return {str(partition): offset for partition, offset in sorted(self._next.items())}

    def acknowledge(self, position: Position) -> None:
        """Show the position in the consumer group, without waiting: no restore reads it."""
        if self._consumer is not None and position:
            offsets = [self._place(int(partition), offset) for partition, offset in position.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except self._kafka.KafkaException as exc:
                raise self._health.failure(error_of(exc), UnavailableError) from exc

    def lag(self) -> int | None:
        """Distance to the ends of the partitions that came with the last messages."""
        if self._consumer is None or not self._assigned:
            return None
        for partition, end in self._ends.items():
            _, later = self._consumer.get_watermark_offsets(self._place(partition), cached=True)
            self._ends[partition] = max(end, later)
        return sum(max(end - self._next[partition], 0) for partition, end in self._ends.items())

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> None:
        """Assign all partitions, including new ones."""
        now = time.monotonic()
        if self._assigned and now < self._listed_at + PARTITIONS_EVERY:
            return
        self._listed_at = now
        try:
            if self._consumer is None:
                settings = self._options.reader_settings()
                self._consumer = configured(self._kafka.Consumer, settings, error_cb=self._health.report)
            timeout = PROBE_SECONDS if self._assigned else self._options.timeout
            partitions = partitions_of(self._consumer, self._options.topic, timeout)
            self._health.well()
            added = [partition for partition in partitions if partition not in self._assigned]
            starts = {partition: self._start(partition) for partition in added}
        except self._kafka.KafkaException as exc:
            error = error_of(exc)
            if self._assigned and not is_permanent(error):
                return  # assigned partitions can still be read, and reading them reports a broker that is down
            if self._consumer is not None and not self._assigned:
                self._consumer.poll(0)  # the client's background report explains more than a timeout
            raise self._health.failure(error, InputError) from exc
        gone = self._next.keys() - set(partitions)
        if gone:
            raise InputError(f"topic {self._options.topic} has lost partition {min(gone)}: it was created again")
        if starts:
            self._next |= starts
            self._consumer.incremental_assign([self._place(*start) for start in starts.items()])
            self._assigned |= starts.keys()

    def _start(self, partition: int) -> int:
        """First offset to read from a partition. Raises KafkaException, InputError."""
        assert self._consumer is not None
        low, high = self._consumer.get_watermark_offsets(self._place(partition), timeout=self._options.timeout)
        self._ends[partition] = high
        known = self._next.get(partition)
        if known is not None:
            if not low <= known <= high:
                raise self._lost_offset(partition, known, low)
            return known
        return high if self._first_start and not self._assigned and self._options.start == "end" else low

    def _consume(self, timeout: float) -> "list[Message]":
        """Messages; the ends and errors of partitions are recorded."""
        assert self._consumer is not None
        deadline = time.monotonic() + timeout
        while True:
            arrived = self._consumer.consume(self._options.batch_messages, timeout=0)
            if not arrived and self._partition_error is None:
                # Waiting for a whole batch would delay the first of its messages.
                arrived = self._consumer.consume(1, timeout=max(deadline - time.monotonic(), 0))
                if arrived and self._options.batch_messages > 1:
                    arrived += self._consumer.consume(self._options.batch_messages - 1, timeout=0)
            messages = [message for message in arrived if message.error() is None or self._record(message)]
            if messages or self._partition_error is not None or time.monotonic() >= deadline:
                return messages

    def _record(self, message: "Message") -> bool:
        """Record the end or the error of a partition; False, so that it is not taken for a message."""
        error, partition, offset = message.error(), message.partition(), message.offset()
        assert error is not None
        if error.code() != error._PARTITION_EOF:
            self._partition_error, self._error_partition = error, -1 if partition is None else partition
        elif partition in self._next and offset is not None and offset >= 0:
            # Everything before the end has been read or is not for us: aborted, or a transaction marker.
            self._next[partition] = max(self._next[partition], offset)
            self._health.well()
        return False

    def _read(self, messages: "list[Message]") -> Read:
        self._health.well()
        topic = self._options.topic
        partitions = [message.partition() or 0 for message in messages]
        offsets = [message.offset() or 0 for message in messages]
        self._next |= {partition: offset + 1 for partition, offset in zip(partitions, offsets, strict=True)}

        def place_of(number: int) -> str:
            return f"{topic}[{partitions[number]}] offset {offsets[number]}"

        values = [message.value() for message in messages]
        full = np.array([number for number, value in enumerate(values) if value is not None], np.int64)
        payloads = [value for value in values if value is not None]
        found = read_payloads(self._options.format, payloads, self._payload_columns, self._options.columns)
        bad = [(int(full[one.place]), one.reason, one.raw) for one in found.bad]
        if len(payloads) < len(values):
            bad += [(number, _TOMBSTONE, b"") for number, value in enumerate(values) if value is None]
        rows, message_of = found.rows, full[found.message]
        if self._options.key_column is not None:
            rows, message_of, unreadable = self._with_keys(rows, message_of, [message.key() for message in messages])
            bad += [(number, "its key is not UTF-8", values[number] or b"") for number in unreadable]
        in_order = sorted(bad, key=lambda one: one[0])
        return Read(
            rows,
            lambda row: place_of(int(message_of[row])),
            tuple(BadRow(place_of(number), reason, raw) for number, reason, raw in in_order),
        )

    def _with_keys(
        self, rows: pa.RecordBatch, message_of: NDArray[np.int64], keys: Sequence[bytes | None]
    ) -> tuple[pa.RecordBatch, NDArray[np.int64], list[int]]:
        """The rows with their messages' keys as a column; messages with a key that is not text are left out."""
        texts: list[str | None] = []
        unreadable: list[int] = []
        for number, key in enumerate(keys):
            try:
                texts.append(None if key is None else key.decode())
            except UnicodeDecodeError:
                texts.append(None)
                unreadable.append(number)
        if unreadable:
            keep = ~np.isin(message_of, unreadable)
            rows, message_of = rows.filter(pa.array(keep)), message_of[keep]
        column = pa.array(texts, pa.string()).take(pa.array(message_of))
        columns = {name: column if name == self._options.key_column else rows[name] for name in self._columns}
        return pa.RecordBatch.from_pydict(columns), message_of, unreadable

    def _failure(self) -> CastleguardError:
        """The error that a partition reported; it is reported once."""
        error, partition, self._partition_error = self._partition_error, self._error_partition, None
        assert error is not None
        assert self._consumer is not None
        if error.code() not in {error._AUTO_OFFSET_RESET, error.OFFSET_OUT_OF_RANGE, error._LOG_TRUNCATION}:
            return self._health.failure(error, InputError)
        try:
            low, _ = self._consumer.get_watermark_offsets(self._place(partition), timeout=self._options.timeout)
        except self._kafka.KafkaException as exc:
            return self._health.failure(error_of(exc), InputError)
        return self._lost_offset(partition, self._next.get(partition, 0), low)

    def _lost_offset(self, partition: int, offset: int, low: int) -> InputError:
        where = f"topic {self._options.topic}[{partition}] has no offset {offset}"
        if offset < low:
            return InputError(
                f"{where} any more: {low - offset} rows were deleted before they were read; "
                "give the topic a longer retention, and start a new job without the old checkpoint"
            )
        return InputError(f"{where}: it ends before rows that were already read, so it was created again or lost rows")

    def _probe(self) -> None:
        """Check whether the brokers are back. Raises UnavailableError."""
        assert self._consumer is not None
        try:
            partitions_of(self._consumer, self._options.topic, PROBE_SECONDS)
        except self._kafka.KafkaException as exc:
            raise self._health.failure(error_of(exc), InputError) from exc
        self._health.well()

    def _place(self, partition: int, offset: int = -1001) -> Any:
        return self._kafka.TopicPartition(self._options.topic, partition, offset)
