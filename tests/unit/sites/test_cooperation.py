"""Protocol of one real site; the test plays the messages of the other."""

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.checkpoint.cipher import Cipher
from castleguard.errors import PolicyError, SnapshotError
from castleguard.schema.roles import Numeric, Schema
from castleguard.sites.joint_releases import Verdict
from castleguard.sites.memory_relay import Relay
from castleguard.sites.site_membership import Membership
from castleguard.sites.site_messages import (
    Decided,
    Join,
    Message,
    Prepare,
    Prepared,
    Published,
    Rows,
    Seal,
    decode,
    encode,
)
from tests.site_stream import SiteStream

_Kind = TypeVar("_Kind", bound=Message)
_Q = Numeric("q", lower=0, upper=12, step=1, null="root")
SCHEMA = Schema(person="p", quasi_identifiers=[_Q], sensitive=["s"], public=["row"])


def policy(**changes: Any) -> Dcastle:
    """Four persons within twelve arrivals; rows are proposed early, and clusters of any size are shared."""
    return Dcastle(**{"sites": 2, "k": 4, "delay": 12, "reserve": 0.9, "share_threshold": 1, **changes})


def member(name: str, **changes: Any) -> Membership:
    return Membership(**{"name": name, "sites": ("a", "b"), "key": b"shared", "epoch": "1", **changes})


def rows(*numbers: float | None, first: int = 1) -> pa.Table:
    """One row per number, each of another person."""
    ids = list(range(first, first + len(numbers)))
    return pa.table({"p": ids, "q": pa.array(numbers, pa.float64()), "s": [f"s{n % 3}" for n in ids], "row": ids})


class Stage:
    """A relay with real sites and played ones."""

    def __init__(self, chosen: Dcastle | None = None, *, schema: Schema = SCHEMA, seal: Seal | None = None) -> None:
        self.policy = chosen or policy()
        self.schema = schema
        self.seal = seal
        self.relay = Relay()
        for name in ("a", "b"):
            self.relay.join(name)

    def site(self, name: str, **changes: Any) -> SiteStream:
        """Start a real site."""
        transport = self.relay.join(name)
        return SiteStream(self.schema, self.policy, member(name, **changes), transport, seal=self.seal, seed=1)

    def say(self, kind: type[Message], to: str, sender: str = "b", **fields: Any) -> None:
        """Send a message of a played site."""
        me = SiteStream(self.schema, self.policy, member(sender), Relay().join(sender)).wire.me
        self.relay.send(sender, to, encode(kind(**{**me, **fields}), self.seal))

    def received(self, name: str, kind: type[_Kind]) -> list[_Kind]:
        """Return the messages of one kind received by a played site."""
        messages = [decode(data, self.seal) for data in self.relay.receive(name)]
        return [message for message in messages if isinstance(message, kind)]


def prepare(release: str, *boxes: tuple[float, float]) -> dict[str, Any]:
    """Fields of a Prepare with boxes of one column."""
    lower, upper = np.array(boxes).T[..., None]
    losses = (upper - lower)[:, 0] / 12
    return {"release": release, "lower": lower, "upper": upper, "losses": losses, "cluster": 0}


def offered(release: str, *, persons: int, level: int = 0, offer: str = "b.1.1") -> dict[str, Any]:
    """Fields of a Prepared with so many persons."""
    ids = np.arange(100, 100 + persons)
    payload = pa.table({"s": [f"t{n}" for n in ids], "row": ids})
    taken = Rows(ids.astype(np.uint64), ids[:, None], payload, np.full(persons, level))
    return {"release": release, "offer": offer, "rows": taken}


def commit(stream: SiteStream) -> None:
    """Commit all returned rows."""
    stream.snapshot()
    stream.coordinator.committed()


def propose(stream: SiteStream) -> None:
    """Propose releases as at the end of the stream."""
    stream.cooperation.ending = True
    stream.tick(0.0)
    stream.cooperation.ending = False


def pair(stage: Stage) -> tuple[SiteStream, SiteStream]:
    """Two sites with two rows each, enough for a release together."""
    a, b = stage.site("a"), stage.site("b")
    a.push(rows(4, 5), now=0.0)
    b.push(rows(4, 5, first=3), now=0.0)
    return a, b


