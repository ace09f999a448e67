"""A shard publishes nothing before its keys are stored, and replays deterministically; its alarm."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.errors import SnapshotError
from castleguard.shards.plan import Plan
from castleguard.shards.routing import HashRoute
from castleguard.shards.shard import Outcome, Shard

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("x", lower=0, upper=100, step=5)], public=["row"])
POLICY = cg.Castle(k=3, delay=20, max_wait=10)
CITADEL = cg.Citadel(k=3, delay=20, max_wait=10)
MICRO = 40


def plan_of(**changes: Any) -> Plan:
    given: dict[str, Any] = {"schema": SCHEMA, "policy": POLICY, "route": HashRoute(SCHEMA, 2), "position": ()}
    return Plan(**{**given, **changes})


def visits(first: int, rows: int = MICRO) -> pa.Table:
    chance = np.random.default_rng(first)
    number = np.arange(first, first + rows)
    return pa.table({"pid": number % 31, "x": chance.uniform(0, 100, rows), "row": number, "at": number})


def books(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(outcome.counts)
    return found


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    return [row for table in outcome.published for row in table.to_pylist()]


def turned(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows)[::-1]))


def test_new_shard_publishes_nothing_in_its_first_batch() -> None:
    shard = Shard(plan_of(), 0)
    first = shard.take(visits(0), 5.0)
    assert (rows_of(first), books(first)["waiting"], books(first)["rows_in"]) == ([], MICRO, 0)
    # A timer of the same batch runs from a state that is not stored yet.
    same = Shard.restore(plan_of(), 0, shard.snapshot())
    assert rows_of(same.tick(5.0)) == []
    later = Shard.restore(plan_of(), 0, shard.snapshot())
    assert rows_of(later.tick(6.0))


def test_first_batch_run_twice_reveals_neither_key() -> None:
    one, other = Shard(plan_of(), 0), Shard(plan_of(), 0)
    assert one.snapshot() != other.snapshot()
    assert rows_of(one.take(visits(0), 5.0)) == rows_of(other.take(visits(0), 5.0)) == []


@pytest.mark.parametrize("policy", [POLICY, CITADEL, replace(CITADEL, reuse="narrow")])
def test_replayed_batch_gives_the_same_bytes_for_any_order_of_rows(policy: Policy) -> None:
    plan = plan_of(policy=policy)
    shard = Shard(plan, 0)
    shard.take(visits(0), 5.0)
    state = shard.snapshot()
    ends = []
    for rows in (visits(MICRO), turned(visits(MICRO))):
        again = Shard.restore(plan, 0, state)
        outcome = again.take(rows, 6.0)
        again.move_alarm(6.0)
        ends.append((rows_of(outcome), outcome.counts, again.snapshot()))
    assert ends[0] == ends[1]
    assert len(ends[0][0]) > MICRO


@pytest.mark.parametrize("policy", [POLICY, CITADEL])
def test_single_shard_with_positions_equals_a_plain_stream(policy: Policy) -> None:
    plan = plan_of(policy=policy, route=HashRoute(SCHEMA, 1), position=("at",), seed=4)
    shard = Shard(plan, 0)
    alone = cg.Anonymiser(SCHEMA, policy, seed=4)
    expected, found = [], []
    for number in range(4):
        now = float(number)
        found += rows_of(shard.take(turned(visits(number * MICRO)), now))
        shard = Shard.restore(plan, 0, shard.snapshot())
        expected += alone.push(visits(number * MICRO), now=now).to_pylist()
    found += rows_of(shard.tick(99.0))
    expected += alone.tick(99.0).to_pylist()
    assert found == expected
    assert len(found) == 4 * MICRO


def test_stored_key_of_the_host_gives_the_same_result_at_once() -> None:
    ends = []
    for rows in (visits(0), turned(visits(0))):
        shard = Shard(plan_of(), 1, key=b"s" * 32, kept=True)
        ends.append(rows_of(shard.take(rows, 0.0)) + rows_of(shard.flush(0.0)))
    assert ends[0] == ends[1]
    assert len(ends[0]) == MICRO
    other = Shard(plan_of(), 0, key=b"s" * 32, kept=True)
    assert rows_of(other.take(visits(0), 0.0)) + rows_of(other.flush(0.0)) != ends[0], "shards must not share draws"


def test_state_is_restored_by_its_own_plan_only() -> None:
    state = Shard(plan_of(), 0).snapshot()
    for other, number, word in (
        (plan_of(route=HashRoute(SCHEMA, 3)), 0, "route"),
        (plan_of(position=("at",)), 0, "position"),
        (plan_of(policy=cg.Castle(k=4, delay=20, max_wait=10)), 0, "policy"),
        (plan_of(), 1, "shard"),
    ):
        with pytest.raises(SnapshotError, match=word):
            Shard.restore(other, number, state)


def near(value: float, first: int) -> pa.Table:
    """Four rows of four persons."""
    number = np.arange(first, first + 4)
    return pa.table({"pid": number, "x": np.full(4, value), "row": number, "at": number})


def test_alarm_is_the_next_batch_while_rows_wait_then_the_oldest_deadline() -> None:
    shard = Shard(plan_of(), 0)
    shard.take(near(1.0, 0), 100.0)
    assert shard.move_alarm(100.0) == (None, 100_001)
    shard.tick(101.0)
    assert shard.move_alarm(101.0) == (100_001, 110_000)
    shard.take(near(99.0, 4), 105.0)
    assert shard.move_alarm(105.0) == (110_000, 110_000)
    # The first four leave as one group; the others are due five seconds later.
    assert len(rows_of(shard.tick(110.0))) == shard.pending == 4
    assert shard.move_alarm(110.0) == (110_000, 115_000)
    assert len(rows_of(shard.tick(116.0))) == 4
    assert shard.move_alarm(116.0) == (115_000, None)


def test_time_stands_still_when_the_clock_is_set_back() -> None:
    shard = Shard(plan_of(), 0)
    shard.take(visits(0, 2), 100.0)
    shard.tick(101.0)
    outcome = shard.take(visits(50, 2), 50.0)
    assert books(outcome)["rows_in"] == 4
    assert rows_of(shard.tick(60.0)) == []


def test_rows_that_arrive_while_the_clock_is_set_back_are_due_by_the_streams_time() -> None:
    shard = Shard(plan_of(), 0, key=b"s" * 32, kept=True)
    shard.take(near(1.0, 0), 100.0)
    shard.tick(110.0)
    assert shard.move_alarm(110.0) == (None, None)
    shard.take(near(99.0, 4), 109.0)
    assert shard.move_alarm(109.0) == (None, 120_000)
    assert len(rows_of(shard.tick(120.0))) == 4


def test_rejected_row_has_place_and_reason() -> None:
    shard = Shard(plan_of(position=("at",)), 0, key=b"s" * 32, kept=True)
    rows = visits(0, 4).set_column(1, "x", pa.array([1.0, None, 2.0, 3.0]))
    outcome = shard.take(rows, 0.0)
    assert outcome.rejected == [('{"at": 1}', "x: null")]
    assert Shard(plan_of(), 0, key=b"s" * 32, kept=True).take(rows, 0.0).rejected == [(None, "x: null")]


def test_attempts_with_one_key_reach_one_state_and_still_wait() -> None:
    states = []
    for rows in (visits(0), turned(visits(0))):
        shard = Shard(plan_of(), 0, key=b"s" * 32)
        assert rows_of(shard.take(rows, 5.0)) == []
        later = Shard.restore(plan_of(), 0, shard.snapshot())
        states.append((rows_of(later.tick(6.0)), later.snapshot()))
    assert states[0] == states[1]
    assert states[0][0]


def test_rows_of_a_window_are_due_at_its_end() -> None:
    policy = cg.Sdgs(k=3, sample_rate=0.5, epsilon=1.0, window=60.0)
    plan = plan_of(schema=replace(SCHEMA, public=()), policy=policy)
    shard = Shard(plan, 0, key=b"s" * 32, kept=True)
    shard.take(visits(0), 1_000.0)
    assert shard.move_alarm(1_000.0) == (None, 1_020_000)
