"""The relay in memory: what its weather does to messages, and what it never does to the log."""

import pytest

from castleguard.errors import UnavailableError
from castleguard.sites.memory_relay import Faults, MemoryTransport, Relay


def joined(relay: Relay, *names: str) -> list[MemoryTransport]:
    return [relay.join(name) for name in names]


def numbers(count: int) -> list[bytes]:
    return [bytes([number]) for number in range(count)]


def test_a_message_to_one_reaches_it_and_one_to_all_everybody_else() -> None:
    relay = Relay()
    a, b, c = joined(relay, "a", "b", "c")
    a.send("b", b"one")
    a.send(None, b"all")
    assert b.receive() == [b"one", b"all"]
    assert c.receive() == [b"all"]
    assert a.receive() == b.receive() == []
    assert (relay.messages, relay.bytes) == (3, 9)


def test_what_is_sent_to_a_site_that_is_not_there_yet_waits_for_it() -> None:
    relay = Relay()
    (a,) = joined(relay, "a")
    a.send("b", b"one")
    assert relay.waiting() == 1
    assert relay.join("b").receive() == [b"one"]


def test_a_site_that_comes_back_finds_what_was_on_its_way() -> None:
    relay = Relay()
    a, _ = joined(relay, "a", "b")
    a.send("b", b"one")
    assert relay.join("b").receive() == [b"one"]


@pytest.mark.parametrize(("faults", "copies"), [(Faults(loss=1.0), 0), (Faults(doubled=1.0), 2)])
def test_messages_are_lost_and_doubled(faults: Faults, copies: int) -> None:
    relay = Relay(faults=faults)
    a, b = joined(relay, "a", "b")
    a.send("b", b"one")
    assert b.receive() == [b"one"] * copies


def test_delayed_messages_arrive_out_of_order_and_all_in_the_end() -> None:
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


def test_the_same_seed_is_the_same_weather() -> None:
    runs = []
    for seed in (1, 1, 2):
        relay = Relay(seed=seed, faults=Faults(loss=0.5, doubled=0.5))
        a, b = joined(relay, "a", "b")
        for data in numbers(20):
            a.send("b", data)
        runs.append(b.receive())
    assert runs[0] == runs[1] != runs[2]


def test_between_parted_sites_nothing_passes_and_the_log_is_there() -> None:
    relay = Relay(faults=Faults(parted={frozenset("ab")}))
    a, b, c = joined(relay, "a", "b", "c")
    a.send(None, b"all")
    assert b.receive() == []
    assert c.receive() == [b"all"]
    assert a.decide("r", b"one") == b.decide("r", b"two") == b"one"


def test_a_site_that_is_away_reaches_neither_the_others_nor_the_log() -> None:
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


def test_the_first_record_stands() -> None:
    relay = Relay()
    a, b = joined(relay, "a", "b")
    assert a.decision("r") is None
    assert a.decide("r", b"one") == b.decide("r", b"two") == b"one"
    assert b.decision("r") == b"one"


def test_a_write_that_is_unsure_may_have_been_done() -> None:
    relay = Relay(faults=Faults(unsure=1.0))
    a, b = joined(relay, "a", "b")
    with pytest.raises(UnavailableError):
        a.decide("r", b"one")
    assert b.decision("r") == b"one"
