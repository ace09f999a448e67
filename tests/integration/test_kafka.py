"""Kafka against a real broker: positions, transactions, crashes, an unavailable broker."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer

from castleguard.connectors import kafka
from castleguard.connectors.base import Position, Sink, Source
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions, KafkaSourceOptions, Sasl, Tls
from castleguard.errors import CastleguardError, InputError, OutputError, UnavailableError
from tests.integration.broker_kafka import PASSWORD, USER, Broker
from tests.integration.forwarding import ForwardingProducer
from tests.integration.kafka_victim import STEPS
from tests.patience import PATIENCE, eventually

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def opened_source(broker: Broker, topic: str, position: Position | None = None, **options: Any) -> Source:
    return kafka.open_source(
        KafkaSourceOptions(brokers=broker.address, topic=topic, **{"timeout": PATIENCE, **options}), ["n"], position
    )


@contextmanager
def source(broker: Broker, topic: str, position: Position | None = None, **options: Any) -> Iterator[Source]:
    with closing(opened_source(broker, topic, position, **options)) as opened:
        yield opened


@contextmanager
def sink(broker: Broker, topic: str, **options: Any) -> Iterator[Sink]:
    options = {"transactional_id": topic, "timeout": PATIENCE, "transaction_timeout": PATIENCE, **options}
    with closing(kafka.open_sink(KafkaSinkOptions(brokers=broker.address, topic=topic, **options))) as opened:
        yield opened


def produce(broker: Broker, topic: str, numbers: Iterable[int], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in numbers:
        producer.produce(topic, json.dumps({"n": number}).encode(), partition=partition)
    assert producer.flush(PATIENCE) == 0


def read_all(opened: Source, rows: int) -> list[tuple[str, int]]:
    """This many rows with their places, in reading order; fails if they do not arrive."""
    found: list[tuple[str, int]] = []

    def come() -> bool:
        read = opened.read(0.5)
        if read is not None:
            values = read.rows.column(0).to_pylist()
            found.extend((read.place(number), int(value)) for number, value in enumerate(values))
        return len(found) >= rows

    eventually(come, "not all rows come")
    return found


def numbers(broker: Broker, topic: str, isolation: str = "read_committed") -> list[int]:
    return sorted(json.loads(message.value() or b"")["n"] for message in broker.messages(topic, isolation=isolation))


def table(*values: int) -> pa.Table:
    return pa.table({"n": list(values)})


# The source


def test_rows_of_a_partition_keep_their_order_and_places(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic(partitions=3)
    for partition in range(3):
        produce(kafka_broker, topic, range(partition, 300, 3), partition)
    with source(kafka_broker, topic, batch_messages=70) as opened:
        found = read_all(opened, 300)
        assert opened.read(0) is None
        assert opened.finished is False
    for partition in range(3):
        places = [f"{topic}[{partition}] offset {offset}" for offset in range(100)]
        assert [item for item in found if item[1] % 3 == partition] == list(
            zip(places, range(partition, 300, 3), strict=True)
        )


def test_any_position_restores(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic(partitions=2)
    produce(kafka_broker, topic, range(0, 50), 0)
    produce(kafka_broker, topic, range(50, 80), 1)
    read: list[int] = []
    position: Position | None = None
    while len(read) < 80:
        with source(kafka_broker, topic, position, batch_messages=7) as opened:
            found = opened.read(PATIENCE)
            assert found is not None
            read += map(int, found.rows.column(0).to_pylist())
            position = json.loads(json.dumps(opened.position()))
    assert sorted(read) == list(range(80))
    assert position == {"0": 50, "1": 30}


def test_position_of_the_group_is_never_used(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(10))
    with source(kafka_broker, topic, group=topic) as opened:
        read_all(opened, 10)
        opened.acknowledge(opened.position())
    eventually(lambda: kafka_broker.committed(topic, 1, topic) == [10])
    with source(kafka_broker, topic, group=topic) as opened:
        assert len(read_all(opened, 10)) == 10
    with source(kafka_broker, topic, {"0": 4}, group=topic) as opened:
        assert [number for _, number in read_all(opened, 6)] == list(range(4, 10))


def test_aborted_messages_are_never_read_and_leave_no_lag(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    producer = Producer({"bootstrap.servers": kafka_broker.address, "transactional.id": topic})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, json.dumps({"n": number}).encode())
        producer.flush(PATIENCE)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(PATIENCE)
    with source(kafka_broker, topic) as opened:
        assert [number for _, number in read_all(opened, 3)] == [0, 2, 4]
        eventually(lambda: opened.read(0.1) is None and opened.lag() == 0)
        assert opened.position() == {"0": 12}
    assert numbers(kafka_broker, topic, "read_uncommitted") == list(range(6))


def test_lag_counts_unread_messages(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(100))
    with source(kafka_broker, topic, batch_messages=30) as opened:
        assert opened.lag() is None
        assert opened.read(PATIENCE) is not None
        read = opened.position()["0"]
        eventually(lambda: opened.lag() == 100 - read)


def test_new_job_may_begin_at_the_end(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(10))
    with source(kafka_broker, topic, start="end") as opened:
        assert opened.read(0.2) is None
        produce(kafka_broker, topic, [10])
        assert [number for _, number in read_all(opened, 1)] == [10]
        position = opened.position()
    produce(kafka_broker, topic, [11])
    with source(kafka_broker, topic, position, start="end") as opened:
        assert [number for _, number in read_all(opened, 1)] == [11]


def test_new_partitions_are_read_from_their_beginning(kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castleguard.connectors.kafka.kafka_source.PARTITIONS_EVERY", 0.2)
    topic = kafka_broker.topic()
    with source(kafka_broker, topic, start="end") as opened:
        assert opened.read(0.2) is None
        kafka_broker.add_partitions(topic, 2)
        produce(kafka_broker, topic, [1], 1)
        assert read_all(opened, 1) == [(f"{topic}[1] offset 0", 1)]
        position = opened.position()
    kafka_broker.add_partitions(topic, 3)
    produce(kafka_broker, topic, [2], 2)
    with source(kafka_broker, topic, position, start="end") as opened:
        assert read_all(opened, 1) == [(f"{topic}[2] offset 0", 2)]


def test_bad_messages_and_tombstones_are_handed_out_with_their_places(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    producer = Producer({"bootstrap.servers": kafka_broker.address})
    for value in (b'{"n": 1}', b"oops", None, b'{"n": 2}\n{"n": 3}'):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0
    rows: list[tuple[str, int]] = []
    bad: list[tuple[str, bytes]] = []
    with source(kafka_broker, topic) as opened:
        while len(rows) + len(bad) < 5:
            read = opened.read(PATIENCE)
            assert read is not None
            rows += [(read.place(row), int(value)) for row, value in enumerate(read.rows.column(0).to_pylist())]
            bad += [(one.place, one.raw) for one in read.bad]
    assert rows == [(f"{topic}[0] offset {offset}", number) for offset, number in [(0, 1), (3, 2), (3, 3)]]
    assert bad == [(f"{topic}[0] offset 1", b"oops"), (f"{topic}[0] offset 2", b"")]


def test_rows_deleted_before_reading_are_an_error(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(10))
    kafka_broker.delete_before(topic, 0, 6)
    with (
        source(kafka_broker, topic, {"0": 2}) as opened,
        pytest.raises(InputError, match="has no offset 2 any more: 4 rows were deleted before they were read"),
    ):
        opened.read(PATIENCE)
    with source(kafka_broker, topic) as opened:
        assert [number for _, number in read_all(opened, 4)] == [6, 7, 8, 9]


def test_rows_deleted_while_reading_are_an_error(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(5))
    with source(kafka_broker, topic, client={"fetch.wait.max.ms": 10}) as opened:
        read_all(opened, 5)
        opened._consumer.pause(opened._consumer.assignment())  # type: ignore[attr-defined]
        produce(kafka_broker, topic, range(5, 10))
        kafka_broker.delete_before(topic, 0, 8)
        opened._consumer.resume(opened._consumer.assignment())  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="3 rows were deleted before they were read"):
            read_all(opened, 5)


def test_position_after_the_end_is_an_error(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with source(kafka_broker, topic, {"0": 7}) as opened, pytest.raises(InputError, match="ends before rows that were"):
        opened.read(PATIENCE)
    with source(kafka_broker, topic, {"3": 0}) as opened, pytest.raises(InputError, match="has lost partition 3"):
        opened.read(PATIENCE)


def test_missing_topic_is_an_error(kafka_broker: Broker) -> None:
    with source(kafka_broker, "nowhere") as opened, pytest.raises(InputError, match="topic nowhere does not exist"):
        opened.read(PATIENCE)
    with sink(kafka_broker, "nowhere") as writing, pytest.raises(OutputError, match="topic nowhere does not exist"):
        writing.last()
    options = KafkaSourceOptions(brokers=kafka_broker.address, topic="nowhere")
    assert [fine for _, fine, _ in kafka.check(options)] == [False]


# The sink


def test_segment_and_number_appear_together_and_survive(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic(partitions=2)
    with sink(kafka_broker, topic, key_column="n") as writing:
        assert writing.exactly_once
        assert writing.last() == 0
        writing.deliver(3, table(1, 2, 3))
        writing.deliver(7, table(4))
    with sink(kafka_broker, topic) as writing:
        assert writing.last() == 7
    messages = kafka_broker.messages(topic)
    found = {(message.key(), message.value()) for message in messages}
    assert found == {(b"1", b'{"n":1}'), (b"2", b'{"n":2}'), (b"3", b'{"n":3}'), (b"4", b'{"n":4}')}
    assert kafka_broker.committed(topic, 1, f"{topic}-segments") == [7]


@pytest.mark.parametrize(("header", "expected"), [(False, ()), (True, (("castleguard-segment", b"1"),))])
def test_messages_of_a_segment_share_timestamp_and_headers(
    kafka_broker: Broker, header: bool, expected: tuple[tuple[str, bytes], ...]
) -> None:
    topic = kafka_broker.topic()
    before = time.time()
    with sink(kafka_broker, topic, segment_header=header) as writing:
        writing.deliver(1, table(*range(20_000)))
    messages = kafka_broker.messages(topic)
    assert len(messages) == 20_000
    ((kind, moment),) = {message.timestamp() for message in messages}
    assert kind == TIMESTAMP_CREATE_TIME
    assert int(before * 1000) <= moment <= time.time() * 1000
    assert {tuple(message.headers() or []) for message in messages} == {expected}
    assert {message.key() for message in messages} == {None}


def test_delivered_segment_is_not_written_again(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    for _ in range(2):
        with sink(kafka_broker, topic) as writing:
            writing.deliver(1, table(1, 2))
            writing.deliver(1, table(1, 2))
    assert numbers(kafka_broker, topic) == [1, 2]


def test_number_below_the_last_is_refused(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with sink(kafka_broker, topic) as writing:
        writing.deliver(5, table(1))
        with pytest.raises(OutputError, match="segment 5 was already delivered, and this is 4"):
            writing.deliver(4, table(2))
    assert numbers(kafka_broker, topic) == [1]


@pytest.mark.parametrize("step", STEPS)
def test_every_row_appears_once_after_a_crash_at_any_step(kafka_broker: Broker, step: str) -> None:
    topic = kafka_broker.topic()
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.kafka_victim", kafka_broker.address, topic, step],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"stopped\n"
        victim.kill()
    seen_before = numbers(kafka_broker, topic, "read_uncommitted")
    with sink(kafka_broker, topic) as writing:
        assert writing.last() == (1 if step == "commit" else 0)
        writing.deliver(1, table(*range(100)))
        writing.deliver(2, table(100))
    assert numbers(kafka_broker, topic) == list(range(101))
    assert seen_before == list(range(100))  # the crash came after the messages were in the topic


def test_fenced_process_publishes_nothing_more(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with sink(kafka_broker, topic) as older, sink(kafka_broker, topic) as newer:
        older.deliver(1, table(1))
        assert newer.last() == 1
        with pytest.raises(OutputError, match="another process has taken over"):
            older.deliver(2, table(2))
        newer.deliver(2, table(20))
    assert numbers(kafka_broker, topic) == [1, 20]


def test_oversized_message_is_an_error_and_its_segment_does_not_appear(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic(max_message_bytes="1000")
    with sink(kafka_broker, topic) as writing:
        with pytest.raises(OutputError, match=f"topic {topic}: .*larg"):
            writing.deliver(1, pa.table({"n": [1, 2], "text": ["x", "y" * 5000]}))
        assert numbers(kafka_broker, topic) == []
        writing.deliver(1, table(1))
    assert numbers(kafka_broker, topic) == [1]


def test_segment_may_exceed_the_client_queue(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic(partitions=2)
    with sink(kafka_broker, topic, client={"queue.buffering.max.messages": 500}) as writing:
        writing.deliver(1, table(*range(5000)))
    assert numbers(kafka_broker, topic) == list(range(5000))


@pytest.mark.parametrize("format", ["csv", "arrow"])
def test_source_reads_the_output_of_a_sink(kafka_broker: Broker, format: str) -> None:
    topic = kafka_broker.topic()
    with sink(kafka_broker, topic, format=format) as writing:
        writing.deliver(1, table(*range(10)))
    with source(kafka_broker, topic, format=format, columns=("n",)) as opened:
        assert [number for _, number in read_all(opened, 10)] == list(range(10))


# TLS and passwords


def secure(broker: Broker, topic: str, **options: Any) -> KafkaSourceOptions:
    known = {
        "tls": Tls(ca_file=broker.certificate),
        "sasl": Sasl(mechanism="PLAIN", user=USER, password=PASSWORD),
        "timeout": PATIENCE,
    }
    return KafkaSourceOptions(brokers=broker.secure_address, topic=topic, **{**known, **options})


def test_tls_and_password_are_accepted(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    produce(kafka_broker, topic, range(3))
    with closing(kafka.open_source(secure(kafka_broker, topic), ["n"], None)) as opened:
        assert len(read_all(opened, 3)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl": Sasl(mechanism="PLAIN", user=USER, password="wrong-secret")},
        {"tls": Tls()},
        {"tls": None, "sasl": None},
    ],
    ids=["password", "certificate", "plain"],
)
def test_refused_login_is_reported_at_once(kafka_broker: Broker, wrong: dict[str, Any]) -> None:
    options = secure(kafka_broker, kafka_broker.topic(), **{"timeout": 2.0, **wrong})
    expected = UnavailableError if wrong.get("tls", ...) is None else InputError
    found: list[CastleguardError] = []
    with closing(kafka.open_source(options, ["n"], None)) as opened:

        def refused() -> bool:
            with pytest.raises(
                (InputError, UnavailableError), match=r"refuse the connection|cannot be reached"
            ) as caught:
                opened.read(0)
            found.append(caught.value)
            return isinstance(caught.value, expected)

        eventually(refused, "the refusal is not reported")
        assert not any("secret" in str(error) for error in found)


# An unavailable broker


def check_outage(broker: Broker, topic: str, writing: Sink, attempts: int = 1) -> None:
    """Attempts to deliver segment 2 fail; when the broker answers again, segments 2 and 3 arrive once."""
    try:
        for _ in range(attempts):
            with pytest.raises(UnavailableError, match=f"topic {topic} cannot be reached"):
                writing.deliver(2, table(2, 3))
    finally:
        broker.resume()
    in_time(lambda: writing.deliver(2, table(2, 3)))
    in_time(lambda: writing.deliver(3, table(4)))
    assert numbers(broker, topic) == [1, 2, 3, 4]


def test_commit_without_an_answer_is_found_afterwards(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with sink(kafka_broker, topic, timeout=2.0) as writing:
        in_time(lambda: writing.deliver(1, table(1)))
        writing._producer = _Pausing(writing._producer, kafka_broker)  # type: ignore[attr-defined]
        check_outage(kafka_broker, topic, writing)


class _Pausing(ForwardingProducer):
    """A producer whose broker hangs at the commit."""

    def __init__(self, producer: Any, broker: Broker) -> None:
        super().__init__(producer)
        self._broker = broker

    def commit_transaction(self, timeout: float) -> None:
        assert self._producer.flush(PATIENCE) == 0
        self._broker.pause()
        self._producer.commit_transaction(timeout)


def test_hanging_broker_is_unavailable_and_no_row_is_lost_or_repeated(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with sink(kafka_broker, topic, timeout=2.0) as writing:
        in_time(lambda: writing.deliver(1, table(1)))
        kafka_broker.pause()
        check_outage(kafka_broker, topic, writing, attempts=2)


def test_dead_broker_is_unavailable_until_it_is_back(kafka_broker: Broker) -> None:
    topic = kafka_broker.topic()
    with (
        sink(kafka_broker, topic, timeout=2.0) as writing,
        source(kafka_broker, topic, timeout=2.0) as opened,
    ):
        in_time(lambda: writing.deliver(1, table(1)))
        in_time(lambda: read_all(opened, 1))
        kafka_broker.stop()
        try:
            with pytest.raises(UnavailableError, match=f"topic {topic} cannot be reached"):
                read_all(opened, 1)
            with pytest.raises(UnavailableError, match=f"topic {topic} cannot be reached"):
                writing.deliver(2, table(2))
            with source(kafka_broker, topic, timeout=1.0) as late, pytest.raises(UnavailableError):
                late.read(0)
        finally:
            kafka_broker.start()
        in_time(lambda: writing.deliver(2, table(2)))
        in_time(lambda: read_all(opened, 1))
    assert numbers(kafka_broker, topic) == [1, 2]


def in_time(call: Callable[[], object]) -> None:
    """Retry while the broker is unavailable, as a job does."""

    def succeeds() -> bool:
        try:
            call()
        except UnavailableError:
            return False
        return True

    eventually(succeeds, "it does not come back", every=0.2)
