"""What `sites/transport.py` promises, asked of every transport."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from castleguard.connectors.nats import relay as nats_relay
from castleguard.errors import UnavailableError
from tests.contract.transports import TRANSPORTS, TransportAdapter, decided_again, wait_for
from tests.patience import PATIENCE, fastest

pytestmark = pytest.mark.integration

RELEASE = "berlin.00000000001760000000.7"


@pytest.fixture(params=TRANSPORTS)
def network(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TransportAdapter]:
    """Every transport. A server that is there is waited for, however busy the machine is."""
    monkeypatch.setattr(nats_relay, "_ANSWER_SECONDS", PATIENCE)
    adapter = TRANSPORTS[request.param](tmp_path)
    yield adapter
    adapter.close()


def test_new_one_is_empty(network: TransportAdapter) -> None:
    berlin = network.join("berlin")
    assert berlin.receive() == []
    assert berlin.decision(RELEASE) is None


def test_message_reaches_only_its_recipient(network: TransportAdapter) -> None:
    berlin, paris, rome = map(network.join, ("berlin", "paris", "rome"))
    berlin.send("paris", b"to paris")
    berlin.send("rome", b"to rome")
    assert wait_for(paris, 1) == [b"to paris"]
    assert wait_for(rome, 1) == [b"to rome"]
    assert berlin.receive() == paris.receive() == rome.receive() == []


def test_message_to_all_reaches_every_other_site(network: TransportAdapter) -> None:
    berlin, paris, rome = map(network.join, ("berlin", "paris", "rome"))
    berlin.send(None, b"one")
    paris.send(None, b"two")
    assert sorted(wait_for(rome, 2)) == [b"one", b"two"]
    assert wait_for(paris, 1) == [b"one"]
    assert wait_for(berlin, 1) == [b"two"]
    assert berlin.receive() == paris.receive() == []


def test_message_is_received_once(network: TransportAdapter) -> None:
    berlin, paris = map(network.join, ("berlin", "paris"))
    berlin.send("paris", bytes(range(256)))
    assert wait_for(paris, 1) == [bytes(range(256))]
    assert paris.receive() == []


def test_first_record_stands_for_every_site(network: TransportAdapter) -> None:
    berlin, paris = map(network.join, ("berlin", "paris"))
    assert berlin.decide(RELEASE, b"commit") == b"commit"
    assert paris.decide(RELEASE, b"abort") == b"commit"
    assert berlin.decide(RELEASE, b"abort") == b"commit"
    assert berlin.decision(RELEASE) == paris.decision(RELEASE) == b"commit"
    assert paris.decide(f"{RELEASE}1", b"abort") == b"abort", "another release is another record"


def test_concurrent_decisions_return_the_same_record(network: TransportAdapter) -> None:
    sites = [network.join(name) for name in ("berlin", "paris")]
    heard: list[list[bytes]] = [[], []]
    start = threading.Barrier(2)

    def decide(at: int) -> None:
        for number in range(50):
            start.wait()
            heard[at].append(sites[at].decide(f"rome.1.{number}", f"{at} {number}".encode()))

    writers = [threading.Thread(target=decide, args=(at,)) for at in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert heard[0] == heard[1]
    assert len(heard[0]) == 50
    assert [record.split()[1] for record in heard[0]] == [str(number).encode() for number in range(50)]


def test_cut_network_loses_messages_and_makes_the_log_unavailable(
    network: TransportAdapter,
) -> None:
    berlin, paris = map(network.join, ("berlin", "paris"))
    assert berlin.decide(RELEASE, b"commit") == b"commit"
    network.cut()

    def try_all() -> None:
        berlin.send("paris", b"lost")
        berlin.send(None, b"lost too")
        with pytest.raises(UnavailableError):
            berlin.decide(f"{RELEASE}1", b"commit")
        with pytest.raises(UnavailableError):
            paris.decision(RELEASE)
        assert paris.receive() == []

    for _ in range(3):
        try_all()
    assert fastest(try_all, 1.0) < 1.0
    network.mend()
    assert decided_again(berlin, RELEASE, b"abort") == b"commit", "the log has kept it"
    assert decided_again(paris, f"{RELEASE}1", b"abort") == b"abort", "what could not be written was not"
    berlin.send("paris", b"after")
    assert wait_for(paris, 1) == [b"after"]


def test_reconnected_site_finds_its_decision(network: TransportAdapter) -> None:
    berlin = network.join("berlin")
    berlin.decide(RELEASE, b"commit")
    berlin.close()
    again = network.join("berlin")
    assert again.decision(RELEASE) == b"commit"
    assert again.decide(RELEASE, b"abort") == b"commit"


def test_closing_twice_is_harmless(network: TransportAdapter) -> None:
    berlin = network.join("berlin")
    berlin.close()
    berlin.close()
