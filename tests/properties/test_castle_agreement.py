"""The compiled engine decides as the transcription of the paper does, row for row, under the same random choices.

Compared before the gate, after every call: which rows leave, in which order, with which box and loss, and what the
engine then knows. Further down, what a transcription cannot show: that batches and snapshots change nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.engine import domain
from castleguard.engine.castle import CastleEngine
from castleguard.engine.policy import Castle as Policy
from castleguard.engine.policy import Mode
from castleguard.kernels import state as names
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema
from tests.properties.streams import Step, Stream, examples, joined, one_by_one, streams
from tests.reference import measure
from tests.reference.castle import Castle, Decision, Row, Settings
from tests.reference.chacha import Draws, choose
from tests.reference.measure import Box, Cluster

KINDS = {"new": NEW, "reuse": REUSED, "root": ROOT}


@dataclass(frozen=True)
class Group:
    """Rows that leave together under one box."""

    event: int
    kind: int
    positions: list[int]
    box: Box
    loss: float


@dataclass(frozen=True)
class Outcome:
    """What one or more calls decided."""

    groups: list[Group]
    order: list[int]
    dropped: list[int]

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(self.groups + other.groups, self.order + other.order, self.dropped + other.dropped)


NOTHING = Outcome([], [], [])


# -- the engine --------------------------------------------------------------------------------------------------------


def new_engine(stream: Stream) -> CastleEngine:
    return CastleEngine(stream.schema, stream.policy, key=stream.key)


def part(rows: CodedRows, start: int, stop: int) -> CodedRows:
    return CodedRows(*(array[start:stop] for array in rows))


def outcome_of(decisions: Decisions) -> Outcome:
    groups = [
        Group(
            event=int(decisions.event[group]),
            kind=int(decisions.kind[group]),
            positions=sorted(decisions.position[decisions.group == group].tolist()),
            box=tuple(zip(decisions.lower[group].tolist(), decisions.upper[group].tolist(), strict=True)),
            loss=float(decisions.loss[group]),
        )
        for group in range(decisions.loss.size)
    ]
    return Outcome(groups, decisions.position.tolist(), decisions.dropped.tolist())


def feed(engine: CastleEngine, rows: CodedRows, steps: Iterable[Step], start: int = 0) -> Iterable[Outcome]:
    """Make the calls, from row `start` of `rows` on."""
    for step in steps:
        if step.rows:
            yield outcome_of(engine.push(part(rows, start, start + step.rows), step.now))
        else:
            yield outcome_of(engine.tick(step.now))
        start += step.rows


def run_whole(stream: Stream, steps: Sequence[Step]) -> Outcome:
    """All decisions of a stream that is fed in these steps."""
    engine = new_engine(stream)
    return sum(feed(engine, stream.rows, steps), NOTHING) + outcome_of(engine.flush())


# -- the transcription -------------------------------------------------------------------------------------------------


class Transcription(Castle):
    """The transcription behind a batch interface: it keeps the clock, and notes whose turn each decision was."""

    def __init__(self, stream: Stream) -> None:
        self.draws = Draws([int(word) for word in stream.key])
        super().__init__(attributes_of(stream.schema, stream.policy), settings_of(stream.policy), self.draws)
        self.policy = stream.policy
        self.rows = rows_of(stream.rows)
        self.arrived: dict[int, float] = {}
        self.outcome = NOTHING
        self.longest_wait = 0

    def begin_at(self, position: int) -> None:
        """Pretend that so many rows have come and gone."""
        self._arrivals = position

    def step(self, step: Step) -> Outcome:
        self.outcome = NOTHING
        while self.pending and self._is_late(min(self.pending), step.now):
            self.expire(min(self.pending))
        for _ in range(step.rows):
            self.arrived[self._arrivals] = step.now
            row = self.rows.pop(0)
            self.push(Row(self._arrivals, row.person, row.quasi, row.sensitive, row.to_root))
        return self.outcome

    def end(self) -> Outcome:
        self.outcome = NOTHING
        self.flush()
        return self.outcome

    def output_cluster(self, cluster: Cluster, event: int) -> list[Decision]:
        return self._note(event, super().output_cluster(cluster, event))

    def _reuse(self, row: Row) -> list[Decision]:
        return self._note(row.position, super()._reuse(row))

    def _suppress(self, row: Row) -> list[Decision]:
        return self._note(row.position, super()._suppress(row))

    def _note(self, event: int, decisions: list[Decision]) -> list[Decision]:
        published = [decision for decision in decisions if decision.kind != "drop"]
        self.outcome += Outcome(
            groups=[Group(event, KINDS[d.kind], d.rows, d.box or (), d.loss) for d in published],
            order=self._in_order(event, [position for d in published for position in d.rows]),
            dropped=[position for d in decisions if d.kind == "drop" for position in d.rows],
        )
        for decision in published:
            self.longest_wait = max(self.longest_wait, self._arrivals - 1 - decision.rows[0])
        return decisions

    def _is_late(self, position: int, now: float) -> bool:
        return self.policy.max_wait is not None and self.arrived[position] + self.policy.max_wait <= now

    def _in_order(self, event: int, positions: list[int]) -> list[int]:
        """By arrival, or shuffled (Fisher and Yates) from group after group."""
        if self.policy.chosen_order != "shuffled":
            return sorted(positions)
        for last in range(len(positions) - 1, 0, -1):
            other = choose(self.draws, "shuffle", event, last + 1)
            positions[last], positions[other] = positions[other], positions[last]
        return positions


def settings_of(policy: Policy) -> Settings:
    reading = policy.chosen_reading
    return Settings(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        max_clusters=policy.max_clusters,
        loss_window=policy.loss_window,
        max_reusable=policy.max_reusable,
        tau_init=reading.first_threshold,
        reuse=policy.reuse == "paper",
        containment=reading.containment,
        admission=reading.admission,
        tie=reading.tie_break,
        buckets=reading.representatives,
        merge=reading.merge,
        suppression=policy.chosen_suppression,
        l_per=policy.l_per,
        reusable_ttl=policy.reusable_age,
    )


def attributes_of(schema: Schema, policy: Policy) -> list[measure.Attribute]:
    attributes: list[measure.Attribute] = []
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric):
            lower, upper = role.domain or (None, None)
            attributes.append(measure.Numeric(lower, upper, role.edges.tolist() if policy.strict else None))
        else:
            tree = role.hierarchy
            attributes.append(
                measure.Categorical(measure.Tree.from_arrays(tree.parents, tree.first_leaf, tree.last_leaf))
            )
    return attributes


def rows_of(rows: CodedRows) -> list[Row]:
    columns = zip(*(array.tolist() for array in rows), strict=True)
    return [Row(i, person, tuple(q), tuple(s), root) for i, (q, person, s, root) in enumerate(columns)]


# -- agreement ---------------------------------------------------------------------------------------------------------


def check_same(actual: Outcome, expected: Outcome) -> None:
    assert actual.order == expected.order
    assert actual.dropped == expected.dropped
    assert [(g.event, g.kind, g.positions, g.box) for g in actual.groups] == [
        (g.event, g.kind, g.positions, g.box) for g in expected.groups
    ]
    assert [g.loss for g in actual.groups] == pytest.approx([g.loss for g in expected.groups], abs=1e-9)


def check_state(engine: CastleEngine, twin: Transcription) -> None:
    assert engine.threshold == pytest.approx(twin.threshold, abs=1e-9)
    assert engine.pending == len(twin.pending)
    assert engine.open_clusters == len(twin.clusters)
    assert engine.oldest == min(twin.pending, default=engine.arrivals)
    assert engine.longest_wait == twin.longest_wait


def check_agreement(stream: Stream, first: int = 0) -> None:
    """Engine and transcription decide alike; `first` is the position of the first row."""
    engine, twin = new_engine(stream), Transcription(stream)
    if first:
        skip_to(engine, first)
        twin.begin_at(first)
    for step, outcome in zip(stream.steps, feed(engine, stream.rows, stream.steps), strict=True):
        check_same(outcome, twin.step(step))
        check_state(engine, twin)
    check_same(outcome_of(engine.flush()), twin.end())
    check_state(engine, twin)
    assert engine.pending == 0


def skip_to(engine: CastleEngine, position: int) -> None:
    """Let an empty engine believe that so many rows have come and gone."""
    arrays = engine.snapshot()
    arrays["counters"][[names.ARRIVALS, names.OLDEST]] = position
    engine.restore(arrays)


@examples(12)
@given(streams(mode="paper"))
def test_in_paper_mode_the_engine_decides_as_the_paper_prints(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(streams(mode="strict"))
def test_in_strict_mode_the_engine_decides_as_the_repaired_paper(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(streams(reading="any"))
def test_any_reading_of_the_paper_is_followed(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(streams(reading="any", diverse=True))
def test_clusters_are_merged_and_split_for_diversity_as_the_paper_has_it(stream: Stream) -> None:
    check_agreement(stream)


@examples(2)
@given(streams(reading="any"))
def test_climbing_a_hierarchy_is_the_same_as_looking_its_nodes_up(stream: Stream) -> None:
    with patch.object(domain, "_TABLE_LEAVES", 1):
        check_agreement(stream)


@examples(2)
@given(streams(reading="any"), st.sampled_from([2**20 - 30, 2**21 - 30, 2**32 - 30, 2**40]))
def test_the_engine_still_decides_so_after_many_rows(stream: Stream, first: int) -> None:
    """Across a change of the draws' key, and where a position no longer fits 32 bits."""
    check_agreement(stream, first)


# -- batches and snapshots ---------------------------------------------------------------------------------------------


@examples(10)
@given(streams(reading="any"))
def test_batch_boundaries_change_nothing(stream: Stream) -> None:
    whole = run_whole(stream, stream.steps)
    assert run_whole(stream, one_by_one(stream.steps)) == whole
    assert run_whole(stream, joined(stream.steps)) == whole


@examples(10)
@given(streams(reading="any"), st.data())
def test_a_snapshot_anywhere_changes_nothing(stream: Stream, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream.steps)))
    before, after = stream.steps[:cut], stream.steps[cut:]
    engine = new_engine(stream)
    outcome = sum(feed(engine, stream.rows, before), NOTHING)
    copy = engine.snapshot()
    engine.flush()  # a snapshot is a copy: what the engine does afterwards does not show in it
    other = new_engine(stream)
    other.restore(copy)
    start = sum(step.rows for step in before)
    outcome += sum(feed(other, stream.rows, after, start), NOTHING) + outcome_of(other.flush())
    assert outcome == run_whole(stream, stream.steps)
