"""CASTLEGUARD's transcription runs step by step like CASTLE's, and batch boundaries change nothing."""

from collections.abc import Sequence
from math import inf
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.guard_transcription import GuardTranscription
from tests.properties.streams import Step, Stream, examples, joined, one_by_one, streams
from tests.properties.transcription import NOTHING, Outcome, Transcription
from tests.reference.castleguard import Clock, Guard

SAMPLER_KEY = range(8)

guards = st.builds(
    Guard,
    sample_rate=st.sampled_from([0.25, 0.5, 0.9]),
    phi=st.sampled_from([1.0, 100.0]),
    range_floor=st.sampled_from([0.0, 1.0]),
    clock=st.sampled_from(get_args(Clock)),
)


def run(twin: Transcription | GuardTranscription, steps: Sequence[Step]) -> Outcome:
    return sum((twin.step(step) for step in steps), NOTHING) + twin.end()


@examples(1)
@given(streams(mode="paper"), st.sampled_from(get_args(Clock)))
def test_without_sampling_and_noise_it_decides_like_castle(stream: Stream, clock: Clock) -> None:
    guard = Guard(sample_rate=1, phi=inf, clock=clock)
    twin, castle = GuardTranscription(stream, guard, SAMPLER_KEY), Transcription(stream)
    assert run(twin, stream.steps) == run(castle, stream.steps)
    assert twin.castle.longest_wait == castle.longest_wait


@examples(1)
@given(streams(mode="paper"), guards, st.sampled_from([0, 2**20 - 30, 2**32 - 30]))
def test_batch_boundaries_change_nothing(stream: Stream, guard: Guard, first: int) -> None:
    def result(steps: Sequence[Step]) -> tuple[Outcome, list[int], dict[int, tuple[float, ...]]]:
        twin = GuardTranscription(stream, guard, SAMPLER_KEY)
        twin.begin_at(first)
        return run(twin, steps), twin.sampled_out, twin.perturbed

    whole = result(stream.steps)
    assert result(one_by_one(stream.steps)) == whole
    assert result(joined(stream.steps)) == whole
