"""The NATS sink against a real server: after any crash, each row arrives exactly once and in order."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from castleguard.connectors.csv_options import CsvOutput
from castleguard.connectors.formulas import Formulas
from castleguard.connectors.nats import NatsSink, NatsSinkOptions, connection, nats_sink, open_sink
from castleguard.connectors.payloads import Format, read_payloads
from castleguard.errors import CastleguardError, OutputError, UnavailableError
from tests.integration.broker_nats import NatsBroker, close_all, running_broker
from tests.patience import PATIENCE, WHOLE_RUN

pytestmark = pytest.mark.integration

Open = Callable[..., NatsSink]
ATOMIC = pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "singly"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsBroker]:
    with running_broker(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture
def atomic() -> bool:
    """Whether the stream takes atomic batches; tests may override it."""
    return True


@pytest.fixture
def stream(broker: NatsBroker, request: pytest.FixtureRequest, atomic: bool) -> Iterator[str]:
    """A private stream, which takes `name.>`."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.make_stream(name, f"{name}.>", allow_atomic=atomic)
    yield name
    broker.ask(f"STREAM.DELETE.{name}")


@pytest.fixture
def opened(broker: NatsBroker, stream: str) -> Iterator[Open]:
    sinks: list[NatsSink] = []

    def open_one(**options: Any) -> NatsSink:
        chosen: dict[str, Any] = {
            "servers": broker.url,
            "stream": stream,
            "subject": f"{stream}.a",
            "timeout": PATIENCE,
        } | options
        sinks.append(open_sink(NatsSinkOptions(**chosen)))
        return sinks[-1]

    yield open_one
    close_all(sinks)


def segment(number: int, rows: int = 10) -> pa.Table:
    """The rows of a segment, always the same."""
    return pa.table({"n": pa.array([number * 10_000 + row for row in range(rows)]), "name": ["ä,\n"] * rows})


def rows_of(*segments: pa.Table) -> list[int]:
    return [value for table in segments for value in table["n"].to_pylist()]


def delivered(writer: NatsSink, number: int, table: pa.Table) -> CastleguardError | None:
    try:
        writer.deliver(number, table)
    except CastleguardError as exc:
        return exc
    return None


def published(broker: NatsBroker, stream: str, format: Format = "json") -> list[int]:
    payloads = [message.data for message in broker.messages(stream)]
    found = read_payloads(format, payloads, ["n", "name"], ["n", "name"])
    assert not found.bad
    assert set(found.rows.column(1).to_pylist()) <= {"ä,\n"}
    return [int(value) for value in found.rows.column(0).to_pylist()]


