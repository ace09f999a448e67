"""CASTLEGUARD in paper mode decides like the transcription of Algorithms 1 and 2, row for row, under the same draws.

Compared before the gate, after every call, in one batch or in many: the rows that are sampled out, the perturbed values
of the others, the rows that leave, their order, box and loss.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from math import isclose

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard, Clock
from castleguard.algorithms.stages import Keys
from castleguard.schema.coded import CodedRows
from tests.properties.guard_transcription import GuardTranscription
from tests.properties.streams import Step, Stream, examples, joined, large_streams, one_by_one, streams
from tests.properties.test_castle_agreement import check_state, outcome_of, part
from tests.properties.transcription import NOTHING, Outcome
from tests.reference.castleguard import Guard

SAMPLER_KEY = np.arange(1, 9, dtype=np.uint32)
CLOCKS: tuple[Clock, ...] = ("arrivals", "sampled", "time")


@st.composite
def guards(draw: st.DrawFn) -> Guard:
    return Guard(
        sample_rate=draw(st.sampled_from([0.25, 0.5, 0.875, 1.0])),
        phi=draw(st.sampled_from([0.5, 1.0, 10.0, 1000.0])),
        range_floor=draw(st.sampled_from([0.0, 1.0])),
        clock=draw(st.sampled_from(CLOCKS)),
    )


def guarded(stream: Stream, guard: Guard) -> Stream:
    """The same stream under a CASTLEGUARD policy with the parameters of its clustering."""
    given = {each.name: getattr(stream.policy, each.name) for each in fields(Castle)}
    given |= {"mode": "paper", "suppression": "drop", "order": stream.policy.chosen_order}
    given["reading"] = stream.policy.chosen_reading
    if guard.clock == "time" and given["max_wait"] is None:
        given["max_wait"] = 1e9
    policy = Castleguard(
        **given, sample_rate=guard.sample_rate, phi=guard.phi, range_floor=guard.range_floor, clock=guard.clock
    )
    return replace(stream, policy=policy)


class Player:
    """Intake and engine, with records for the comparison."""

    def __init__(self, stream: Stream) -> None:
        assert isinstance(stream.policy, Castleguard)
        keys = Keys(
            choices=stream.key,
            hashes=np.zeros(2, dtype=np.uint64),
            coin=SAMPLER_KEY,
            noise=SAMPLER_KEY,
            counts=SAMPLER_KEY,
        )
        self.intake = stream.policy.stages(stream.schema, keys).intake
        self.engine = CastleEngine(stream.schema, stream.policy, key=stream.key)
        self.clustered: dict[int, tuple[float, ...]] = {}
        self.sampled_out = 0
        self._rows = stream.rows
        self._taken = 0

    def step(self, step: Step) -> Outcome:
        if not step.rows:
            return outcome_of(self.engine.tick(step.now))
        rows = part(self._rows, self._taken, self._taken + step.rows)
        self._taken += step.rows
        nothing = pa.table({"none": pa.nulls(step.rows)})
        taken = self.intake.take(rows, nothing, step.now)
        self.sampled_out += taken.sampled_out
        assert taken.over_budget == 0
        self._note(taken.rows, taken.present)
        return outcome_of(self.engine.push(taken.rows, step.now, taken.present))

    def _note(self, rows: CodedRows, present: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> None:
        first = self.engine.arrivals
        for row in range(rows.person.size):
            if (present is None or present[row]) and not rows.to_root[row]:
                self.clustered[first + row] = tuple(rows.quasi[row].tolist())


def check_agreement(stream: Stream, guard: Guard) -> None:
    stream = guarded(stream, guard)
    shuffled = stream.policy.chosen_order == "shuffled"
    player, twin = Player(stream), GuardTranscription(stream, guard, [int(word) for word in SAMPLER_KEY])
    for step in stream.steps:
        check_close(player.step(step), twin.step(step), shuffled=shuffled)
        check_state(player.engine, twin.castle)
        assert player.sampled_out == len(twin.sampled_out)
    check_close(outcome_of(player.engine.flush()), twin.end(), shuffled=shuffled)
    expected = {position: values for position, values in twin.perturbed.items() if position in player.clustered}
    assert player.clustered.keys() == expected.keys()
    assert all(
        isclose(mine, theirs, rel_tol=1e-12, abs_tol=1e-12)
        for position, values in expected.items()
        for mine, theirs in zip(player.clustered[position], values, strict=True)
    )


def check_close(actual: Outcome, expected: Outcome, *, shuffled: bool) -> None:
    """Boxes are compared up to the last digits of a logarithm, which libraries round differently. A shuffle depends on
    those digits: of its result only the sequence of releases is compared.
    """
    if shuffled:
        event = {position: group.event for group in expected.groups for position in group.positions}
        assert [event[position] for position in actual.order] == [event[position] for position in expected.order]
        assert sorted(actual.order) == sorted(expected.order)
    else:
        assert actual.order == expected.order
    assert actual.dropped == expected.dropped
    for mine, theirs in zip(actual.groups, expected.groups, strict=True):
        assert (mine.event, mine.kind, mine.positions) == (theirs.event, theirs.kind, theirs.positions)
        assert np.allclose(np.array(mine.box), np.array(theirs.box), rtol=1e-12, atol=1e-12)
        assert isclose(mine.loss, theirs.loss, abs_tol=1e-9)


def run_whole(stream: Stream, steps: Sequence[Step]) -> tuple[Outcome, int, dict[int, tuple[float, ...]]]:
    player = Player(stream)
    outcomes: Iterable[Outcome] = [player.step(step) for step in steps]
    outcome = sum(outcomes, NOTHING) + outcome_of(player.engine.flush())
    return outcome, player.sampled_out, player.clustered


@examples(12)
@given(streams(mode="paper"), guards())
def test_paper_mode_decides_as_the_paper_prints(stream: Stream, guard: Guard) -> None:
    check_agreement(stream, guard)


@examples(6)
@given(streams(mode="paper", diverse=True), guards())
def test_paper_mode_keeps_l_as_the_paper_prints(stream: Stream, guard: Guard) -> None:
    check_agreement(stream, guard)


@examples(1)
@given(large_streams(), guards())
def test_engine_and_transcription_agree_on_large_clusters(stream: Stream, guard: Guard) -> None:
    check_agreement(replace(stream, policy=replace(stream.policy, mode="paper")), guard)


@examples(4)
@given(streams(mode="paper"), guards())
def test_batch_boundaries_change_nothing(stream: Stream, guard: Guard) -> None:
    stream = guarded(stream, guard)
    whole = run_whole(stream, stream.steps)
    assert run_whole(stream, one_by_one(stream.steps)) == whole
    assert run_whole(stream, joined(stream.steps)) == whole


@examples(4)
@given(streams(mode="paper"), guards(), st.data())
def test_a_snapshot_of_intake_and_engine_changes_nothing(stream: Stream, guard: Guard, data: st.DataObject) -> None:
    stream = guarded(stream, guard)
    cut = data.draw(st.integers(0, len(stream.steps)))
    one, other = Player(stream), Player(stream)
    outcomes = [one.step(step) for step in stream.steps[:cut]]
    other.engine.restore(one.engine.snapshot())
    other.intake.restore(one.intake.snapshot())
    other._taken, other.clustered, other.sampled_out = one._taken, one.clustered, one.sampled_out
    outcomes += [other.step(step) for step in stream.steps[cut:]]
    outcomes.append(outcome_of(other.engine.flush()))
    assert (sum(outcomes, NOTHING), other.sampled_out, other.clustered) == run_whole(stream, stream.steps)
