"""Rows and time through the stream of a job, and what that releases and rejects into a segment."""

from collections.abc import Callable

import pyarrow as pa

from castleguard.connectors.base import Read, Sink
from castleguard.runtime.clock import Clock, StreamTime
from castleguard.runtime.delivery import Segment, letters_of
from castleguard.runtime.pace import NAP, Pace
from castleguard.runtime.schedule import schedule_of
from castleguard.runtime.stopping import Stop
from castleguard.runtime.telling import JobBooks
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG


class Flow:
    """Pushes and ticks a stream by the clock, and gathers its output until the next commit."""

    def __init__(
        self, stream: Anonymiser, sink: Sink, clock: Clock, books: JobBooks, *, letters: bool, observed: bool
    ) -> None:
        """`letters`: rejected rows become letters. `observed`: windows that promise presence are kept by the clock."""
        self._stream = stream
        self._sink = sink
        self._clock = clock
        self._books = books
        self._letters = letters
        self._deliverable: pa.Schema | None = None  # the columns that the sink has promised to deliver
        self._schedule = schedule_of(stream) if observed else None
        self.time = StreamTime(clock, stream.now)
        self.segment = Segment()

    def patience(self, most: float) -> float:
        """Seconds to wait for rows before the clock is looked at."""
        return most if self._schedule is None else self._schedule.patience(self.time.now(), most)

    def close_window(self) -> bool:
        """Close a window that has ended, by the clock, before a row of the next one is there; whether there was one."""
        now = self.time.now()
        if self._schedule is None or not self._schedule.has_passed(now):
            return False
        self._gather(self._stream.tick(now))
        return True

    def take(self, read: Read | None) -> None:
        """Push rows, or let time pass, and gather what that releases and rejects."""
        if read is None:
            self.tick()
            return
        self._gather(self._stream.push(read.rows, self.time.now()))
        self.segment.dirty |= read.rows.num_rows > 0 or bool(read.bad)
        self._books.malformed += len(read.bad)
        if self._letters:
            self.segment.letters += letters_of(read, self._stream.rejected())

    def tick(self) -> None:
        """Let time pass."""
        self._gather(self._stream.tick(self.time.now()))

    def leave(self) -> None:
        """Publish what may be published now: not an open window of a stream that promises presence."""
        self._gather(self._stream.finish() if self._schedule is None else self._stream.drop_window())

    def end(self, pace: Pace, stop: Stop, meanwhile: Callable[[], None], *, drop_window: bool) -> bool:
        """No more rows come: publish all that is pending. False if asked to stop before an open window has ended."""
        edge = self._stream.edge  # of the window that the last row was read in
        self.tick()  # what is kept may be from long ago
        self._wind_down(stop, meanwhile)
        if self._schedule is not None and drop_window:
            self._gather(self._stream.drop_window())
        elif self._schedule is not None and edge is not None and not self._await(edge, pace, stop, meanwhile):
            return False
        # A dry run takes the rows for all there are; a schedule has waited for the edge. The job warns, not the stream.
        finish = self._stream.finish if self._schedule is None else self._stream.flush
        self._gather(finish(warn=False))
        return True

    def _wind_down(self, stop: Stop, meanwhile: Callable[[], None]) -> None:
        """No more rows come: publish together with others, as long as that gains something."""
        others = self._stream.coordinator
        while not (others.wind_down(self._clock.now(), self._stream.report().pending) or stop.asked):
            self.tick()
            meanwhile()
            self._clock.sleep(NAP)

    def _await(self, edge: float, pace: Pace, stop: Stop, meanwhile: Callable[[], None]) -> bool:
        """Let time pass until the open window has ended, whether it has rows or not; False if asked to stop before.

        Publishing it earlier would show when the source ended, and with that whether a last row came.
        """
        left = edge - self.time.now()
        if left > 0.0:
            LOG.warning(
                "no more rows come, and the open window ends in %.0f s: the job waits for that, because presence is "
                "promised (stop it, and run it again later, or drain it with --drop-window)",
                left,
            )
        while (left := edge - self.time.now()) > 0.0:
            if stop.asked:
                return False
            meanwhile()
            self._clock.sleep(min(left, pace.poll))
        self.tick()
        return True

    def _gather(self, released: pa.Table) -> None:
        due = None if self._schedule is None else self._schedule.due()
        if released.schema != self._deliverable:
            self._sink.check(released.schema)  # before a commit: what is stored must be delivered
            self._deliverable = released.schema
        self.segment.add(released, due)