@ATOMIC
@pytest.mark.parametrize("rows_per_message", [None, 4])
@pytest.mark.parametrize("format", ["json", "csv", "arrow"])
def test_segments_are_stored_under_their_numbers(
    broker: NatsBroker, stream: str, opened: Open, format: Format, rows_per_message: int | None
) -> None:
    writer = opened(format=format, rows_per_message=rows_per_message)
    assert (writer.exactly_once, writer.last()) == (True, 0)
    tables = [segment(1), segment(2, 1), segment(7, 1100)]
    for number, table in zip((1, 2, 7), tables, strict=True):
        writer.deliver(number, table)
        assert opened(format=format).last() == number
    assert published(broker, stream, format) == rows_of(*tables)
    messages = broker.messages(stream)
    default = 4096 if format == "arrow" else 1
    assert len(messages) == sum(-(-table.num_rows // (rows_per_message or default)) for table in tables)
    assert messages[-1].headers["castleguard-segment"] == "7"
    assert messages[-1].headers["castleguard-rows"] == "1100/1100"


@ATOMIC
def test_delivered_segment_is_not_sent_again(broker: NatsBroker, stream: str, opened: Open) -> None:
    first = opened()
    first.deliver(3, segment(3))
    first.deliver(3, segment(3))
    opened().deliver(3, segment(3))
    assert published(broker, stream) == rows_of(segment(3))
    with pytest.raises(OutputError, match="already has segment 3, and 2 comes too late"):
        opened().deliver(2, segment(2))
    with pytest.raises(OutputError, match="10 of 10 rows of segment 3, which do not belong to this checkpoint"):
        opened().deliver(3, segment(3, 11))


# Crashes: the child counts its sends and kills itself before one of them

DYING = """
import os, signal, sys
from castleguard.connectors.nats import NatsSinkOptions, open_sink
from castleguard.connectors.nats.connection import Connection
from tests.integration.test_nats_sink import segment

url, stream, rows, left = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def counted(send):
    async def sending(self, subject, *arguments, **more):
        global left
        if not subject.startswith("$JS"):
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return await send(self, subject, *arguments, **more)
    return sending

Connection.request, Connection.publish = counted(Connection.request), counted(Connection.publish)
sink = open_sink(NatsSinkOptions(servers=url, stream=stream, subject=stream + ".a"))
for number in range(sink.last() + 1, 4):
    sink.deliver(number, segment(number, rows))
"""


def child(program: str, *arguments: str) -> "subprocess.Popen[str]":
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(root), str(root / 'src')]}\n{program}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("atomic", "rows", "sends", "last", "there"),
    [
        (True, 8, 12, 1, 8),  # in the middle of a batch: nothing of it has arrived
        (True, 8, 15, 1, 8),  # before its last message
        (True, 8, 16, 2, 16),  # between two segments
        (True, 1100, 2150, 1, 2100),  # between two batches of a segment
        (False, 8, 12, 1, 12),  # one by one: a part of the segment has arrived
        (False, 8, 16, 2, 16),
    ],
    ids=["in-batch", "before-commit", "between", "between-batches", "singly", "singly-between"],
)
def test_killed_process_leaves_each_row_once(
    broker: NatsBroker, stream: str, opened: Open, rows: int, sends: int, last: int, there: int
) -> None:
    with child(DYING, broker.url, stream, str(rows), str(sends)) as dying:
        assert dying.wait(WHOLE_RUN) == -9
    everything = rows_of(*(segment(number, rows) for number in (1, 2, 3)))
    assert published(broker, stream) == everything[:there]
    # The next process may cut the rows differently.
    writer = opened(rows_per_message=3)
    assert writer.last() == last
    for number in range(last + 1, 4):
        writer.deliver(number, segment(number, rows))
    assert published(broker, stream) == everything


@pytest.mark.parametrize(("formulas", "written"), [("escape", b"1,'=x"), ("keep", b"1,=x")])
def test_csv_section_decides_about_formulas(
    broker: NatsBroker, opened: Open, stream: str, formulas: Formulas, written: bytes
) -> None:
    writer = opened(format="csv", csv=CsvOutput(formulas=formulas))
    writer.deliver(1, pa.table({"n": [1], "name": ["=x"]}))
    assert [message.data for message in broker.messages(stream)] == [written]


def test_half_a_segment_of_another_checkpoint_is_refused(broker: NatsBroker, opened: Open, stream: str) -> None:
    headers = {"castleguard-segment": "4", "castleguard-rows": "1/10", "castleguard-writer": "x"}
    broker.publish(f"{stream}.a", [b'{"n": 40000}'], headers=headers)
    assert opened().last() == 3
    with pytest.raises(OutputError, match="1 of 10 rows of segment 4, which do not belong to this checkpoint"):
        opened().deliver(5, segment(5))


# Two processes

OLDER = """
import sys
from castleguard.connectors.nats import NatsSinkOptions, open_sink
from castleguard.errors import CastleguardError
from tests.integration.test_nats_sink import segment

sink = open_sink(NatsSinkOptions(servers=sys.argv[1], stream=sys.argv[2], subject=sys.argv[2] + ".a"))
sink.deliver(1, segment(1))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(2):
    try:
        sink.deliver(2, segment(2))
    except CastleguardError as exc:
        print(type(exc).__name__, exc, flush=True)
sink.close()
"""


@ATOMIC
def test_older_of_two_processes_is_fenced(broker: NatsBroker, stream: str, opened: Open) -> None:
    with child(OLDER, broker.url, stream) as older:
        assert older.stdin is not None
        assert older.stdout is not None
        assert older.stdout.readline() == "ready\n"
        newer = opened()
        assert newer.last() == 1
        newer.deliver(2, segment(2, 7))
        older.stdin.write("go\n")
        older.stdin.flush()
        lines = older.stdout.read().splitlines()
        assert older.wait(WHOLE_RUN) == 0
    assert len(lines) == 2
    assert all(line.startswith(f"OutputError another process writes to subject '{stream}.a'") for line in lines)
    newer.deliver(3, segment(3))
    assert published(broker, stream) == rows_of(segment(1), segment(2, 7), segment(3))