def ask(stage: Stage, b: SiteStream, *boxes: tuple[float, float], release: str = "a.1.1", now: float = 0.0) -> None:
    """Ask b for the rows in boxes, as the site a does, and commit its answer."""
    stage.say(Prepare, "b", "a", **prepare(release, *boxes))
    b.tick(now)
    commit(b)


def restarted(stage: Stage, name: str, blob: bytes) -> SiteStream:
    """A site that starts again from a snapshot."""
    again = stage.site(name, epoch="2")
    again.resume(blob)
    return again


def released(stage: Stage, a: SiteStream, b: SiteStream) -> pa.Table:
    """Return the rows that a publishes in a release with rows of b."""
    propose(a)
    for stream in (b, a):
        assert stream.tick(0.0).num_rows == 0
        commit(stream)
    return a.tick(0.0)


# A release


def test_joint_release_is_published_by_one_site_for_both() -> None:
    stage = Stage()
    a, b = pair(stage)
    table = released(stage, a, b)
    assert sorted(table["row"].to_pylist()) == [1, 2, 3, 4]
    assert set(zip(table["q_min"].to_pylist(), table["q_max"].to_pylist(), strict=True)) == {(4, 6)}
    commit(a)
    assert b.tick(0.0).num_rows == 0
    assert (a.report().published, a.report().received, b.report().handed_over) == (2, 2, 2)


def test_person_at_two_sites_counts_once() -> None:
    stage = Stage()
    a, b = stage.site("a"), stage.site("b")
    a.push(rows(4, 5), now=0.0)
    b.push(rows(4, 5, first=2), now=0.0)
    assert released(stage, a, b).num_rows == 0
    b.tick(0.0)
    assert (a.report().pending, b.report().pending) == (2, 2)
    assert not any((a.cooperation.offers, a.cooperation.leads, b.cooperation.offers))


@pytest.mark.parametrize("sensitive", [[], ["s"]])
def test_rows_without_payload_are_released_jointly(sensitive: list[str]) -> None:
    stage = Stage(schema=Schema(person=None, quasi_identifiers=[_Q], sensitive=sensitive))
    a, b = pair(stage)
    assert released(stage, a, b).num_rows == 4


def test_rows_for_the_root_are_never_offered() -> None:
    stage = Stage()
    b = stage.site("b")
    b.push(rows(None, 0, first=3), now=0.0)
    ask(stage, b, (0, 12))
    (answer,) = stage.received("a", Prepared)
    assert answer.rows is not None
    assert answer.rows.payload["row"].to_pylist() == [4]


def test_rows_of_other_types_are_cast_or_refused() -> None:
    stage = Stage()
    a, b = stage.site("a"), stage.site("b")
    a.push(rows(4, 5), now=0.0)
    table = rows(4, 5, first=3)
    b.push(table.set_column(3, "row", pa.array(["3", "4"])), now=0.0)
    assert sorted(released(stage, a, b)["row"].to_pylist()) == [1, 2, 3, 4]
    stage = Stage()
    a, b = stage.site("a"), stage.site("b")
    a.push(rows(4, 5), now=0.0)
    b.push(table.set_column(3, "row", pa.array(["three", "four"])), now=0.0)
    assert released(stage, a, b).num_rows == 0
    b.tick(0.0)
    assert b.report().pending == 2
    assert not b.cooperation.offers


def test_column_without_values_becomes_text_when_a_release_is_published() -> None:
    stage = Stage()
    a, b = stage.site("a"), stage.site("b")
    for stream, first in ((a, 1), (b, 3)):
        stream.push(rows(4, 5, first=first).set_column(3, "row", pa.nulls(2)), now=0.0)
    table = released(stage, a, b)
    assert table.num_rows == 4
    assert table.schema.field("row").type == pa.string()
    a.push(rows(8, 9, 9, 9), now=0.0)
    assert a.flush().schema == table.schema


