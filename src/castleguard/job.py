"""READ NEXT: a job, the whole flow in one loop, and its commit.

    source -> stream -> sink
         \\_________ store: where the job stands _________/

A source brings rows, the stream hands out what may be published by now (`stream.py`: decode, intake, engine, gate,
encode), and the sink takes that over (contracts in `connectors/base.py`). After a crash at any point, every row is
published at most once, with one draw of noise and in one group, and none is lost. All of that rests on `Job.commit`.
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
from castleguard.runtime.continuing import continued
from castleguard.runtime.delivery import Delivery, Rhythm, Segment
from castleguard.runtime.pace import Pace, Retry, SourceReader
from castleguard.runtime.stopping import Stop
from castleguard.runtime.telling import JobBooks, Statement, Telling, check_rejects
from castleguard.telemetry.metrics import Status
from castleguard.version import __version__

__all__ = ["Job", "Outcome", "Pace", "Parts"]

Outcome = Literal["finished", "stopped", "drained"]
"""How a job ended: its source did; it was told to stop and can go on later; it was drained."""


class Job:
    """One source through one stream into one sink, for as long as it takes.

    `step` is called before every step of a commit, with its number; `watch` about once a second, and at the end.
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
        self._telling = Telling(watch, self.status, self._clock)
        retry = Retry(self._clock, self._pace, self._stop, self._telling.tell_waiting)
        self._delivery = Delivery(parts.sink, parts.letters, parts.store, self._clock, retry, step, LONGEST_LAG)
        self._rhythm = Rhythm(self._pace, self._clock)
        latest = self._recover(retry)
        self.ended, self._books = latest.ended, JobBooks(latest)
        self.had_streams = self._books.before is not None  # whether the books have those of streams that were ended
        self.stream = parts.make_stream(latest.snapshot)  # before the source: a refused snapshot leaves nothing open
        self._statement = Statement(latest, self.stream, parts.identity, parts.manifest, __version__)
        self.stream.longest_row = retry.until_available(lambda: self._sink.longest_row, "the sink")
        self._source = retry.until_available(lambda: parts.open_source(latest.position), "the source")
        self._reading = SourceReader(self._source, latest, self._clock, self._pace, stored=self._store is not None)
        letters, observed = parts.letters is not None, parts.observed
        self._flow = Flow(self.stream, parts.sink, self._clock, self._books, letters=letters, observed=observed)
        self._delivery.time = self._flow.time
        self._started = self.books()
        self._telling.opened = True

    def run(self) -> Outcome:
        """Carry rows until the source ends or `stop` is called. Raises errors that a retry cannot fix."""
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
        """Publish what is pending as at the end of the stream, and end the job: it can then go on with another policy,
        schema or version, from where its source stands. Where presence is promised, this waits for the end of the open
        window, or drops its rows (`drop_window`).
        """
        with self._closing():
            return self._end("drained", drop_window=drop_window)

    def stop(self) -> None:
        """Ask the job to commit and return soon."""
        self._stop.ask()

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            self._statement.write()
            yield
        except Exception:
            self._telling.tell_failure()
            raise
        finally:
            self.close()

    def turn(self) -> None:
        """One iteration of the loop: rows, or time, and a commit if one is due."""
        self._telling.tell("waiting" if self._reading.is_away else "running")
        if self._flow.close_window():
            self._commit_if_due()
        self._flow.take(self._reading.read(self._flow.patience(self._pace.poll), self.stream.coordinator.holds_rows))
        self._commit_if_due()

    def _commit_if_due(self) -> None:
        urgent = self.stream.coordinator.urgent
        if self._rhythm.is_due(self._flow.segment, urgent=urgent, has_moved=self._reading.has_moved):
            self.commit()

    def commit(self, *, ended: Ended | None = None) -> None:
        """Publish what was released since the last commit, exactly once.

        1. Gather released rows, rejects, the state of the stream and the source's position. The sink has said that it
           can hold the rows (`flow.py`): from step 2 on nothing can be taken back.
        2. Store segment, state and the source's position under the next number, in one transaction.
        3. Deliver the segment, if it has rows, and the letters at their place. Segments have numbers of their own:
           those without rows do not count, so that a sink does not show how often a job commits. Where presence is
           promised, wait before that until the segment is due (`runtime/schedule.py`).
        4. Mark it delivered, and wipe it.
        5. Acknowledge the source.
        6. Tell the stream's coordinator: what it could not tell others before is safe now.

        Dying before 2 leaves the former commit: the rows are read again, and nothing of them was seen. Dying between 2
        and 4 leaves a segment that `_recover` delivers byte for byte, unless the sink has its number. Dying after 4
        costs nothing: acknowledging is for the source's own books, and a stream that continues from a snapshot tells
        others again.
        """
        self._delivery.finish()  # if the commit before this one failed after step 2
        if not (ended or self._flow.segment.dirty or self._reading.has_moved() or self.stream.coordinator.urgent):
            return
        with self._rhythm.committing():
            self._step(1)
            checkpoint = self._gathered(ended)
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

    def _gathered(self, ended: Ended | None) -> Checkpoint:
        """Step 1."""
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
        """The latest commit, delivered if a former process did not manage that; before the first, an empty one."""
        stored = None if self._store is None else self._store.load()
        there = retry.until_available(self._sink.last, "the sink")
        latest = continued(stored, there, self._parts.identity, stored=self._store is not None)
        self.recovered = not latest.delivered  # whether something was left to deliver
        if self.recovered:  # the sink may have the segment while its letters are missing
            latest = self._delivery.deliver(latest, segment=there < latest.segments)
        self._delivery.number, self._delivery.segments = latest.number, latest.segments
        return latest

    def _halt(self) -> Outcome:
        """Keep what is pending for the next run; without a checkpoint, publish what may be published now."""
        if self._store is None:
            self._flow.leave()
        self.commit()
        if self._store is None:
            self._statement.write(ended="stopped")
        self._telling.tell("stopped", at_once=True)
        return "stopped"

    def _end(self, ended: Ended, *, drop_window: bool = False) -> Outcome:
        """Publish all that is pending; together with others, as long as that gains something."""
        if not self._flow.end(self._pace, self._stop, self._keep_going, drop_window=drop_window):
            return self._halt()
        if (unsettled := self.stream.coordinator.unsettled) is not None:
            self.commit()
            raise UnavailableError(unsettled)
        self.commit(ended=ended)
        self._statement.write()
        check_rejects(self.books(), self._started, self._parts.max_reject_share, at_end=ended == "finished")
        self._books.warn_if_empty(self.stream.report())
        self._telling.tell(ended, at_once=True)
        return ended

    def _keep_going(self) -> None:
        self._telling.tell("running")
        self._commit_if_due()

    def guarantee(self) -> Guarantee:
        """The statement: what the stream promises, and what all epochs of the job together do where that differs."""
        return self._statement.guarantee

    def books(self) -> Books:
        """The books of the whole job, over all its streams."""
        return self._books.total(self.stream.report())

    def status(self) -> Status:
        """How the job stands."""
        return Status(
            job=str(self._parts.identity.get("name", "")),
            state=self._telling.state,
            books=self.books(),
            sent=self.stream.coordinator.traffic,
            commits=self._delivery.number,
            commit_seconds=self._rhythm.commit_seconds,
            committed_at=self._rhythm.committed_at,
            lag=self._reading.lag(),
        )

    def close(self) -> None:
        """Close source, sink, store and parts, even if one of them fails. May be called twice."""
        with ExitStack() as closing:
            for part in (self._parts, self._store, self._sink, self._reading):  # the last is closed first
                if part is not None:
                    closing.callback(part.close)
