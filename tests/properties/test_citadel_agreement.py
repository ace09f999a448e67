"""The compiled engine of Citadel decides as its twin does, row for row, under the same draws.

Compared before the gate, after every call: which rows leave, in which order, with which box and loss, and what is still
pending. Further down, what a twin cannot show: that batches and snapshots change nothing.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.schema.coded import CodedRows
from tests.properties.citadel_streams import (
    Flags,
    Stream,
    Transcription,
    apart,
    citadel_streams,
    large_citadel_streams,
)
from tests.properties.streams import Step, examples, joined, one_by_one
from tests.properties.test_castle_agreement import check_same, outcome_of
from tests.properties.transcription import NOTHING, Outcome

PIECE = 1 << 16  # rows of one call


def new_engine(stream: Stream) -> CitadelEngine:
    return CitadelEngine(stream.schema, stream.policy, key=stream.key)


def feed(engine: CitadelEngine, stream: Stream, steps: Iterable[Step], start: int = 0) -> Iterable[Outcome]:
    """Make the calls, from row `start` of the stream on."""
    for step in steps:
        if step.rows:
            cut = slice(start, start + step.rows)
            yield outcome_of(engine.push(stream.rows.take(cut), step.now, stream.present[cut]))
        else:
            yield outcome_of(engine.tick(step.now))
        start += step.rows


def run_whole(stream: Stream, steps: Sequence[Step]) -> Outcome:
    """All decisions of a stream that is fed in these steps."""
    engine = new_engine(stream)
    return sum(feed(engine, stream, steps), NOTHING) + outcome_of(engine.flush())


# -- agreement ---------------------------------------------------------------------------------------------------------


def check_state(engine: CitadelEngine, twin: Transcription) -> None:
    pending = twin.citadel.pending
    assert engine.arrivals == twin.citadel.arrivals
    assert engine.pending == len(pending)
    assert engine.oldest == min(pending, default=engine.arrivals)
    assert engine.longest_wait == twin.longest_wait


def check_agreement(stream: Stream, first: int = 0) -> None:
    """Engine and twin decide alike; `first` is the position of the first row."""
    engine, twin = new_engine(stream), Transcription(stream)
    if first:
        skip_to(engine, stream, first)
        twin.begin_at(first)
    for step, outcome in zip(stream.steps, feed(engine, stream, stream.steps), strict=True):
        check_same(outcome, twin.step(step))
        check_state(engine, twin)
    check_same(outcome_of(engine.flush()), twin.end())
    check_state(engine, twin)
    assert engine.pending == 0


def skip_to(engine: CitadelEngine, stream: Stream, position: int) -> None:
    """Let so many absent rows pass."""
    for start in range(0, position, PIECE):
        count = min(PIECE, position - start)
        rows = CodedRows(
            quasi=np.zeros((count, len(stream.schema.quasi_identifiers))),
            person=np.zeros(count, dtype=np.uint64),
            sensitive=np.zeros((count, len(stream.schema.sensitive)), dtype=np.int64),
            to_root=np.zeros(count, dtype=np.bool_),
        )
        absent: Flags = np.zeros(count, dtype=np.bool_)
        assert outcome_of(engine.push(rows, 0.0, absent)) == NOTHING


@examples(12)
@given(citadel_streams(reuse="off", judged=False))
def test_groups_are_grown_as_defined(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(citadel_streams(reuse="off", judged=True))
def test_sensitive_values_are_judged_as_defined(stream: Stream) -> None:
    check_agreement(stream)


@examples(12)
@given(citadel_streams(reuse="narrow"))
def test_published_boxes_are_reused_as_defined(stream: Stream) -> None:
    check_agreement(stream)


@examples(4)
@given(citadel_streams())
def test_any_stream_is_decided_as_defined(stream: Stream) -> None:
    check_agreement(stream)


@examples(2)
@given(large_citadel_streams())
def test_several_parts_and_blocks_are_treated_alike(stream: Stream) -> None:
    check_agreement(stream)


@pytest.mark.compiled
@examples(1)
@given(citadel_streams())
def test_draws_agree_across_a_change_of_their_key(stream: Stream) -> None:
    check_agreement(stream, first=2**20 - 30)


# -- batches and snapshots ---------------------------------------------------------------------------------------------


@examples(5)
@given(citadel_streams())
def test_batch_boundaries_change_nothing(stream: Stream) -> None:
    whole = run_whole(stream, stream.steps)
    assert run_whole(stream, one_by_one(stream.steps)) == whole
    assert run_whole(stream, joined(stream.steps)) == whole
    assert run_whole(stream, apart(stream.steps)) == whole


@examples(5)
@given(citadel_streams(), st.data())
def test_a_snapshot_anywhere_changes_nothing(stream: Stream, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream.steps)))
    before, after = stream.steps[:cut], stream.steps[cut:]
    engine = new_engine(stream)
    outcome = sum(feed(engine, stream, before), NOTHING)
    copy = engine.snapshot()
    engine.flush()  # a snapshot is a copy: what the engine does afterwards does not show in it
    other = new_engine(stream)
    other.restore(copy)
    start = sum(step.rows for step in before)
    outcome += sum(feed(other, stream, after, start), NOTHING) + outcome_of(other.flush())
    assert outcome == run_whole(stream, stream.steps)