@pytest.mark.parametrize(("here", "there"), [([True, True], [1, 1]), ([True, True], [2, 3]), (["1", "1"], [1, 1])])
def test_values_of_another_type_do_not_count_as_distinct(here: list[Any], there: list[Any]) -> None:
    """They would be published as the same value."""
    stage = Stage(policy(l=2))
    a, b = stage.site("a"), stage.site("b")
    a.push(rows(4, 5).set_column(2, "s", pa.array(here)), now=0.0)
    b.push(rows(4, 5, first=3).set_column(2, "s", pa.array(there)), now=0.0)
    assert released(stage, a, b).num_rows == 0


# Questions and answers that are repeated, late or lost


def test_repeated_question_after_the_release_takes_no_more_rows() -> None:
    stage = Stage()
    b = stage.site("b")
    b.push(rows(4, 5), now=0.0)
    ask(stage, b, (4, 6))
    (answer,) = stage.received("a", Prepared)
    stage.relay.log["a.1.1"] = Verdict(offers={"a.1.1": 1, answer.offer: 2}).to_bytes()
    stage.say(Decided, "b", "a", release="a.1.1")
    b.push(rows(4, first=3), now=0.0)
    assert b.report().handed_over == 2
    ask(stage, b, (4, 6))
    stage.say(Decided, "b", "a", release="a.1.1")
    b.tick(0.0)
    assert (b.report().handed_over, b.report().pending) == (2, 1)


def asked_before_a_restart(stage: Stage) -> tuple[bytes, SiteStream]:
    """A snapshot of the coordinator a, and the site b, which has reserved rows for its proposal."""
    a, b = pair(stage)
    propose(a)
    blob = a.snapshot()
    b.tick(0.0)
    return blob, b


def test_answer_to_a_restarted_coordinator_is_released() -> None:
    stage = Stage()
    blob, b = asked_before_a_restart(stage)
    commit(b)
    a = restarted(stage, "a", blob)
    for stream in (a, b, a):
        assert stream.tick(0.0).num_rows == 0
    assert Verdict.from_bytes(stage.relay.log["a.1.1"]).offers == {}
    assert "a.1.1" not in b.cooperation.offers
    assert (a.report().pending, b.report().pending) == (2, 2)


def test_site_that_dies_before_storing_its_answer_has_not_answered() -> None:
    stage = Stage()
    b = stage.site("b")
    b.push(rows(4, 5), now=0.0)
    before = b.snapshot()
    stage.say(Prepare, "b", "a", **prepare("a.1.1", (4, 6)))
    b.tick(0.0)
    after = b.snapshot()
    assert not stage.received("a", Prepared)
    b = restarted(stage, "b", before)
    b.tick(0.0)
    assert not stage.received("a", Prepared)
    restarted(stage, "b", after)
    (answer,) = stage.received("a", Prepared)
    assert answer.offer.startswith("b.1.")


def test_undecided_rows_return_before_they_are_due() -> None:
    stage = Stage()
    b = stage.site("b")
    b.push(rows(4, 4), now=0.0)
    ask(stage, b, (4, 6))
    out = [b.push(rows(4, first=3 + n), now=0.0) for n in range(13)]
    assert Verdict.from_bytes(stage.relay.log["a.1.1"]).offers == {}
    assert {1, 2} <= {row for table in out for row in table["row"].to_pylist()}


def test_undecided_rows_return_in_time_even_if_many_rows_arrive_at_once() -> None:
    stage = Stage(policy(delay=40))
    b = stage.site("b")
    b.push(rows(4, 4), now=0.0)
    ask(stage, b, (4, 6))
    assert b.report().pending == 2 < stage.policy.joint.step
    table = b.push(rows(*[4] * 60, first=3), now=0.0)
    assert {1, 2} <= set(table["row"].to_pylist())
    assert b.report().oldest_wait <= 40


# Lost messages while no more rows arrive, so that no row is ever due


def offering(stage: Stage) -> tuple[SiteStream, Prepared]:
    """A site that has offered two rows to a release, with its answer."""
    b = stage.site("b")
    b.push(rows(4, 4), now=0.0)
    ask(stage, b, (4, 6))
    (answer,) = stage.received("a", Prepared)
    return b, answer


