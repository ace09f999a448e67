"""The transcription of CASTLEGUARD behind the engine's interface, like `Transcription` for CASTLE.

Outcomes are those of the clustering, by position. `sampled_out` has the arrivals that were sampled out so far,
`perturbed` the values that were clustered, and `arrival_of` the arrival number of the row at a position.
"""

from collections.abc import Sequence

from tests.properties.streams import Step, Stream
from tests.properties.transcription import Outcome, Transcription
from tests.reference.castleguard import CastleGuard, Guard
from tests.reference.chacha import Words


class GuardTranscription(CastleGuard):
    """Runs step by step. The stream's policy and key are those of the clustering; the sampler has its own key."""

    castle: Transcription

    def __init__(self, stream: Stream, guard: Guard, sampler_key: Sequence[int]) -> None:
        super().__init__(Transcription(stream), guard, Words([int(word) for word in sampler_key]))

    def begin_at(self, arrivals: int, position: int | None = None) -> None:
        """Pretend that this many rows have come and gone, and how many of them had a position (None: all)."""
        self.arrivals = arrivals
        self.castle.begin_at(arrivals if position is None else position)

    def step(self, step: Step) -> Outcome:
        self.castle.step(Step(0, step.now))  # overdue rows leave first
        for _ in range(step.rows):
            self.push(self.castle.rows.pop(0))
        return self.castle.outcome

    def end(self) -> Outcome:
        return self.castle.end()
