"""The NATS source against a real server: order, positions, deleted and hostile messages, a server crash."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from castleguard.connectors.base import Read
from castleguard.connectors.nats import NatsSource, NatsSourceOptions, consumer, nats_source, open_source
from castleguard.errors import CastleguardError, InputError, UnavailableError
from tests.integration.broker_nats import NatsBroker, close_all, running_broker
from tests.patience import PATIENCE, eventually

pytestmark = pytest.mark.integration

Open = Callable[..., NatsSource]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsBroker]:
    with running_broker(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture
def stream(broker: NatsBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """A private stream, which takes `name.>`."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.make_stream(name, f"{name}.>")
    yield name
    broker.ask(f"STREAM.DELETE.{name}")


@pytest.fixture
def opened(broker: NatsBroker, stream: str) -> Iterator[Open]:
    sources: list[NatsSource] = []

    def open_one(position: Any = None, **options: Any) -> NatsSource:
        chosen: dict[str, Any] = {"servers": broker.url, "stream": stream, "timeout": PATIENCE} | options
        sources.append(open_source(NatsSourceOptions(**chosen), ["n"], position))
        return sources[-1]

    yield open_one
    close_all(sources)


def objects(first: int, last: int) -> list[bytes]:
    return [json.dumps({"n": number}).encode() for number in range(first, last + 1)]


def numbers(read: Read | None) -> list[int]:
    return [] if read is None else [int(value) for value in read.rows.column(0).to_pylist()]


def read_all(from_source: NatsSource, rows: int) -> list[int]:
    """This many rows, and no more."""
    found: list[int] = []
    while len(found) < rows:
        read = from_source.read(PATIENCE)
        assert read is not None, f"{len(found)} of {rows} rows came"
        found += numbers(read)
    assert from_source.read(0.1) is None
    return found


def failure_of(reader: NatsSource) -> CastleguardError:
    """The error of the next read or a later one: the first may only find that its consumer is gone."""
    found: list[CastleguardError] = []

    def fails() -> bool:
        try:
            assert reader.read(1.0) is None
        except CastleguardError as exc:
            found.append(exc)
        return bool(found)

    eventually(fails, "no read fails")
    return found[0]


def test_rows_arrive_in_order_with_their_places(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 20))
    reader = opened()
    read = reader.read(PATIENCE)
    assert read is not None
    assert numbers(read) == list(range(1, 21))
    assert [read.place(row) for row in (0, 19)] == [f"{stream} 1", f"{stream} 20"]
    assert (reader.finished, reader.lag()) == (False, 0)
    broker.publish(f"{stream}.a", objects(21, 22))
    assert read_all(reader, 2) == [21, 22]


def test_reading_without_waiting_returns_at_once(broker: NatsBroker, stream: str, opened: Open) -> None:
    reader = opened()
    assert reader.read(0.0) is None
    broker.publish(f"{stream}.a", objects(1, 1))
    assert numbers(reader.read(PATIENCE)) == [1]


def test_any_position_restores_at_the_next_row(broker: NatsBroker, stream: str, opened: Open) -> None:
    """Messages of one and of three rows, and a bad one: positions are between messages."""
    triple = b'{"n": 5}\n{"n": 6}\n{"n": 7}'
    broker.publish(f"{stream}.a", [*objects(1, 4), triple, b"no row", *objects(8, 12)])
    reader = opened(batch_messages=3)
    positions = [(reader.position(), 0)]
    found: list[int] = []
    while len(found) < 12:
        found += numbers(reader.read(PATIENCE))
        positions.append((reader.position(), len(found)))
    assert found == list(range(1, 13))
    assert len(positions) > 3
    for position, rows in positions:
        kept = json.loads(json.dumps(position))
        assert read_all(opened(kept), 12 - rows) == found[rows:]


def test_new_job_begins_at_the_configured_start(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 3))
    later = opened(start="now")
    assert later.read(0.1) is None
    position = later.position()
    broker.publish(f"{stream}.a", objects(4, 5))
    assert read_all(later, 2) == [4, 5]
    # With a position, `start` has no effect.
    assert read_all(opened(position, start="now"), 2) == [4, 5]
    assert read_all(opened(), 5) == [1, 2, 3, 4, 5]


