"""The relay over NATS: authentication, retention of the log, a hanging server."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from castleguard.connectors.nats import relay as nats_relay
from castleguard.connectors.nats.connection import Connection
from castleguard.connectors.nats.nats_options import Access
from castleguard.connectors.nats.relay import NatsRelay, check_relay
from castleguard.errors import OutputError, UnavailableError
from castleguard.telemetry.background import tasks
from tests.contract.transports import decided_again, wait_for
from tests.integration.broker_nats import NatsBroker, running_broker
from tests.patience import PATIENCE, WHOLE_RUN, eventually

pytestmark = pytest.mark.integration

DAY = 86_400 * 1_000_000_000


@pytest.fixture(autouse=True)
def a_server_that_is_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits as long as a busy machine needs."""
    monkeypatch.setattr(nats_relay, "_ANSWER_SECONDS", PATIENCE)


def joined(broker: NatsBroker, name: str) -> NatsRelay:
    return NatsRelay(Access(servers=broker.url, timeout=PATIENCE), "trips", name)


def test_log_keeps_decisions_for_thirty_days_in_a_file(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert "will create" in check_relay(Access(servers=broker.url, timeout=PATIENCE), "trips")
        joined(broker, "berlin").close()
        assert "has the bucket" in check_relay(Access(servers=broker.url, timeout=PATIENCE), "trips")
        config = broker.ask("STREAM.INFO.KV_castleguard-trips")["config"]
    assert config["max_age"] == 30 * DAY
    assert config["storage"] == "file"
    assert config["max_msgs_per_subject"] == 1


def test_joined_site_misses_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client library may be slow to send its subscriptions: the relay waits until the server has them."""
    send_pending = Client._flush_pending

    async def send_later(client: Client, *args: Any, **kwargs: Any) -> Any:
        if any(b"SUB castleguard." in part for part in client._pending):
            asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(send_pending(client)))
            return None
        return await send_pending(client, *args, **kwargs)

    with running_broker(tmp_path) as broker:
        berlin = joined(broker, "berlin")
        monkeypatch.setattr(Client, "_flush_pending", send_later)
        rome = joined(broker, "rome")
        berlin.send("rome", b"to rome")
        assert wait_for(rome, 1) == [b"to rome"]
        berlin.close()
        rome.close()


def test_subscription_that_is_not_permitted_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        'authorization: {users: [{user: ann, password: a, permissions: {subscribe: "_INBOX.>"}}]}'
    )
    with running_broker(tmp_path, ["--config", str(tmp_path / "config")]) as broker:
        access = Access(servers=broker.url, timeout=PATIENCE, user="ann", password="a")
        with pytest.raises(OutputError, match="does not permit it: permissions violation for subscription"):
            NatsRelay(access, "trips", "berlin")
    assert_nothing_is_left()


@pytest.mark.parametrize("config", [{"max_age": 29 * DAY}, {"storage": "memory"}])
def test_log_that_can_lose_records_is_refused(tmp_path: Path, config: dict[str, object]) -> None:
    with running_broker(tmp_path) as broker:
        broker.make_stream("KV_castleguard-trips", "$KV.castleguard-trips.>", **config)
        with pytest.raises(OutputError, match="can lose the decisions of the sites"):
            NatsRelay(Access(servers=broker.url, timeout=PATIENCE), "trips", "berlin")
    assert_nothing_is_left()


def test_deleted_log_is_not_created_again_while_sites_run(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        berlin = joined(broker, "berlin")
        assert berlin.decide("a.1.1", b"commit") == b"commit"
        broker.ask("STREAM.DELETE.KV_castleguard-trips")
        for _ in range(20):
            with pytest.raises(UnavailableError):
                berlin.decide("a.1.1", b"abort")
            time.sleep(0.02)
        berlin.close()


def test_refused_site_is_reported_at_once(tmp_path: Path) -> None:
    with running_broker(tmp_path, ["--user", "ann", "--pass", "s3cret"], user="ann", password="s3cret") as broker:
        with pytest.raises(OutputError, match="refuses these credentials"):
            NatsRelay(Access(servers=broker.url, user="ann", password="wrong", timeout=PATIENCE), "trips", "berlin")
        relay = NatsRelay(
            Access(servers=broker.url, user="ann", password="s3cret", timeout=PATIENCE), "trips", "berlin"
        )
        assert relay.decide("a.1.1", b"commit") == b"commit"
        relay.close()
    assert_nothing_is_left()


def test_site_may_start_before_the_relay(tmp_path: Path) -> None:
    broker = NatsBroker(tmp_path)
    broker.start()
    broker.kill()
    berlin = joined(broker, "berlin")
    try:
        with pytest.raises(UnavailableError):
            berlin.decision("a.1.1")
        broker.start()
        assert decided_again(berlin, "a.1.1", b"commit") == b"commit"
    finally:
        berlin.close()
        broker.kill()


def test_hanging_server_costs_one_wait_of_about_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Connection.request
    asked: list[str] = []

    async def noted(self: Connection, subject: str, *rest: Any) -> object:
        asked.append(subject)
        return await request(self, subject, *rest)

    with running_broker(tmp_path) as broker:
        berlin = joined(broker, "berlin")
        monkeypatch.setattr(Connection, "request", noted)
        monkeypatch.setattr(nats_relay, "_ANSWER_SECONDS", 1.0)  # shorter than the timeout of the connection
        assert broker._process is not None
        os.kill(broker._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, broker._process.pid, os.WSTOPPED)
        try:
            began = time.monotonic()
            with pytest.raises(UnavailableError, match="did not answer within 1 s"):
                berlin.decide("a.1.1", b"commit")
            assert 0.5 < time.monotonic() - began < PATIENCE / 2
            for _ in range(9):
                with pytest.raises(UnavailableError, match="cannot be reached"):
                    berlin.decide("a.1.1", b"commit")
            assert len([subject for subject in asked if subject.startswith("$KV.")]) == 1
        finally:
            os.kill(broker._process.pid, signal.SIGCONT)
        # The outcome of the first attempt was unknown: it was written.
        assert decided_again(berlin, "a.1.1", b"abort") == b"commit"
        berlin.close()


def test_newest_unfetched_messages_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_relay, "_MOST_BYTES", 10_000)
    with running_broker(tmp_path) as broker:
        berlin, paris = (joined(broker, name) for name in ("berlin", "paris"))
        waiting = paris._received._messages
        for number in range(30):
            berlin.send("paris", bytes([number]) * 1000)
            # Not fetched, which would make room.
            eventually(lambda number=number: bool(waiting) and waiting[-1][0] == number)  # type: ignore[misc]
        kept = [message[0] for message in paris.receive()]
        assert kept == list(range(20, 30))
        berlin.close()
        paris.close()


@pytest.mark.parametrize(
    "error",
    [nats.errors.NoServersError(), KeyError("config"), RuntimeError(), asyncio.CancelledError(), TimeoutError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("call", ["lost", "subscribe"])
def test_site_reconnects_after_any_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, call: str
) -> None:
    with running_broker(tmp_path) as broker:
        berlin, paris = (joined(broker, name) for name in ("berlin", "paris"))
        eventually(lambda: relay_is_up() is True)
        works = getattr(Connection, call)
        failed = threading.Event()

        async def fails_once(*arguments: object) -> object:
            if not failed.is_set():
                failed.set()
                raise error
            return await works(*arguments)

        monkeypatch.setattr(Connection, call, fails_once)
        broker.kill()
        broker.start()
        assert failed.wait(WHOLE_RUN)
        for site in (berlin, paris):
            assert decided_again(site, "a.1.1", b"commit") == b"commit"
        paris.send("berlin", b"heard")
        berlin.send("paris", b"heard")
        assert wait_for(berlin, 1) == wait_for(paris, 1) == [b"heard"]
        berlin.close()
        paris.close()
    assert_nothing_is_left()


def test_unreachable_relay_is_down_until_it_is_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        berlin = joined(broker, "berlin")
        broker.kill()
        eventually(lambda: relay_is_up() is False)
        broker.start()
        eventually(lambda: relay_is_up() is True)
        assert next(task for task in tasks() if task.name == "relay").failures >= 3
        assert decided_again(berlin, "a.1.1", b"commit") == b"commit"
        berlin.close()
    assert "relay" not in {task.name for task in tasks()}


def test_dropped_connection_is_lost_at_once_even_if_closing_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper waits for `lost`; without it, a site would stay alone if the library missed the end."""
    with running_broker(tmp_path) as broker:
        berlin, paris = (joined(broker, name) for name in ("berlin", "paris"))
        client = berlin._connection._client
        assert client is not None
        really_close = client.close

        async def hangs() -> None:
            await asyncio.sleep(2 * PATIENCE)

        monkeypatch.setattr(client, "close", hangs)
        monkeypatch.setattr(client, "_closed_cb", None)
        berlin._connection.run(berlin._connection.drop())
        assert decided_again(berlin, "a.1.1", b"commit") == b"commit"
        eventually(lambda: berlin._subscribed is berlin._connection._lost)
        paris.send("berlin", b"heard")
        assert b"heard" in wait_for(berlin, 1), "maybe twice: the connection that hangs is still open"
        berlin._connection.run(really_close())
        berlin.close()
        paris.close()


@pytest.mark.parametrize("fails", ["closing", "reading"])
def test_lost_connection_is_detected_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Closing fails if the socket breaks while something waits to be sent; reading, if a message cannot be parsed."""
    with running_broker(tmp_path) as broker:
        berlin, paris = (joined(broker, name) for name in ("berlin", "paris"))
        client, lost = berlin._connection._client, berlin._connection._lost
        assert client is not None
        assert lost is not None

        async def breaks(*arguments: object) -> None:
            raise ConnectionResetError if fails == "closing" else ValueError

        if fails == "closing":
            closes = client._close
            monkeypatch.setattr(client, "_close", breaks)
            broker.kill()
            eventually(lost.done)
            monkeypatch.setattr(client, "_close", closes)
            broker.start()
        else:
            monkeypatch.setattr(client._ps, "parse", breaks)
            paris.send("berlin", b"not heard")
            eventually(lost.done)
        assert decided_again(berlin, "a.1.1", b"commit") == b"commit"
        assert decided_again(paris, "a.1.1", b"commit") == b"commit"
        eventually(lambda: berlin._subscribed is berlin._connection._lost)
        paris.send("berlin", b"heard")
        assert wait_for(berlin, 1) == [b"heard"]
        berlin.close()
        paris.close()


def test_oversized_message_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_broker(tmp_path) as broker:
        berlin, paris = (joined(broker, name) for name in ("berlin", "paris"))
        for _ in range(3):
            berlin.send("paris", bytes(2 << 20))
        berlin.send("paris", b"heard")
        assert wait_for(paris, 1) == [b"heard"]
        assert sum("raise max_payload" in line for line in caplog.messages) == 1
        assert all(task.failures == 0 for task in tasks() if task.name == "relay")
        berlin.close()
        paris.close()


def test_closing_is_not_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_broker(tmp_path) as broker:
        for _ in range(5):
            joined(broker, "berlin").close()
    assert "failed" not in caplog.text


def relay_is_up() -> bool | None:
    """State of the first site's task; None if it has not begun."""
    return next((task.up for task in tasks() if task.name == "relay"), None)


def assert_nothing_is_left() -> None:
    assert not [thread for thread in threading.enumerate() if thread.name == "castleguard-nats"]
