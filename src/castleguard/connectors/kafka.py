"""Kafka: a topic as a source, a topic as a sink.

The source assigns itself all partitions and keeps its own positions; what it commits to its consumer group is only for
people to see. It reads committed messages alone.

The sink writes a segment in one transaction, and in the same transaction commits the segment's number as the offset of
a consumer group that nobody else uses. So the messages and the number become visible together or not at all, and
after a crash the brokers know which segment came last.
"""

import logging
import re
import time
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.connectors.base import BadRow, Position, Read
from castleguard.connectors.kafka_options import KafkaSink, KafkaSource, Setting
from castleguard.connectors.payloads import read_payloads, write_payloads
from castleguard.connectors.registry import Connector, Finding
from castleguard.connectors.text import as_text
from castleguard.errors import CastleguardError, ConfigError, InputError, OutputError, SchemaError, UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

SEGMENT_HEADER = "castleguard-segment"

_PARTITIONS_EVERY = 30.0  # seconds between two looks for new partitions
_TOMBSTONE = "it has no value (a tombstone)"
_CHECK = 5.0  # seconds that a look at the brokers may take before a job runs
_PROBE = 1.0  # seconds that a look at the brokers may take while rows are waited for

_log = logging.getLogger(__name__)


def _client() -> ModuleType:
    try:
        import confluent_kafka
    except ImportError as exc:
        raise ConfigError("kafka needs its client library: pip install 'castleguard[kafka]'") from exc
    return confluent_kafka


# What went wrong


def _error_of(exc: Exception) -> "KafkaError":
    error: KafkaError = exc.args[0]
    return error


def _never_works(error: "KafkaError") -> bool:
    """Whether the same request would fail again for as long as nobody changes something."""
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


def _sentence(error: "KafkaError") -> str:
    """What the client says, without what only its authors understand."""
    return re.sub(r"^(Broker|Local): | \(after .*\)$|/bootstrap", "", error.str()).rstrip(".")


def _configured(make: Any, settings: dict[str, Setting], **callbacks: Any) -> Any:
    """A client. Raises ConfigError if it does not take the settings; never with what they are set to."""
    try:
        return make({**settings, **callbacks, "logger": _log})
    except _client().KafkaException as exc:
        text = _sentence(_error_of(exc))
        for value in settings.values():
            if isinstance(value, str) and value:
                text = text.replace(value, "****")
        raise ConfigError(f"the Kafka client does not take its settings: {text}") from exc


class _Health:
    """What the client reports in the background: connections that fail are no error of any one call."""

    def __init__(self, where: str) -> None:
        self.down = False
        self._where = where
        self._worked = False
        self._reason = ""
        self._refused = False

    def report(self, error: "KafkaError") -> None:
        """Called by the client, in the thread that uses it."""
        kind = type(error)
        if error.code() in {kind._AUTHENTICATION, kind._SSL, kind.SASL_AUTHENTICATION_FAILED}:
            self._refused = True
            self._reason = _sentence(error)
        elif error.code() == kind._ALL_BROKERS_DOWN:
            self._reason = self._reason or "no broker answers"
        elif not self._refused:
            self._reason = _sentence(error)
        self.down = True

    def well(self) -> None:
        """An answer came."""
        self.down = self._refused = False
        self._worked = True
        self._reason = ""

    def failure(self, error: "KafkaError", wrong: type[CastleguardError]) -> CastleguardError:
        """The error to raise for a failed request: `wrong` if it never will work."""
        if error.code() in {error.UNKNOWN_TOPIC_OR_PART, error._UNKNOWN_TOPIC}:
            return wrong(f"{self._where} does not exist, or may not be seen")
        if _never_works(error):
            return wrong(f"{self._where}: {_sentence(error)}")
        # Refused before anything worked is a wrong password or certificate; later it is a broker in trouble.
        if self._refused and not self._worked:
            return wrong(f"{self._where}: the brokers refuse the connection: {self._reason}")
        return UnavailableError(f"{self._where} cannot be reached: {self._reason or _sentence(error)}")


def _partitions(client: Any, topic: str, timeout: float) -> list[int]:
    """The partitions of a topic. Raises KafkaException."""
    found = client.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is not None:
        raise _client().KafkaException(found.error)
    return sorted(found.partitions)