def test_decision_is_found_on_the_log_without_its_message() -> None:
    stage = Stage()
    b, answer = offering(stage)
    stage.relay.log["a.1.1"] = Verdict(offers={"a.1.1": 1, answer.offer: 1}).to_bytes()
    b.tick(3.9)
    assert b.cooperation.offers
    b.tick(4.0)
    assert (b.report().handed_over, b.report().pending) == (1, 1)
    assert not b.cooperation.offers


def test_undecided_offer_is_sent_again_periodically() -> None:
    stage = Stage()
    b, answer = offering(stage)
    sent = []
    for tenths in range(1, 100):
        b.tick(tenths / 10)
        sent += [(tenths, again.offer) for again in stage.received("a", Prepared)]
    assert sent == [(40, answer.offer), (80, answer.offer)]
    assert not stage.relay.log


def test_offer_is_looked_up_again_after_an_outage_of_the_log() -> None:
    stage = Stage()
    b, answer = offering(stage)
    stage.relay.log["a.1.1"] = Verdict(offers={"a.1.1": 1, answer.offer: 2}).to_bytes()
    stage.relay.faults.away = {"b"}
    b.tick(5.0)
    assert (b.report().pending, b.report().undecided) == (2, 0)
    stage.relay.faults.away.clear()
    b.tick(9.0)
    assert b.report().handed_over == 2


def test_lost_answer_to_a_restarted_coordinator_does_not_lock_rows_for_ever() -> None:
    stage = Stage()
    blob, b = asked_before_a_restart(stage)
    stage.relay.faults.loss = 1.0
    commit(b)
    stage.relay.faults.loss = 0.0
    a = restarted(stage, "a", blob)
    for stream in (a, b):
        stream.tick(0.0)
    assert b.cooperation.offers
    for stream in (b, a, b):
        stream.tick(4.0)
    assert not b.cooperation.offers
    assert (a.report().pending, b.report().pending) == (2, 2)


def test_rows_of_a_decided_release_wait_for_the_log() -> None:
    stage = Stage()
    b, _ = offering(stage)
    stage.relay.faults.unsure = 1.0
    stage.say(Decided, "b", "a", release="a.1.1")
    b.tick(0.0)
    assert (b.report().pending, b.report().undecided) == (2, 0)
    stage.relay.faults.unsure = 0.0
    stage.say(Decided, "b", "a", release="a.1.1")
    b.tick(0.0)
    assert not b.cooperation.offers
    assert (b.report().pending, b.report().undecided) == (2, 0)


# Outages of the log


def given_up(stage: Stage) -> SiteStream:
    """A site that has given up two offered rows, one in each proposed box."""
    b = stage.site("b")
    b.push(rows(4, 8), now=0.0)
    ask(stage, b, (4, 6), (4, 9))
    stage.relay.faults.away = {"b"}
    b.push(rows(*[1] * 12, first=3), now=0.0)
    assert b.report().undecided == 2
    return b


def test_given_up_rows_that_were_taken_count_as_handed_over() -> None:
    stage = Stage()
    b = given_up(stage)
    (answer,) = stage.received("a", Prepared)
    stage.relay.log["a.1.1"] = Verdict(offers={"a.1.1": 1, answer.offer: 1}).to_bytes()
    stage.relay.faults.away.clear()
    before = b.report().suppressed
    b.tick(0.0)
    assert (b.report().undecided, b.report().handed_over, b.report().suppressed) == (0, 1, before + 1)


def test_given_up_rows_survive_a_restart() -> None:
    stage = Stage()
    blob = given_up(stage).snapshot()
    b = restarted(stage, "b", blob)
    assert b.report().undecided == 2
    stage.relay.faults.away.clear()
    before = b.report().suppressed
    b.tick(0.0)
    assert (b.report().undecided, b.report().handed_over, b.report().suppressed) == (0, 0, before + 2)
    assert Verdict.from_bytes(stage.relay.log["a.1.1"]).offers == {}


