"""Delivery of a stored commit: its segment to the sink, its letters to their file, and the mark that both arrived."""

import math
from collections.abc import Callable

from castleguard.checkpoint.letters import DeadLetters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.connectors.base import Sink
from castleguard.runtime.clock import Clock, StreamTime
from castleguard.runtime.continuing import check_letters_have_a_place
from castleguard.runtime.retrying import Retry
from castleguard.runtime.segment import from_bytes


class Delivery:
    """Steps 3 and 4 of a commit (`job.py`)."""

    def __init__(
        self,
        sink: Sink,
        letters: DeadLetters | None,
        store: Store | None,
        clock: Clock,
        retry: Retry,
        step: Callable[[int], None],
        longest_wait: float,
    ) -> None:
        """`longest_wait`: seconds for which a segment that is not due yet can be held up."""
        self._sink = sink
        self._letters = letters
        self._store = store
        self._clock = clock
        self._longest_wait = longest_wait
        self._undelivered: Checkpoint | None = None
        self.time = StreamTime(clock, -math.inf)
        """By which segments are due: that of the stream, once it has told."""
        self.number = self.segments = 0
        """Of the latest commit that was delivered."""
        self._step = step
        self._retry = retry

    def finish(self) -> None:
        """Deliver a commit that was stored and failed after that: it must not be replaced."""
        if self._undelivered is not None:
            self.deliver(self._undelivered)

    def deliver(self, checkpoint: Checkpoint, *, segment: bool = True) -> Checkpoint:
        """Deliver a stored commit, and mark it; without its `segment` if the sink has that. The commit as it is now."""
        self._undelivered = checkpoint
        done = self._deliver(checkpoint, segment=segment)
        self._undelivered, self.number, self.segments = None, done.number, done.segments
        return done

    def _deliver(self, checkpoint: Checkpoint, *, segment: bool) -> Checkpoint:
        check_letters_have_a_place(checkpoint, has_letters=self._letters is not None)
        self._step(3)
        if segment and checkpoint.segment:
            table = from_bytes(checkpoint.segment)
            self._wait_until(checkpoint.due)
            self._retry.until_available(lambda: self._sink.deliver(checkpoint.segments, table), "the sink")
        if self._letters is not None and checkpoint.letters:
            self._letters.append(checkpoint.letters, checkpoint.letters_at)
        self._step(4)
        if checkpoint.delivered or self._store is None:  # nothing had to be delivered
            return checkpoint
        return self._store.mark_delivered(checkpoint)

    def _wait_until(self, due: float | None) -> None:
        """Let time pass until a segment is due. What is late (the process was down, or slow) is due at once."""
        left = 0.0 if due is None else due - self.time.now()
        if left > 0.0:
            self._clock.sleep(min(left, self._longest_wait))  # a clock that was put back must not hold it up for longer