# The source


class _Source:
    """See `base.Source`. A position is the next offset of every partition: {"0": 17, "1": 4}."""

    finished = False

    def __init__(self, options: KafkaSource, columns: Sequence[str], position: Position | None) -> None:
        self._kafka = _client()
        self._options = options
        self._columns = list(columns)
        self._payload_columns = [name for name in columns if name != options.key_column]
        self._health = _Health(f"topic {options.topic}")
        self._consumer: Consumer | None = None
        self._first_start = not position
        self._next = {int(partition): int(offset) for partition, offset in (position or {}).items()}
        self._assigned: set[int] = set()
        self._ends: dict[int, int] = {}
        self._looked = 0.0
        self._trouble: KafkaError | None = None
        self._trouble_at = -1

    def read(self, timeout: float) -> Read | None:
        """Whatever has arrived, up to a batch."""
        self._connect()
        if self._trouble is not None:  # came together with the messages of the read before
            raise self._failure()
        messages = self._consume(timeout)
        if messages:
            return self._read(messages)
        if self._trouble is not None:
            raise self._failure()
        if self._health.down:
            self._probe()
        return None

    def position(self) -> Position:
        """The next offset of every partition."""
        return {str(partition): offset for partition, offset in sorted(self._next.items())}

    def acknowledge(self, position: Position) -> None:
        """Show the position in the consumer group. Not waited for: nobody continues from there."""
        if self._consumer is not None and position:
            offsets = [self._place(int(partition), offset) for partition, offset in position.items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except self._kafka.KafkaException as exc:
                raise self._health.failure(_error_of(exc), UnavailableError) from exc

    def lag(self) -> int | None:
        """From the ends of the partitions that came with the last messages."""
        if self._consumer is None or not self._assigned:
            return None
        for partition, end in self._ends.items():
            _, later = self._consumer.get_watermark_offsets(self._place(partition), cached=True)
            self._ends[partition] = max(end, later)
        return sum(max(end - self._next[partition], 0) for partition, end in self._ends.items())

    def close(self) -> None:
        """Leave the brokers."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _connect(self) -> None:
        """Assign all partitions, also those that came since the last look."""
        now = time.monotonic()
        if self._assigned and now < self._looked + _PARTITIONS_EVERY:
            return
        self._looked = now
        try:
            if self._consumer is None:
                settings = self._options.reader_settings()
                self._consumer = _configured(self._kafka.Consumer, settings, error_cb=self._health.report)
            timeout = _PROBE if self._assigned else self._options.timeout
            partitions = _partitions(self._consumer, self._options.topic, timeout)
            self._health.well()
            added = [partition for partition in partitions if partition not in self._assigned]
            starts = {partition: self._start(partition) for partition in added}
        except self._kafka.KafkaException as exc:
            error = _error_of(exc)
            if self._assigned and not _never_works(error):
                return  # what is assigned can still be read, and a broker that is down shows there
            if self._consumer is not None and not self._assigned:
                self._consumer.poll(0)  # what the client reported in the background says more than a time-out
            raise self._health.failure(error, InputError) from exc
        gone = self._next.keys() - set(partitions)
        if gone:
            raise InputError(f"topic {self._options.topic} has no partition {min(gone)} any more: it was made anew")
        if starts:
            self._next |= starts
            self._consumer.incremental_assign([self._place(*start) for start in starts.items()])
            self._assigned |= starts.keys()

    def _start(self, partition: int) -> int:
        """Where to begin in a partition. Raises KafkaException, InputError."""
        assert self._consumer is not None
        low, high = self._consumer.get_watermark_offsets(self._place(partition), timeout=self._options.timeout)
        self._ends[partition] = high
        known = self._next.get(partition)
        if known is not None:
            if not low <= known <= high:
                raise self._lost(partition, known, low)
            return known
        return high if self._first_start and not self._assigned and self._options.start == "end" else low

    def _consume(self, timeout: float) -> "list[Message]":
        """Messages with a payload; ends and errors of partitions are noted."""
        assert self._consumer is not None
        deadline = time.monotonic() + timeout
        while True:
            arrived = self._consumer.consume(self._options.batch_messages, timeout=0)
            if not arrived and self._trouble is None:
                # Waiting for a whole batch would hold back the first of its messages.
                arrived = self._consumer.consume(1, timeout=max(deadline - time.monotonic(), 0))
                if arrived and self._options.batch_messages > 1:
                    arrived += self._consumer.consume(self._options.batch_messages - 1, timeout=0)
            messages = [message for message in arrived if message.error() is None or self._note(message)]
            if messages or self._trouble is not None or time.monotonic() >= deadline:
                return messages

    def _note(self, message: "Message") -> bool:
        """Remember what is not a message. Never one: False."""
        error, partition, offset = message.error(), message.partition(), message.offset()
        assert error is not None
        if error.code() != error._PARTITION_EOF:
            self._trouble, self._trouble_at = error, -1 if partition is None else partition
        elif partition in self._next and offset is not None and offset >= 0:
            # Everything before the end has been read or is not for us: aborted, or a mark of a transaction.
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
        bad = [(int(full[one.message]), one.reason, one.raw) for one in found.bad]
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
        """The rows with their messages' keys as a column; a message whose key is no text is left out."""
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
        """The error that a partition reported, which is forgotten."""
        error, partition, self._trouble = self._trouble, self._trouble_at, None
        assert error is not None
        assert self._consumer is not None
        if error.code() not in {error._AUTO_OFFSET_RESET, error.OFFSET_OUT_OF_RANGE, error._LOG_TRUNCATION}:
            return self._health.failure(error, InputError)
        try:
            low, _ = self._consumer.get_watermark_offsets(self._place(partition), timeout=self._options.timeout)
        except self._kafka.KafkaException as exc:
            return self._health.failure(_error_of(exc), InputError)
        return self._lost(partition, self._next.get(partition, 0), low)

    def _lost(self, partition: int, offset: int, low: int) -> InputError:
        where = f"topic {self._options.topic}[{partition}] has no offset {offset}"
        if offset < low:
            return InputError(
                f"{where} any more: {low - offset} rows were deleted before they were read; "
                "give the topic a longer retention, and begin anew without the old checkpoint"
            )
        return InputError(f"{where}: it ends before what was already read, so it was made anew or lost rows")

    def _probe(self) -> None:
        """Ask the brokers whether they are back."""
        assert self._consumer is not None
        try:
            _partitions(self._consumer, self._options.topic, _PROBE)
        except self._kafka.KafkaException as exc:
            raise self._health.failure(_error_of(exc), InputError) from exc
        self._health.well()

    def _place(self, partition: int, offset: int = -1001) -> Any:
        return self._kafka.TopicPartition(self._options.topic, partition, offset)


# The sink


class _Sink:
    """See `base.Sink`."""

    exactly_once = True

    def __init__(self, options: KafkaSink) -> None:
        self._kafka = _client()
        self._options = options
        self._health = _Health(f"topic {options.topic}")
        self._producer: Producer | None = None
        self._numbers: Consumer | None = None
        self._last = 0

    def last(self) -> int:
        """The committed number. Asked as the owner of the transactional id, so that no older delivery can follow."""
        self._connect()
        return self._last

    def deliver(self, number: int, table: pa.Table) -> None:
        """Write a segment in one transaction:

        (1) become the owner of the transactional id, if we are not, which ends whatever was left open before;
        (2) look at what is there: the attempt before this one may have arrived after all;
        (3) the messages;
        (4) the number;
        (5) the commit.
        """
        messages = write_payloads(self._options.format, table)
        keys = self._keys(table, len(messages))
        self._connect()  # (1)
        if self._last == number:  # (2)
            return
        if self._last > number:
            raise self._taken_over(f"segment {self._last} is there already, and this is {number}")
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
            failure = self._failure(_error_of(exc))
            self._give_up()
            raise failure from exc
        except BaseException:
            self._give_up()
            raise
        self._last = number
        self._health.well()

    def close(self) -> None:
        """Leave the brokers."""
        self._give_up()
        numbers, self._numbers = self._numbers, None
        if numbers is not None:
            numbers.close()

    def _connect(self) -> None:
        """A producer that owns the transactional id, and the number of the last segment. Nothing if there is one."""
        if self._producer is not None:
            return
        options = self._options
        if self._numbers is None:
            self._numbers = _configured(self._kafka.Consumer, options.numbers_settings(), error_cb=self._health.report)
        producer = _configured(self._kafka.Producer, options.writer_settings(), error_cb=self._health.report)
        try:
            _partitions(self._numbers, options.topic, options.timeout)
            producer.init_transactions(options.timeout)
            place = self._kafka.TopicPartition(options.topic, 0)
            committed = self._numbers.committed([place], timeout=options.timeout)[0]
            if committed.error is not None:
                raise self._kafka.KafkaException(committed.error)
        except self._kafka.KafkaException as exc:
            producer.poll(0)  # as above
            self._numbers.poll(0)
            raise self._failure(_error_of(exc)) from exc
        self._health.well()
        self._last = max(committed.offset, 0)
        self._producer = producer

    def _produce(self, number: int, messages: Sequence[bytes], keys: Sequence[str | None]) -> None:
        """Hand all messages to the client, waiting where its queue is full."""
        assert self._producer is not None
        produce, topic = self._producer.produce, self._options.topic
        headers: Any = [(SEGMENT_HEADER, str(number).encode())]
        full_until = time.monotonic() + self._options.timeout
        for message, key in zip(messages, keys, strict=True):
            while True:
                try:
                    produce(topic, message, key, headers=headers)
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
        if name not in table.column_names:
            raise OutputError(f"key_column {name!r} is not published: there are {', '.join(table.column_names)}")
        keys: list[str | None] = as_text(table[name]).to_pylist()
        return keys

    def _failure(self, error: "KafkaError") -> CastleguardError:
        if error.code() in {error._FENCED, error.PRODUCER_FENCED, error.INVALID_PRODUCER_EPOCH}:
            return self._taken_over("or a transaction took longer than transaction_timeout")
        return self._health.failure(error, OutputError)

    def _taken_over(self, detail: str) -> OutputError:
        return OutputError(
            f"topic {self._options.topic}: another process has taken over the transactional id "
            f"{self._options.transactional_id!r} ({detail}); nothing of this segment was published by this one"
        )

    def _give_up(self) -> None:
        """Drop the producer; whatever it has not committed is ended by the next one, or by the brokers in time."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge()
            producer.abort_transaction(_PROBE)
        except self._kafka.KafkaException as exc:
            _log.debug("no transaction was aborted: %s", _sentence(_error_of(exc)))


# The connector


def open_source(options: KafkaSource, columns: Sequence[str], position: Position | None) -> _Source:
    """A topic, from a position. The brokers are asked at the first read."""
    for name in columns:
        if options.format == "csv" and name != options.key_column and options.columns.count(name) != 1:
            raise SchemaError(f"the option columns must have the declared column {name!r} once")
    if options.key_column is not None and options.key_column not in columns:
        raise SchemaError(f"key_column {options.key_column!r} is not a declared column")
    return _Source(options, columns, position)


def open_sink(options: KafkaSink) -> _Sink:
    """A topic to write to. The brokers are asked when `last` is."""
    options.writer_settings()
    return _Sink(options)


def check(options: KafkaSource | KafkaSink) -> list[Finding]:
    """Whether the topic is there. Never as the producer: becoming that would end a job that is running."""
    reading = isinstance(options, KafkaSource)
    health = _Health(f"topic {options.topic}")
    settings = {**options.settings(), "group.id": "castleguard-check"}
    client = _configured(_client().Consumer, settings, error_cb=health.report)
    try:
        number = len(_partitions(client, options.topic, min(options.timeout, _CHECK)))
    except _client().KafkaException as exc:
        client.poll(0)
        error = _error_of(exc)
        if error.code() == error.UNKNOWN_TOPIC_OR_PART:
            return [(f"topic {options.topic} exists", False, "make it, or let this user see it")]
        raise health.failure(error, InputError if reading else OutputError) from exc
    finally:
        client.close()
    return [(f"topic {options.topic} exists, with {number} partition{'s' if number > 1 else ''}", True, "")]


CONNECTOR = Connector(source_options=KafkaSource, sink_options=KafkaSink, open_source=open_source, open_sink=open_sink)