def test_coordinator_gives_up_only_rows_of_its_verdict() -> None:
    stage = Stage(policy(k=5, reserve=0.25))
    a = stage.site("a")
    a.push(rows(4, 5, 9, 11), now=0.0)
    propose(a)
    asked = stage.received("b", Prepare)[0]
    assert len(asked.losses) > 1
    assert asked.upper[0, 0] == 6
    stage.say(Prepared, "a", **offered(asked.release, persons=3))
    stage.relay.faults.unsure = 1.0
    a.tick(0.0)
    commit(a)
    assert Verdict.from_bytes(stage.relay.log[asked.release]).offers[asked.release] == 2
    out = [a.push(rows(1, first=10 + n), now=0.0) for n in range(12)]
    assert a.report().undecided == 2
    stage.relay.faults.unsure = 0.0
    out.append(a.tick(0.0))
    assert (a.report().undecided, a.report().received) == (0, 3)
    found = [row for table in out for row in table["row"].to_pylist()]
    assert {1, 2, 3, 4, 100, 101, 102} <= set(found)
    assert len(found) == len(set(found))


def answered(stage: Stage) -> SiteStream:
    """A site whose release, of two rows and three of the other site, is decided and not committed."""
    a = stage.site("a")
    a.push(rows(4, 5), now=0.0)
    propose(a)
    (asked,) = stage.received("b", Prepare)
    stage.say(Prepared, "a", **offered(asked.release, persons=3))
    a.tick(0.0)
    return a


@pytest.mark.parametrize("tried", [False, True])
def test_release_returns_its_rows_unless_it_may_have_been_committed(tried: bool) -> None:
    stage = Stage()
    a = answered(stage)
    stage.relay.faults.away = {"a"}
    if tried:
        commit(a)
    out = [a.push(rows(4, first=10 + n), now=0.0) for n in range(12)]
    assert a.report().undecided == 2 * tried
    out.append(a.flush())
    assert ({1, 2} <= {row for table in out for row in table["row"].to_pylist()}) is not tried


def test_end_of_the_stream_settles_given_up_rows() -> None:
    stage = Stage()
    b = given_up(stage)
    b.flush()
    assert b.coordinator.unsettled
    stage.relay.faults.away.clear()
    b.flush()
    assert not b.coordinator.unsettled
    assert (b.report().undecided, b.report().suppressed >= 2) == (0, True)


def test_unreadable_record_does_not_block_the_others() -> None:
    stage = Stage(policy(delay=14), seal=Cipher(member("a").message_key()))
    b = stage.site("b")
    b.push(rows(4, 8), now=0.0)
    for release, box in (("a.1.1", (4, 5)), ("a.1.2", (8, 9))):
        stage.say(Prepare, "b", "a", **prepare(release, box))
        b.tick(0.0)
    commit(b)
    assert len(b.cooperation.offers) == 2
    stage.relay.faults.away = {"b"}
    b.push(rows(*[1] * 14, first=3), now=0.0)
    assert b.report().undecided == 2
    stage.relay.faults.away.clear()
    stage.relay.log["a.1.1"] = b"nothing"
    b.tick(0.0)
    assert b.report().undecided == 1
    assert list(stage.relay.log) == ["a.1.1", "a.1.2"]


@pytest.mark.parametrize("days", [28, 31])
def test_rows_of_an_offer_whose_record_may_have_expired_are_given_up(days: int) -> None:
    """An abort could replace an expired commit."""
    stage = Stage()
    b = stage.site("b")
    b.push(rows(4, 4), now=0.0)
    ask(stage, b, (4, 6))
    again = restarted(stage, "b", b.snapshot())
    again.push(rows(*[4] * 12, first=3), now=days * 86_400.0)
    assert again.report().undecided == (2 if days == 31 else 0)
    again.tick(days * 86_400.0)
    assert again.cooperation.unsettled is False


def test_restored_stream_does_not_use_the_log_before_it_knows_the_time() -> None:
    """The record may have expired: an abort in its place could publish rows that were handed over."""
    stage = Stage()
    b = stage.site("b")
    b.push(rows(4, 4), now=86_400.0)
    ask(stage, b, (4, 6), now=86_400.0)
    again = restarted(stage, "b", b.snapshot())
    again.coordinator.committed()
    assert again.flush().num_rows == 0
    assert not stage.relay.log
    assert again.report().undecided == 2


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_rows_given_up_before_the_time_is_known_are_looked_up_afterwards(taken: int) -> None:
    stage = Stage()
    b, answer = offering(stage)
    if taken:
        stage.relay.log["a.1.1"] = Verdict(offers={"a.1.1": 1, answer.offer: taken}).to_bytes()
    again = restarted(stage, "b", b.snapshot())
    again.flush()
    assert (again.report().undecided, again.coordinator.unsettled is None) == (2, False)
    again.tick(28 * 86_400.0)
    report = again.report()
    assert (report.undecided, report.handed_over, report.suppressed) == (0, taken, 2 - taken)
    assert again.coordinator.unsettled is None


