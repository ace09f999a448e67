"""A topic as a source.

It assigns itself all partitions and keeps its own positions; the offsets that it commits to its consumer group are for
monitoring only. It reads only committed messages.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

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
# Messages taken from the client at once. More of its objects alive than Python's garbage collector tolerates (700)
# make it search for cycles again and again: 10,000 at once cost four times as much.
_TAKEN = 500


@dataclass
class _Arrived:
    """The messages of one read, field by field."""

    values: list[bytes | None] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    """Empty unless keys are read."""
    next: dict[int, int] = field(default_factory=dict)
    """The next offset of every partition that they came from."""


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
        arrived = self._consume(timeout)
        read = self._read(arrived) if arrived.values else None
        self._next |= arrived.next  # last: a read that is interrupted has returned no rows
        if read is not None:
            return read
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

    def _consume(self, timeout: float) -> _Arrived:
        """Up to a batch of messages; the ends and errors of partitions are recorded."""
        deadline = time.monotonic() + timeout
        arrived = _Arrived()
        while True:
            most = self._options.batch_messages
            found = self._take(arrived, most, 0)
            # Waiting for a whole batch would delay the first of its messages.
            if not found and self._take(arrived, 1, max(deadline - time.monotonic(), 0)):
                self._take(arrived, most - 1, 0)
            if arrived.values or self._partition_error is not None or time.monotonic() >= deadline:
                return arrived

    def _take(self, arrived: _Arrived, most: int, timeout: float) -> bool:
        """Take up to `most` messages and events that have arrived; whether there were any."""
        assert self._consumer is not None
        left = most
        while left > 0 and self._partition_error is None:
            asked = min(left, _TAKEN)
            messages = self._consumer.consume(asked, timeout=timeout)
            self._add(arrived, messages)
            left -= len(messages)
            if len(messages) < asked:
                break
        return left < most

    def _add(self, arrived: _Arrived, messages: "list[Message]") -> None:
        """Note the messages, and where they end."""
        kind = self._kafka.Message  # its methods are called by `map`, because a call per message and field counts
        errors = map(kind.error, messages)
        events = [message for message, error in zip(messages, errors, strict=True) if error is not None]
        if events:
            messages = [message for message in messages if message.error() is None]
        partitions, offsets = list(map(kind.partition, messages)), list(map(kind.offset, messages))
        arrived.partitions += partitions
        arrived.offsets += offsets
        arrived.values += map(kind.value, messages)
        if self._options.key_column is not None:
            arrived.keys += map(kind.key, messages)
        latest = dict(zip(partitions, offsets, strict=True))  # offsets of a partition ascend
        arrived.next |= {partition: offset + 1 for partition, offset in latest.items()}
        for event in events:
            self._record(arrived, event)

    def _record(self, arrived: _Arrived, event: "Message") -> None:
        """Record the end or the error of a partition."""
        error, partition, offset = event.error(), event.partition(), event.offset()
        assert error is not None
        if error.code() != error._PARTITION_EOF:
            self._partition_error, self._error_partition = error, -1 if partition is None else partition
        elif partition in self._next and offset is not None and offset >= 0:
            # Everything before the end has been read or is not for us: aborted, or a transaction marker.
            arrived.next[partition] = max(arrived.next.get(partition, self._next[partition]), offset)
            self._health.well()

    def _read(self, arrived: _Arrived) -> Read:
        self._health.well()
        topic, values, partitions, offsets = self._options.topic, arrived.values, arrived.partitions, arrived.offsets

        def place_of(number: int) -> str:
            return f"{topic}[{partitions[number]}] offset {offsets[number]}"

        empty = [number for number, value in enumerate(values) if value is None]
        payloads = [value for value in values if value is not None] if empty else cast(list[bytes], values)
        options = self._options
        found = read_payloads(options.format, payloads, self._payload_columns, options.columns, options.fields)
        full = np.delete(np.arange(len(values)), empty)  # the messages with a value
        bad = [(int(full[one.place]), one.reason, one.raw) for one in found.bad]
        bad += [(number, _TOMBSTONE, b"") for number in empty]
        rows, message_of = found.rows, full[found.message]
        if self._options.key_column is not None:
            rows, message_of, unreadable = self._with_keys(rows, message_of, arrived.keys)
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
