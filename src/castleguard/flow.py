"""Flow: pushes rows and time into the stream of a job, and collects its output in a segment."""

from collections.abc import Callable

import pyarrow as pa

from castleguard.connectors.base import Read, Sink
from castleguard.runtime.clock import Clock, StreamTime
from castleguard.runtime.delivery import letters_of
from castleguard.runtime.pace import NAP, Pace
from castleguard.runtime.reporting import JobBooks
from castleguard.runtime.schedule import schedule_of
from castleguard.runtime.segment import Segment
from castleguard.runtime.stopping import Stop
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG
from castleguard.workers import cores


class Flow:
    """Pushes and ticks a stream by the clock, and collects its output until the next commit."""

    def __init__(
        self, stream: Anonymiser, sink: Sink, clock: Clock, books: JobBooks, *, letters: bool, observed: bool
    ) -> None:
        """`letters`: write rejected rows to dead letters. `observed`: the sink is visible, so wait for window ends."""
        self._stream, self._sink, self._clock = stream, sink, clock
        self._books, self._letters = books, letters
        self._deliverable: pa.Schema | None = None  # the columns that the sink has accepted
        self._schedule = schedule_of(stream) if observed else None
        self.time = StreamTime(clock, stream.now)
        stream.parallel = cores() > 1
        self.segment = Segment()

    def patience(self, most: float) -> float:
        """Seconds to wait for rows before the clock is checked, at `most`."""
        return most if self._schedule is None else self._schedule.patience(self.time.now(), most)

    def close_window(self) -> bool:
        """Close the open window if its end has passed, before rows of the next are pushed; return whether it did."""
        now = self.time.now()
        if self._schedule is None or not self._schedule.has_passed(now):
            return False
        self._collect(self._stream.tick(now))
        return True

    def take(self, read: Read | None) -> None:
        """Push rows, or tick if there are none, and collect released and rejected rows."""
        if read is None:
            self.tick()
            return
        self._collect(self._stream.push(read.rows, self.time.now()))
        self.segment.dirty |= read.rows.num_rows > 0 or bool(read.bad)
        self._books.malformed += len(read.bad)
        if self._letters:
            self.segment.add_letters(letters_of(read, self._stream.rejected()))

    def tick(self) -> None:
        """Advance the stream to the current time."""
        self._collect(self._stream.tick(self.time.now()))

    def leave(self) -> None:
        """End a stream that cannot be restored: publish its rows, but not an open window that promises presence."""
        self._collect(self._stream.finish() if self._schedule is None else self._stream.drop_window())

    def end(self, pace: Pace, stop: Stop, meanwhile: Callable[[], None], *, drop_window: bool) -> bool:
        """Publish all pending rows, after the last read. False if the job was stopped before the open window ended.

        `meanwhile` is called repeatedly while this waits.
        """
        edge = self._stream.edge  # end of the window of the last row
        self.tick()  # a restored stream may be hours behind
        self._wind_down(stop, meanwhile)
        if self._schedule is not None and drop_window:
            self._collect(self._stream.drop_window())
        elif self._schedule is not None and edge is not None and not self._await(edge, pace, stop, meanwhile):
            return False
        # Without a schedule the input is complete; with one, the window has ended. The job warns, not the stream.
        finish = self._stream.finish if self._schedule is None else self._stream.flush
        self._collect(finish(warn=False))
        return True

    def _wind_down(self, stop: Stop, meanwhile: Callable[[], None]) -> None:
        """Wait for joint releases with other streams, as long as the coordinator expects a gain."""
        coordinator = self._stream.coordinator
        while not (coordinator.wind_down(self._clock.now(), self._stream.report().pending) or stop.asked):
            self.tick()
            meanwhile()
            self._clock.sleep(NAP)

    def _await(self, edge: float, pace: Pace, stop: Stop, meanwhile: Callable[[], None]) -> bool:
        """Wait until the open window has ended, with or without rows; False if asked to stop earlier.

        Publishing it earlier would reveal when the source ended, and so whether a last row arrived.
        """
        left = edge - self.time.now()
        if left > 0.0:
            LOG.warning(
                "the source has ended; waiting %.0f s for the open window to end, because presence is promised (or "
                "stop the job and run it again later, or drain it with --drop-window)",
                left,
            )
        while (left := edge - self.time.now()) > 0.0:
            if stop.asked:
                return False
            meanwhile()
            self._clock.sleep(min(left, pace.poll))
        self.tick()
        return True

    def _collect(self, released: pa.Table) -> None:
        due = None if self._schedule is None else self._schedule.due()
        if released.schema != self._deliverable:
            self._sink.check(released.schema)  # before a commit: every stored segment must be deliverable
            self._deliverable = released.schema
        self.segment.add(released, due)