def test_rows_given_up_before_the_time_is_known_stay_undecided_if_the_record_may_have_expired() -> None:
    stage = Stage()
    b, _ = offering(stage)
    again = restarted(stage, "b", b.snapshot())
    again.flush()
    again.tick(31 * 86_400.0)
    assert not stage.relay.log
    assert again.report().undecided == 2
    assert again.coordinator.unsettled is None


def test_verdict_from_before_a_restart_waits_until_the_time_is_known() -> None:
    stage = Stage()
    a = stage.site("a")
    for n in range(3):
        a.push(rows(4 + n, first=1 + n))
    (asked,) = stage.received("b", Prepare)
    stage.say(Prepared, "a", **offered(asked.release, persons=3))
    a.push(rows(11, first=4))
    (lead,) = a.cooperation.leads.values()
    assert lead.outcome is not None
    again = restarted(stage, "a", a.snapshot())
    again.push(rows(11, first=5))
    assert again.report().undecided == 0
    commit(again)
    assert not stage.relay.log
    table = again.tick(0.0)
    assert Verdict.from_bytes(stage.relay.log[asked.release]) == lead.outcome.verdict
    assert table.num_rows == lead.outcome.rows > again.report().received > 0
    assert again.report().undecided == 0


def test_unwritten_verdict_does_not_request_commits() -> None:
    stage = Stage()
    a = answered(stage)
    assert a.coordinator.urgent
    stage.relay.faults.away = {"a"}
    commit(a)
    assert not a.coordinator.urgent
    stage.relay.faults.away.clear()
    assert a.tick(0.0).num_rows == 4


# Boxes that others may reuse


def test_box_is_announced_after_its_rows_are_delivered() -> None:
    """Until the next table is returned, the site holds the rows through any number of commits."""
    stage = Stage()
    a, b = pair(stage)
    propose(a)
    for stream in (b, a):
        stream.tick(0.0)
        commit(stream)
    commit(a)
    assert not stage.received("b", Published)
    assert a.tick(0.0).num_rows == 4
    assert not stage.received("b", Published)
    commit(a)
    (announced,) = stage.received("b", Published)
    assert (announced.lower.tolist(), announced.upper.tolist()) == ([[4.0]], [[6.0]])


@pytest.mark.parametrize(("chosen", "used"), [(policy(), 1), (policy(reuse="off"), 0), (policy(k_scope="per_site"), 0)])
def test_box_published_by_another_site_is_reused(chosen: Dcastle, used: int) -> None:
    stage = Stage(chosen)
    a = stage.site("a")
    stage.say(Published, "a", heard={"a": "1"}, lower=np.array([[4.0]]), upper=np.array([[5.0]]))
    a.push(rows(4), now=0.0)
    assert a.flush().num_rows == used


@pytest.mark.parametrize("heard", [{}, {"a": "0"}, {"b": "1"}])
def test_box_announced_before_this_start_is_not_reused(heard: dict[str, str]) -> None:
    """The output may have changed, and a relay can replay old messages."""
    stage = Stage()
    a = stage.site("a")
    stage.say(Published, "a", heard=heard, lower=np.array([[4.0]]), upper=np.array([[5.0]]))
    a.push(rows(4), now=0.0)
    assert a.flush().num_rows == 0


def test_sites_started_one_after_the_other_reuse_each_others_boxes() -> None:
    stage = Stage(policy(share_threshold=None))
    a = stage.site("a")
    a.tick(0.0)
    b = stage.site("b")
    for stream in (a, b, a):
        stream.tick(0.0)
    out = [a.push(rows(*[4, 5] * 8), now=0.0)]
    assert sum(table.num_rows for table in out)
    commit(a)
    b.push(rows(4, first=30), now=0.0)
    assert b.flush().num_rows == 1


