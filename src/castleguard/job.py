"""READ NEXT: Job, the loop that moves rows from a source through a stream into a sink, and its commit.

    source -> stream -> sink
       \\__ checkpoint __/

The source reads rows, the stream releases those that may be published (`stream.py`: decode, intake, engine, gate,
encode), and the sink stores them (contracts in `connectors/base.py`). Wherever the process crashes, every row is
published at most once, with one draw of noise and in one group, and no row is lost: `Job.commit` explains why.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from castleguard.algorithms.facts import LONGEST_LAG
from castleguard.books import Books
from castleguard.checkpoint.store import Checkpoint, Ended
from castleguard.errors import UnavailableError
from castleguard.flow import Flow
from castleguard.parts import Parts
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.clock import Clock, WallClock
from castleguard.runtime.delivery import Delivery, Rhythm
from castleguard.runtime.pace import Pace, Retry, SourceReader
from castleguard.runtime.recovery import commit_to_restore
from castleguard.runtime.reporting import JobBooks, Statement, StatusReporter, check_rejects
from castleguard.runtime.segment import Segment
from castleguard.runtime.stopping import Stop
from castleguard.telemetry.metrics import Status
from castleguard.version import __version__

__all__ = ["Job", "Outcome", "Pace", "Parts"]

Outcome = Literal["finished", "stopped", "drained"]
"""Outcome of a job: its source ended; it was stopped and can be run again; it was drained."""


class Job:
    """Runs one source through one stream into one sink.

    `step` is called before each step of a commit, with its number. `watch` receives the status about once a second, on
    every change of state, and at the end.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        clock: Clock | None = None,
        pace: Pace | None = None,
        stop: Stop | None = None,
        step: Callable[[int], None] = lambda _: None,
        watch: Callable[[Status], None] = lambda _: None,
    ) -> None:
        self._parts, self._sink, self._store, self._letters = parts, parts.sink, parts.store, parts.letters
        self._clock, self._pace, self._stop, self._step = clock or WallClock(), pace or Pace(), stop or Stop(), step
        self._reporter = StatusReporter(watch, self.status, self._clock)
        retry = Retry(self._clock, self._pace, self._stop, self._reporter.report_waiting)
        self._delivery = Delivery(parts.sink, parts.letters, parts.store, self._clock, retry, step, LONGEST_LAG)
        self._rhythm = Rhythm(self._pace, self._clock)
        latest = self._recover(retry)
        self.ended, self._books = latest.ended, JobBooks(latest)
        self.had_streams = self._books.before is not None  # whether the books include earlier, ended streams
        self.stream = parts.make_stream(latest.snapshot)  # first: a refused snapshot must not leave the source open
        self._statement = Statement(latest, self.stream, parts.identity, parts.manifest, __version__)
        self.stream.longest_row = retry.until_available(lambda: self._sink.longest_row, "the sink")
        self._source = retry.until_available(lambda: parts.open_source(latest.position), "the source")
        self._reading = SourceReader(self._source, latest, self._clock, self._pace, stored=self._store is not None)
        letters, observed = parts.letters is not None, parts.observed
        self._flow = Flow(self.stream, parts.sink, self._clock, self._books, letters=letters, observed=observed)
        self._delivery.time = self._flow.time
        self._started = self.books()
        self._reporter.opened = True

    def run(self) -> Outcome:
        """Process rows until the source ends or `stop` is called. Raises errors that a retry cannot fix."""
        with self._closing():
            if self.ended == "finished" and self._source.finished:
                self._statement.write(ended="finished")
                return "finished"
            while not self._stop.asked:
                self.turn()
                if self._source.finished:
                    return self._end("finished")
            return self._halt()

    def drain(self, *, drop_window: bool = False) -> Outcome:
        """Publish pending rows as at the end of the stream, and end the job.

        The next run starts a new stream at the source's current position, so policy, schema or version may change.
        Where presence is promised, draining waits for the end of the open window or, with `drop_window`, suppresses it.
        """
        with self._closing():
            return self._end("drained", drop_window=drop_window)

    def stop(self) -> None:
        """Ask the job to commit and return."""
        self._stop.ask()

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            self._statement.write()
            yield
        except Exception:
            self._reporter.report_failure()
            raise
        finally:
            self.close()

    def turn(self) -> None:
        """One iteration of the loop: push rows or advance the time, and commit if a commit is due."""
        self._reporter.report("waiting" if self._reading.is_away else "running")
        if self._flow.close_window():
            self._commit_if_due()
        self._flow.take(self._reading.read(self._flow.patience(self._pace.poll), self.stream.coordinator.holds_rows))
        self._commit_if_due()

    def _commit_if_due(self) -> None:
        urgent = self.stream.coordinator.urgent
        if self._rhythm.is_due(self._flow.segment, urgent=urgent, has_moved=self._reading.has_moved):
            self.commit()

    def commit(self, *, ended: Ended | None = None) -> None:
        """Publish the rows released since the last commit, exactly once.

        1. Collect the released rows, the dead letters, the stream's snapshot and the source's position. The sink has
           already confirmed that it can store the rows (`flow.py`): step 2 cannot be undone.
        2. Store all of it in the checkpoint under the next commit number, in one transaction.
        3. Deliver the segment, if it has rows, and append the dead letters. Where presence is promised, wait first
           until the segment is due (`runtime/schedule.py`). Segments are numbered separately, and only those with rows:
           the sink must not reveal how often the job commits.
        4. Mark the commit delivered and wipe its segment from the checkpoint.
        5. Acknowledge the position to the source.
        6. Notify the coordinator: messages that had to wait for this commit may be sent now.

        A crash before step 2 leaves the previous commit: later rows are read again, and none of them was published. A
        crash between steps 2 and 4 leaves a stored segment, which `_recover` delivers byte for byte, unless the sink
        already has its number. A crash after step 4 loses nothing: the next commit acknowledges more, and a restored
        stream sends its messages again.
        """
        self._delivery.finish()  # if the previous commit failed after step 2
        if not (ended or self._flow.segment.dirty or self._reading.has_moved() or self.stream.coordinator.urgent):
            return
        with self._rhythm.committing():
            self._step(1)
            checkpoint = self._collect(ended)
            self._step(2)
            if self._store is not None:
                self._store.save(checkpoint)
            self._statement.commit(checkpoint.epochs)
            self.ended, self._flow.segment = ended, Segment()
            self._delivery.deliver(checkpoint)  # steps 3 and 4
            if checkpoint.position is not None:
                self._reading.committed(checkpoint.position)
                self._step(5)
                self._reading.acknowledge(checkpoint.position)
            self._step(6)
            self.stream.coordinator.committed()
        if ended is None:
            check_rejects(self.books(), self._started, self._parts.max_reject_share, at_end=False)

    def _collect(self, ended: Ended | None) -> Checkpoint:
        """Step 1 of a commit."""
        segment, kept = self._flow.segment, self._store is not None
        letters = b"" if self._letters is None else self._letters.sealed(segment.letters)
        return Checkpoint(
            number=self._delivery.number + 1,
            position=self._source.position(),
            snapshot=self.stream.snapshot() if kept and ended is None else None,
            segment=segment.to_bytes(),
            segments=self._delivery.segments + bool(segment.rows),
            due=segment.due,
            letters=letters,
            letters_at=0 if self._letters is None else self._letters.length(),
            delivered=not segment.rows and not letters,
            ended=ended,
            books=self._books.facts(self.stream.report()),
            identity=self._parts.identity,
            carried=self.stream.carry() if kept and ended is not None else None,
            epochs=self._statement.after(self._delivery.segments + 1 if segment.rows else None, ended),
        )

    def _recover(self, retry: Retry) -> Checkpoint:
        """Load the latest commit, and deliver it if an earlier process did not; an empty commit before the first."""
        stored = None if self._store is None else self._store.load()
        last = retry.until_available(self._sink.last, "the sink")
        latest = commit_to_restore(stored, last, self._parts.identity, stored=self._store is not None)
        self.recovered = not latest.delivered  # whether a delivery was left to do
        if self.recovered:  # the sink may have the segment while its dead letters are missing
            latest = self._delivery.deliver(latest, segment=last < latest.segments)
        self._delivery.number, self._delivery.segments = latest.number, latest.segments
        return latest

    def _halt(self) -> Outcome:
        """Stop: leave pending rows to the next run; without a checkpoint, publish those that may be published."""
        if self._store is None:
            self._flow.leave()
        self.commit()
        if self._store is None:
            self._statement.write(ended="stopped")
        self._reporter.report("stopped", at_once=True)
        return "stopped"

    def _end(self, ended: Ended, *, drop_window: bool = False) -> Outcome:
        """End the stream: publish all pending rows, and commit."""
        if not self._flow.end(self._pace, self._stop, self._keep_going, drop_window=drop_window):
            return self._halt()
        if (unsettled := self.stream.coordinator.unsettled) is not None:
            self.commit()
            raise UnavailableError(unsettled)
        self.commit(ended=ended)
        self._statement.write()
        check_rejects(self.books(), self._started, self._parts.max_reject_share, at_end=ended == "finished")
        self._books.warn_if_empty(self.stream.report())
        self._reporter.report(ended, at_once=True)
        return ended

    def _keep_going(self) -> None:
        self._reporter.report("running")
        self._commit_if_due()

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the stream, with that of all epochs of the job together where it differs."""
        return self._statement.guarantee

    def books(self) -> Books:
        """Return the books of the whole job, over all its streams."""
        return self._books.total(self.stream.report())

    def status(self) -> Status:
        """Return the current status, for `watch` and metrics."""
        return Status(
            job=str(self._parts.identity.get("name", "")),
            state=self._reporter.state,
            books=self.books(),
            sent=self.stream.coordinator.traffic,
            commits=self._delivery.number,
            commit_seconds=self._rhythm.commit_seconds,
            committed_at=self._rhythm.committed_at,
            lag=self._reading.lag(),
        )

    def close(self) -> None:
        """Close source, sink, checkpoint and parts, even if one of them fails. May be called twice."""
        with ExitStack() as closing:
            for part in (self._parts, self._store, self._sink, self._reading):  # closed in reverse order
                if part is not None:
                    closing.callback(part.close)
