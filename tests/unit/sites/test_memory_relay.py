"""The relay in memory: faults affect messages, never the records on the log."""

import pytest

from castleguard.errors import UnavailableError
from castleguard.sites.memory_relay import Faults, MemoryTransport, Relay


def joined(relay: Relay, *names: str) -> list[MemoryTransport]:
    return [relay.join(name) for name in names]


def numbers(count: int) -> list[bytes]:
    return [bytes([number]) for number in range(count)]


def test_message_reaches_its_receiver_and_a_broadcast_all_others() -> None:
    relay = Relay()
    a, b, c = joined(relay, "a", "b", "c")
    a.send("b", b"one")
    a.send(None, b"all")
    assert b.receive() == [b"one", b"all"]
    assert c.receive() == [b"all"]
    assert a.receive() == b.receive() == []
    assert (relay.messages, relay.bytes) == (3, 9)


def test_message_waits_for_a_site_that_has_not_joined_yet() -> None:
    relay = Relay()
    (a,) = joined(relay, "a")
    a.send("b", b"one")
    assert relay.waiting() == 1
    assert relay.join("b").receive() == [b"one"]


def test_rejoining_site_receives_messages_in_transit() -> None:
    relay = Relay()
    a, _ = joined(relay, "a", "b")
    a.send("b", b"one")
    assert relay.join("b").receive() == [b"one"]


@pytest.mark.parametrize(("faults", "copies"), [(Faults(loss=1.0), 0), (Faults(doubled=1.0), 2)])
def test_messages_are_lost_and_duplicated(faults: Faults, copies: int) -> None:
    relay = Relay(faults=faults)
    a, b = joined(relay, "a", "b")
    a.send("b", b"one")
    assert b.receive() == [b"one"] * copies


def test_delayed_messages_arrive_out_of_order_and_completely() -> None:
    relay = Relay(seed=1, faults=Faults(delay=3))
    a, b = joined(relay, "a", "b")
    for data in numbers(20):
        a.send("b", data)
    arrived = []
    for _ in range(4):
        arrived += b.receive()
        relay.pass_time()
    assert sorted(arrived) == numbers(20)
    assert arrived != numbers(20)
    assert relay.waiting() == 0


def test_same_seed_gives_the_same_faults() -> None:
    runs = []
    for seed in (1, 1, 2):
        relay = Relay(seed=seed, faults=Faults(loss=0.5, doubled=0.5))
        a, b = joined(relay, "a", "b")
        for data in numbers(20):
            a.send("b", data)
        runs.append(b.receive())
    assert runs[0] == runs[1] != runs[2]


def test_parted_sites_cannot_reach_each_other_but_reach_the_log() -> None:
    relay = Relay(faults=Faults(parted={frozenset("ab")}))
    a, b, c = joined(relay, "a", "b", "c")
    a.send(None, b"all")
    assert b.receive() == []
    assert c.receive() == [b"all"]
    assert a.decide("r", b"one") == b.decide("r", b"two") == b"one"


def test_site_that_is_away_reaches_neither_the_others_nor_the_log() -> None:
    relay = Relay()
    a, b = joined(relay, "a", "b")
    b.send("a", b"before")
    relay.faults.away = {"a"}
    a.send("b", b"out")
    b.send("a", b"in")
    assert a.receive() == b.receive() == []
    with pytest.raises(UnavailableError):
        a.decide("r", b"one")
    with pytest.raises(UnavailableError):
        a.decision("r")
    relay.faults.away.clear()
    assert a.receive() == [b"before"]
    assert a.decision("r") is None


def test_first_record_stands() -> None:
    relay = Relay()
    a, b = joined(relay, "a", "b")
    assert a.decision("r") is None
    assert a.decide("r", b"one") == b.decide("r", b"two") == b"one"
    assert b.decision("r") == b"one"


def test_unsure_write_may_have_succeeded() -> None:
    relay = Relay(faults=Faults(unsure=1.0))
    a, b = joined(relay, "a", "b")
    with pytest.raises(UnavailableError):
        a.decide("r", b"one")
    assert b.decision("r") == b"one"