def test_only_messages_of_the_subject_are_read(broker: NatsBroker, stream: str, opened: Open) -> None:
    for number in range(1, 5):
        broker.publish(f"{stream}.{'ab'[number % 2]}", objects(number, number))
    assert read_all(opened(subject=f"{stream}.a"), 2) == [2, 4]
    assert read_all(opened(subject=f"{stream}.*"), 4) == [1, 2, 3, 4]


def test_position_skips_other_subjects(
    broker: NatsBroker, stream: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise their deletion would look like a loss of our messages."""
    monkeypatch.setattr(nats_source, "SKIP_SECONDS", 0.0)
    broker.publish(f"{stream}.a", objects(1, 1))
    reader = opened(subject=f"{stream}.a")
    assert numbers(reader.read(PATIENCE)) == [1]
    broker.publish(f"{stream}.b", objects(2, 9))
    assert reader.read(0.1) is None
    position = reader.position()
    assert position["sequence"] == 10
    broker.ask(f"STREAM.PURGE.{stream}", {"filter": f"{stream}.b"})
    broker.publish(f"{stream}.a", objects(10, 10))
    assert read_all(opened(position, subject=f"{stream}.a"), 1) == [10]


def test_messages_deleted_before_the_position_are_ignored(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 5))
    reader = opened()
    assert read_all(reader, 5) == [1, 2, 3, 4, 5]
    broker.ask(f"STREAM.PURGE.{stream}")
    resumed = opened(reader.position())
    assert resumed.read(0.1) is None
    broker.publish(f"{stream}.a", objects(6, 6))
    assert read_all(resumed, 1) == [6]


def test_messages_deleted_after_the_position_stop_the_job(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 9))
    position = opened().position()
    broker.ask(f"STREAM.PURGE.{stream}", {"seq": 4})
    with pytest.raises(InputError, match="begins at 4, after the position 1: its limits deleted messages"):
        opened(position)
    assert read_all(opened(position, skip_deleted=True), 6) == [4, 5, 6, 7, 8, 9]


def test_messages_deleted_one_by_one_are_ignored(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 5))
    broker.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": 3})
    assert read_all(opened(), 4) == [1, 2, 4, 5]


@pytest.mark.parametrize("skip", [False, True])
def test_stream_that_overtakes_the_reader_stops_it(broker: NatsBroker, opened: Open, stream: str, skip: bool) -> None:
    name = f"{stream}-short"
    broker.make_stream(name, f"{name}.>", max_msgs=30)
    broker.publish(f"{name}.a", objects(1, 30))
    reader = opened(stream=name, skip_deleted=skip, batch_messages=10)
    assert numbers(reader.read(PATIENCE)) == list(range(1, 11))
    (consumer_name,) = broker.ask(f"CONSUMER.NAMES.{name}")["consumers"]

    def sent() -> int:
        return int(broker.ask(f"CONSUMER.INFO.{name}.{consumer_name}")["delivered"]["stream_seq"])

    eventually(lambda: sent() == 20)  # ten more are fetched ahead, and ten wait at the server
    broker.publish(f"{name}.a", objects(31, 130))
    assert numbers(reader.read(PATIENCE)) == list(range(11, 21))
    if skip:
        assert read_all(reader, 30) == list(range(101, 131))
    else:
        with pytest.raises(InputError, match="now begins at 101, and 21 was not read"):
            reader.read(PATIENCE)
        with pytest.raises(InputError, match="begins at 101, after the position 21"):
            reader.read(PATIENCE)
    broker.ask(f"STREAM.DELETE.{name}")


def test_position_of_another_stream_is_refused(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 3))
    position = opened().position()
    with pytest.raises(InputError, match="it is another stream"):
        opened(position | {"stream": "trips"})
    with pytest.raises(InputError, match="ends at 3, before the position 9"):
        opened(position | {"sequence": 9})
    for broken in ({"sequence": 1}, position | {"sequence": "1"}, position | {"sequence": 0}):
        with pytest.raises(InputError, match="not one of a NATS stream"):
            opened(broken)


def test_recreated_stream_is_another_stream(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 3))
    reader = opened()
    assert read_all(reader, 3) == [1, 2, 3]
    broker.ask(f"STREAM.DELETE.{stream}")
    broker.make_stream(stream, f"{stream}.>")
    broker.publish(f"{stream}.a", objects(1, 9))
    with pytest.raises(InputError, match="it is another stream"):
        opened(reader.position())
    failed = failure_of(reader)
    assert isinstance(failed, InputError)
    assert "was deleted and created again" in str(failed)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_stream_that_deletes_acknowledged_messages_is_refused(
    broker: NatsBroker, stream: str, opened: Open, retention: str
) -> None:
    broker.make_stream(f"{stream}-q", f"{stream}-q.>", retention=retention)
    with pytest.raises(InputError, match=f"retention {retention}.*let a stream with retention limits source"):
        opened(stream=f"{stream}-q")


def test_missing_stream_is_reported(opened: Open) -> None:
    with pytest.raises(InputError, match="has no stream 'trips'"):
        opened(stream="trips")


def test_hostile_messages_are_bad_rows(broker: NatsBroker, stream: str, opened: Open) -> None:
    hostile = [b"", b"\xff\xfe", b"[1]", b'{"n":', b"\x00" * 10, b'{"n": 1e999', b"{" * 10_000, b'{"n": "\xd8"}']
    broker.publish(f"{stream}.a", objects(1, 1))
    # A message may look like a status message of the server.
    broker.publish(f"{stream}.a", hostile, headers={"Status": "409", "Description": "Consumer Deleted"})
    broker.publish(f"{stream}.a", objects(2, 2))
    reader = opened()
    read = reader.read(PATIENCE)
    assert read is not None
    assert numbers(read) == [1, 2]
    assert [bad.raw for bad in read.bad] == hostile
    assert [bad.place for bad in read.bad] == [f"{stream} {number}" for number in range(2, 10)]
    assert read.place(1) == f"{stream} 10"


def test_csv_and_arrow_messages_are_read(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.csv", [b"x,1", b"y,2\nz,3", b"lonely"])
    reader = opened(subject=f"{stream}.csv", format="csv", columns=("name", "n"))
    read = reader.read(PATIENCE)
    assert read is not None
    assert numbers(read) == [1, 2, 3]
    assert [(bad.place, bad.raw) for bad in read.bad] == [(f"{stream} 3", b"lonely")]
    broker.publish(f"{stream}.arrow", [b"nothing of the kind"])
    read = opened(subject=f"{stream}.arrow", format="arrow").read(PATIENCE)
    assert read is not None
    assert len(read.bad) == 1


def test_message_above_the_fetched_bytes_is_read_alone(
    broker: NatsBroker, stream: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "FETCH_BYTES", 2000)
    large = json.dumps({"n": 2, "x": "x" * 5000}).encode()
    broker.publish(f"{stream}.a", [*objects(1, 1), large, *objects(3, 40)])
    assert read_all(opened(), 40) == list(range(1, 41))


def test_consumer_that_the_server_deleted_is_replaced(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", objects(1, 3))
    reader = opened()
    assert read_all(reader, 3) == [1, 2, 3]
    (name,) = broker.ask(f"CONSUMER.NAMES.{stream}")["consumers"]
    broker.ask(f"CONSUMER.DELETE.{stream}.{name}")
    broker.publish(f"{stream}.a", objects(4, 5))
    found: list[int] = []
    while len(found) < 2:
        found += numbers(reader.read(1.0))
    assert found == [4, 5]


def test_reader_survives_a_server_that_dies_and_comes_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        broker.make_stream("trips", "trips.>")
        broker.publish("trips.a", objects(1, 3))
        options = NatsSourceOptions(servers=broker.url, stream="trips")
        reader = open_source(options, ["n"], None)
        assert read_all(reader, 3) == [1, 2, 3]
        broker.kill()
        for _ in range(2):
            failed = failure_of(reader)
            assert isinstance(failed, UnavailableError)
            assert f"{broker.url} cannot be reached" in str(failed)
        with pytest.raises(UnavailableError):
            open_source(options, ["n"], None)
        broker.start()
        broker.publish("trips.a", objects(4, 6))
        assert read_all(reader, 3) == [4, 5, 6]
        position = reader.position()
        reader.close()
        broker.kill()
        broker.start()
        resumed = open_source(options, ["n"], position)
        assert resumed.read(0.1) is None
        resumed.close()