# Connections and servers that are lost


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize(("atomic", "sends"), [(True, 1), (True, 2), (False, 1), (False, 3), (False, 10)])
def test_delivery_without_an_answer_is_completed_by_the_next(
    broker: NatsBroker, stream: str, opened: Open, monkeypatch: pytest.MonkeyPatch, arrived: bool, sends: int
) -> None:
    """Lose the answer to the nth request, with or without the request itself."""
    writer = opened()
    writer.deliver(1, segment(1))
    real = connection.Connection.request
    left = sends

    async def failing(self: Any, subject: str, payload: bytes, headers: Any = None) -> Any:
        nonlocal left
        if not subject.startswith("$JS"):
            left -= 1
            if not left:
                if arrived:
                    await real(self, subject, payload, headers)
                raise ConnectionResetError("reset")
        return await real(self, subject, payload, headers)

    monkeypatch.setattr(connection.Connection, "request", failing)
    with pytest.raises(UnavailableError, match="cannot be reached: reset"):
        writer.deliver(2, segment(2))
    writer.deliver(2, segment(2))
    writer.deliver(3, segment(3))
    assert published(broker, stream) == rows_of(segment(1), segment(2), segment(3))


def test_late_messages_of_an_earlier_attempt_are_refused(
    broker: NatsBroker, stream: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt timed out but is only slow: it arrives between the look-up and the second attempt."""
    writer = opened()
    writer.deliver(1, segment(1, 1))
    real = connection.Connection.request
    held: list[Any] = []

    async def slow(self: Any, subject: str, payload: bytes, headers: Any = None) -> Any:
        if not subject.startswith("$JS"):
            if not held:
                held.append((subject, payload, headers))
                raise TimeoutError
            await real(self, *held[0])
            monkeypatch.setattr(connection.Connection, "request", real)
        return await real(self, subject, payload, headers)

    monkeypatch.setattr(connection.Connection, "request", slow)
    with pytest.raises(UnavailableError):
        writer.deliver(2, segment(2, 1))
    writer.deliver(2, segment(2, 1))
    writer.deliver(3, segment(3, 1))
    assert published(broker, stream) == rows_of(segment(1, 1), segment(2, 1), segment(3, 1))


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("sends", [1, 5, 2])
def test_writer_survives_a_server_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool, sends: int
) -> None:
    """The server dies during a delivery, and is back later."""
    with running_broker(tmp_path) as broker:
        broker.make_stream("out", "out.>", allow_atomic=atomic)
        writer = open_sink(NatsSinkOptions(servers=broker.url, stream="out", subject="out.a"))
        writer.deliver(1, segment(1, 1500))
        real = connection.Connection.request
        left = sends

        async def killing(self: Any, subject: str, payload: bytes, headers: Any = None) -> Any:
            nonlocal left
            if not subject.startswith("$JS"):
                left -= 1
                if not left:
                    threading.Timer(0.0005, broker.kill).start()
            return await real(self, subject, payload, headers)

        monkeypatch.setattr(connection.Connection, "request", killing)
        number = 2
        while (failed := delivered(writer, number, segment(number, 1500))) is None:
            number += 1
        assert isinstance(failed, UnavailableError)
        with pytest.raises(UnavailableError):
            writer.deliver(number, segment(number, 1500))
        with pytest.raises(UnavailableError):
            open_sink(NatsSinkOptions(servers=broker.url, stream="out", subject="out.a"))
        broker.start()
        writer.deliver(number, segment(number, 1500))
        writer.close()
        assert published(broker, "out") == rows_of(*(segment(one, 1500) for one in range(1, number + 1)))


# Streams that cannot serve


def test_stream_that_deletes_read_messages_is_refused(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.make_stream("queue", "queue.>", retention="workqueue")
    with pytest.raises(OutputError, match="deletes messages that were read"):
        opened(stream="queue", subject="queue.a")
    broker.make_stream("silent", "silent.>", no_ack=True)
    with pytest.raises(OutputError, match="confirms nothing"):
        opened(stream="silent", subject="silent.a")


def test_subject_outside_of_the_stream_is_refused(stream: str, opened: Open) -> None:
    with pytest.raises(OutputError, match="does not take the subject 'elsewhere'"):
        opened(subject="elsewhere")
    with pytest.raises(OutputError, match="has no stream 'trips'"):
        opened(stream="trips")


def test_subject_with_foreign_messages_is_refused(broker: NatsBroker, stream: str, opened: Open) -> None:
    broker.publish(f"{stream}.a", [b"hello"])
    with pytest.raises(OutputError, match="is not from a job"):
        opened().last()


def test_subject_whose_messages_were_deleted_is_refused(broker: NatsBroker, stream: str, opened: Open) -> None:
    opened().deliver(1, segment(1))
    broker.ask(f"STREAM.PURGE.{stream}")
    with pytest.raises(OutputError, match="so earlier deliveries are unknown"):
        opened().last()
    fresh = opened(begins_empty=True)
    assert fresh.last() == 0
    fresh.deliver(1, segment(1, 3))
    assert published(broker, stream) == rows_of(segment(1, 3))


@ATOMIC
def test_writer_continues_after_its_last_message_was_deleted(broker: NatsBroker, stream: str, opened: Open) -> None:
    """A stream may delete messages that are older than the pause between two segments."""
    writer = opened()
    for number in (1, 2, 3):
        writer.deliver(number, segment(number))
        assert published(broker, stream) == rows_of(segment(number))
        broker.ask(f"STREAM.PURGE.{stream}")
    broker.publish(f"{stream}.b", [b"hello"])
    with pytest.raises(OutputError, match="so another process may have written to it"):
        writer.deliver(4, segment(4))


def test_stream_that_lost_confirmed_messages_stops_the_job(broker: NatsBroker, stream: str, opened: Open) -> None:
    writer = opened()
    writer.deliver(1, segment(1))
    writer.deliver(2, segment(2))
    broker.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": 20})
    with pytest.raises(OutputError, match="has lost messages that it had confirmed: the last one was 20 and is 19"):
        writer.deliver(3, segment(3))


def test_batches_shrink_to_the_limit_of_the_server(
    broker: NatsBroker, stream: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_sink, "BATCH_MESSAGES", 1500)
    writer = opened()
    writer.deliver(1, segment(1, 3000))
    assert published(broker, stream) == rows_of(segment(1, 3000))


def test_single_messages_are_sent_without_atomic_batches(broker: NatsBroker, stream: str, opened: Open) -> None:
    writer = opened()
    config = broker.ask(f"STREAM.INFO.{stream}")["config"] | {"allow_atomic": False}
    broker.ask(f"STREAM.UPDATE.{stream}", config)
    writer.deliver(1, segment(1))
    assert published(broker, stream) == rows_of(segment(1))


def test_full_stream_is_unavailable_and_nothing_is_lost(broker: NatsBroker, stream: str, opened: Open) -> None:
    config = broker.ask(f"STREAM.INFO.{stream}")["config"]
    broker.ask(f"STREAM.UPDATE.{stream}", config | {"discard": "new", "max_msgs": 15})
    writer = opened()
    writer.deliver(1, segment(1))
    for _ in range(2):
        with pytest.raises(UnavailableError, match="maximum messages exceeded"):
            writer.deliver(2, segment(2))
    broker.ask(f"STREAM.UPDATE.{stream}", config)
    writer.deliver(2, segment(2))
    assert published(broker, stream) == rows_of(segment(1), segment(2))


@pytest.mark.parametrize("format", ["json", "csv", "arrow"])
def test_messages_stay_below_the_limit_of_the_server(tmp_path: Path, format: Format) -> None:
    (tmp_path / "config").write_text("max_payload: 8192")
    with running_broker(tmp_path, ["--config", str(tmp_path / "config")]) as broker:
        broker.make_stream("out", "out.>", allow_atomic=True)
        options = NatsSinkOptions(
            servers=broker.url, stream="out", subject="out.a", format=format, rows_per_message=1000
        )
        writer = open_sink(options)
        writer.deliver(1, segment(1, 3000))
        assert published(broker, "out", format) == rows_of(segment(1, 3000))
        assert 3 < len(broker.messages("out")) < 300
        with pytest.raises(OutputError, match="raise its max_payload"):
            writer.deliver(2, pa.table({"n": [1], "name": ["x" * 10_000]}))
        writer.close()