def test_box_that_is_finer_than_the_schema_is_not_reused() -> None:
    stage = Stage()
    a = stage.site("a")
    stage.say(Published, "a", heard={"a": "1"}, lower=np.array([[3.9]]), upper=np.array([[5.0]]))
    a.push(rows(4), now=0.0)
    assert a.flush().num_rows == 0


# Ignored messages, and what is revealed


@pytest.mark.parametrize("key", [b"shared", b"another"])
def test_messages_of_a_site_with_another_promise_or_key_are_ignored(key: bytes) -> None:
    """Its boxes may hold fewer persons or have another meaning; its hashes may belong to others."""
    stage = Stage()
    a = stage.site("a")
    chosen = policy(k=2 + 2 * (key != b"shared"))
    stranger = SiteStream(SCHEMA, chosen, member("b", key=key), Relay().join("b"))
    stage.say(
        Published,
        "a",
        agreed=stranger.wire.me["agreed"],
        heard={"a": "1"},
        lower=np.array([[4.0]]),
        upper=np.array([[5.0]]),
    )
    a.push(rows(4), now=0.0)
    assert a.flush().num_rows == 0


def test_garbage_is_ignored() -> None:
    stage = Stage()
    a = stage.site("a")
    stage.relay.send("b", "a", b"nothing")
    stage.relay.send("b", "a", encode(Decided(sender="c", epoch="1", agreed="", release="a.1.1")))
    assert a.tick(0.0).num_rows == 0


def test_cluster_with_few_persons_is_not_revealed_to_a_site_that_asks_to_join() -> None:
    stage = Stage(policy(share_threshold=3))
    a = stage.site("a")
    a.push(rows(4, 5), now=0.0)
    for cluster in range(3):
        stage.say(Join, "a", cluster=cluster, version=1)
    a.tick(0.0)
    propose(a)
    assert not stage.received("b", Prepare)


def test_records_on_the_log_are_sealed_and_bound_to_their_release() -> None:
    stage = Stage(seal=Cipher(member("a").message_key()))
    a, b = pair(stage)
    assert released(stage, a, b).num_rows == 4
    (record,) = stage.relay.log.values()
    assert b"offers" not in record
    b = stage.site("b")
    b.push(rows(4, 5), now=0.0)
    stage.relay.log["a.1.7"] = record
    ask(stage, b, (4, 6), release="a.1.7")
    b.push(rows(*[1] * 12, first=3), now=0.0)
    assert b.report().undecided == 2


# A single site, and restarts


def test_single_site_publishes_the_same_as_a_plain_stream() -> None:
    table = rows(*[float(n * 7 % 13) for n in range(60)])
    relay = Relay()
    site = SiteStream(SCHEMA, policy(sites=1), member("a", sites=("a",)), relay.join("a"), seed=1)
    plain = cg.Anonymiser(SCHEMA, cg.Castle(k=4, delay=12), seed=1)
    # In another order, which depends on persons: sites hash them with another key.
    assert site.push(table, now=0.0).sort_by("row").equals(plain.push(table, now=0.0).sort_by("row"))
    assert site.flush().sort_by("row").equals(plain.flush().sort_by("row"))
    assert relay.messages == 0


@pytest.mark.parametrize(
    ("name", "key", "message"), [("b", b"shared", "belongs to the site 'a'"), ("a", b"another", "another key")]
)
def test_snapshot_of_another_site_or_key_is_refused(name: str, key: bytes, message: str) -> None:
    stage = Stage()
    a = stage.site("a")
    a.push(rows(4, 5), now=0.0)
    with pytest.raises(SnapshotError, match=message):
        stage.site(name, key=key, epoch="2").resume(a.snapshot())


def test_number_of_sites_and_mode_must_match_the_policy() -> None:
    with pytest.raises(PolicyError, match="the policy is for 3 sites, but 2 are named"):
        Stage(policy(sites=3)).site("a")
    with pytest.raises(PolicyError, match="mode='paper'"):
        Stage(policy(mode="paper")).site("a")
