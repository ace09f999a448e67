"""The compiled engine decides like the transcription of the paper, row for row, under the same draws.

Compared before the gate, after every call: the rows that leave, their order, box and loss, and the engine's state.
Then, for the engine alone: batches and snapshots change nothing.
"""

from collections.abc import Iterable, Sequence
from math import isclose
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms import domain
from castleguard.algorithms.castle import policy
from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.kernels import state as names
from castleguard.schema.coded import CodedRows, Decisions
from tests.properties.streams import Step, Stream, examples, joined, large_streams, one_by_one, shaped_streams, streams
from tests.properties.transcription import NOTHING, Group, Outcome, Transcription

# -- the engine --------------------------------------------------------------------------------------------------------


def new_engine(stream: Stream) -> CastleEngine:
    return CastleEngine(stream.schema, stream.policy, key=stream.key)


def part(rows: CodedRows, start: int, stop: int) -> CodedRows:
    cut = slice(start, stop)
    return CodedRows(rows.quasi[cut], rows.person[cut], rows.sensitive[cut], rows.to_root[cut])


def outcome_of(decisions: Decisions) -> Outcome:
    groups = [
        Group(
            event=int(decisions.event[group]),
            kind=int(decisions.kind[group]),
            positions=sorted(decisions.position[decisions.group == group].tolist()),
            box=tuple(zip(decisions.lower[group].tolist(), decisions.upper[group].tolist(), strict=True)),
            loss=float(decisions.loss[group]),
            seen=int(decisions.seen[group]),
        )
        for group in range(decisions.loss.size)
    ]
    return Outcome(groups, decisions.position.tolist(), decisions.dropped.tolist())


def feed(engine: CastleEngine, rows: CodedRows, steps: Iterable[Step], start: int = 0) -> Iterable[Outcome]:
    """Make the calls, starting at row `start` of `rows`."""
    for step in steps:
        if step.rows:
            yield outcome_of(engine.push(part(rows, start, start + step.rows), step.now))
        else:
            yield outcome_of(engine.tick(step.now))
        start += step.rows


def run_whole(stream: Stream, steps: Sequence[Step]) -> Outcome:
    """All decisions of a stream that is fed in these steps."""
    engine = new_engine(stream)
    return sum(feed(engine, stream.engine_rows, steps), NOTHING) + outcome_of(engine.flush())


# -- agreement ---------------------------------------------------------------------------------------------------------


def check_same(actual: Outcome, expected: Outcome) -> None:
    assert actual.order == expected.order
    assert actual.dropped == expected.dropped
    assert [(g.event, g.kind, g.positions, g.box, g.seen) for g in actual.groups] == [
        (g.event, g.kind, g.positions, g.box, g.seen) for g in expected.groups
    ]
    assert all(isclose(a.loss, e.loss, abs_tol=1e-9) for a, e in zip(actual.groups, expected.groups, strict=True))


def check_state(engine: CastleEngine, twin: Transcription) -> None:
    assert isclose(engine.threshold, twin.threshold, abs_tol=1e-9)
    assert engine.pending == len(twin.pending)
    assert engine.open_clusters == len(twin.clusters)
    assert engine.oldest == min(twin.pending, default=engine.arrivals)
    assert engine.longest_wait == twin.longest_wait


def check_agreement(stream: Stream, first: int = 0) -> None:
    """Check that engine and transcription agree; `first`: position of the first row."""
    engine, twin = new_engine(stream), Transcription(stream)
    if first:
        skip_to(engine, first)
        twin.begin_at(first)
    for step, outcome in zip(stream.steps, feed(engine, stream.engine_rows, stream.steps), strict=True):
        check_same(outcome, twin.step(step))
        check_state(engine, twin)
    check_same(outcome_of(engine.flush()), twin.end())
    check_state(engine, twin)
    assert engine.pending == 0


def skip_to(engine: CastleEngine, position: int) -> None:
    """Make an empty engine believe that this many rows have come and gone."""
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


@examples(12)
@given(shaped_streams(mode="strict"))
def test_distributions_are_kept_by_every_step_of_the_repaired_paper(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(shaped_streams(reading="any"))
def test_distributions_are_kept_under_any_reading(stream: Stream) -> None:
    check_agreement(stream)


@examples(6)
@given(shaped_streams(reading="any"), st.integers(0, 8))
def test_above_the_limit_of_pairs_everything_is_forgotten(stream: Stream, pairs: int) -> None:
    with patch.object(policy, "_PAIRS_PER_BOX", pairs):
        check_agreement(stream)


@examples(1)
@given(large_streams())
def test_engine_and_transcription_agree_on_large_clusters(stream: Stream) -> None:
    check_agreement(stream)


@examples(2)
@given(streams(reading="any"))
def test_climbing_a_hierarchy_gives_the_same_as_looking_up_its_nodes(stream: Stream) -> None:
    with patch.object(domain, "_TABLE_LEAVES", 1):
        check_agreement(stream)


@examples(2)
@given(streams(reading="any") | shaped_streams(), st.sampled_from([2**20 - 30, 2**21 - 30, 2**32 - 30, 2**40]))
def test_engine_and_transcription_agree_after_many_rows(stream: Stream, first: int) -> None:
    """Across a change of the draws' key, and where a position no longer fits 32 bits."""
    check_agreement(stream, first)


# -- batches and snapshots ---------------------------------------------------------------------------------------------


@examples(5)
@given(streams(reading="any") | shaped_streams(reading="any"))
def test_batch_boundaries_change_nothing(stream: Stream) -> None:
    whole = run_whole(stream, stream.steps)
    assert run_whole(stream, one_by_one(stream.steps)) == whole
    assert run_whole(stream, joined(stream.steps)) == whole


@examples(5)
@given(streams(reading="any") | shaped_streams(reading="any"), st.data())
def test_a_snapshot_anywhere_changes_nothing(stream: Stream, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream.steps)))
    before, after = stream.steps[:cut], stream.steps[cut:]
    engine = new_engine(stream)
    outcome = sum(feed(engine, stream.engine_rows, before), NOTHING)
    copy = engine.snapshot()
    engine.flush()  # a snapshot is a copy: later calls do not change it
    other = new_engine(stream)
    other.restore(copy)
    start = sum(step.rows for step in before)
    outcome += sum(feed(other, stream.engine_rows, after, start), NOTHING) + outcome_of(other.flush())
    assert outcome == run_whole(stream, stream.steps)
