"""READ FIRST: a job, the whole flow in one loop, and its commit.

    source -> stream -> sink
         \\_________ store: where the job stands _________/

A source brings rows, the stream hands out what may be published by now (`stream.py`: decode, intake, engine, gate,
encode), and the sink takes that over (contracts in `connectors/base.py`). Whatever dies and whenever: every row is
published at most once, with one draw of noise and in one group, and none is lost. All of that rests on `Job.commit`.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from castleguard.algorithms.facts import LONGEST_LAG
from castleguard.checkpoint.codec import differences
from castleguard.checkpoint.letters import DeadLetters
from castleguard.checkpoint.store import Checkpoint, Ended, Store
from castleguard.connectors.base import Position, Read, Sink, Source
from castleguard.connectors.manifest import Manifest
from castleguard.errors import InputError, OutputError, SnapshotError, UnavailableError
from castleguard.privacy.guarantee import Guarantee
from castleguard.release.emptiness import empty_output
from castleguard.runtime.clock import Clock, StreamTime, WallClock
from castleguard.runtime.epochs import Epochs, other_parts, sink_name
from castleguard.runtime.schedule import schedule_of
from castleguard.runtime.stopping import Stop
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG
from castleguard.telemetry.metrics import Status
from castleguard.version import __version__

Outcome = Literal["finished", "stopped", "drained"]
"""How a job ended: its source did; it was told to stop and can go on later; it was drained."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a job does what."""

    every: float = 5.0
    """Seconds between two commits, at most, while there is something to commit."""
    poll: float = 0.2
    """Seconds to wait for rows before the clock is looked at."""
    most_rows: int = 500_000
    """Released and rejected rows at which a commit comes early: what bounds the memory of a segment."""
    first_pause: float = 0.1
    """Seconds before something unavailable is tried again; doubled each time."""
    longest_pause: float = 30.0
    urgent: float = 0.01
    """Seconds between two commits, at least, when the stream waits for one; and not more than half of the time."""
    farewell: float = 10.0
    """Seconds, at most, for what is agreed on with other sites at the end of the stream."""
    hold: float = 0.0
    """Seconds for which the next rows wait, at most, while the stream is holding."""


@dataclass(kw_only=True)
class _Segment:
    """What has been released and rejected since the last commit."""

    tables: list[pa.Table] = field(default_factory=list)
    letters: list[bytes] = field(default_factory=list)
    rows: int = 0
    due: float | None = None
    """When the rows may be delivered, where presence is promised."""
    dirty: bool = False
    """Whether anything has happened that a restart would have to repeat."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a job is made of."""

    open_source: Callable[[Position | None], Source]
    """From where to continue; None is the very beginning."""
    make_stream: Callable[[bytes | None], Anonymiser]
    """From a snapshot; None is a new stream."""
    sink: Sink
    store: Store | None = None
    """Without one nothing can be continued: the job runs to its end, and flushes when it is told to stop."""
    letters: DeadLetters | None = None
    """Where rejected rows go; without one they are counted only."""
    max_reject_share: float = 1.0
    """Of all rows since it was started; a job that rejects more stops."""
    identity: dict[str, Any] = field(default_factory=dict)
    """What it reads from and writes to, as JSON can hold it: no other job continues its checkpoint."""
    manifest: Manifest | None = None
    """Where readers of the sink find what was promised for which part."""
    observed: bool = True
    """Whether the sink can be looked at; a dry run has none, and does not wait for the end of a window."""
    close: Callable[[], None] = lambda: None
    """Lets go of what the stream uses besides; called last."""


class Job:
    """One source through one stream into one sink, for as long as it takes.

    `step` is called with the number of every step of a commit before it is taken; tests die there. `watch` is told how
    the job stands, about once a second, and of how it ended.
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
        self._sink = parts.sink
        self._store = parts.store
        self._letters = parts.letters
        self._max_reject_share = parts.max_reject_share
        self._close_more = parts.close
        self._clock = clock or WallClock()
        self._pace = pace or Pace()
        self._step = step
        self._watch = watch
        self._state = "starting"
        self._commit_seconds = 0.0
        self._watched_at = 0.0
        self._stop = stop or Stop()
        self._segment = _Segment()
        self._deliverable: pa.Schema | None = None  # the columns that the sink has promised to deliver
        self._undelivered: Checkpoint | None = None
        self._pause = 0.0  # between two attempts at a source that is away; 0: it is not
        self._pause_left = 0.0
        self._read_at = 0.0
        self._committed_at = self._clock.now()
        self._identity = parts.identity
        self._opened = False
        self.recovered = False  # whether something was left to deliver when it was opened
        self._time = StreamTime(self._clock, -math.inf)  # until the stream tells what it was told
        latest = self._recover()
        self._number, self._segments, self.ended = latest.number, latest.segments, latest.ended
        self._bad = int(latest.books.get("bad", 0))
        # The books of streams that were flushed for good; those of the present one are in its snapshot.
        self._before: dict[str, Any] = latest.books if latest.snapshot is None else latest.books["before"]
        self._before.pop("before", None)
        self.stream = parts.make_stream(latest.snapshot)  # before the source: a refused snapshot leaves nothing open
        self._epochs, self._manifest = Epochs.of(latest), parts.manifest
        self._guarantee = self._enter_epoch(latest)
        self.stream.longest_row = self._until_available(lambda: self._sink.longest_row, "the sink")
        self._source = self._until_available(lambda: parts.open_source(latest.position), "the source")
        self._position = latest.position or None
        self._time = StreamTime(self._clock, self.stream.now)
        self._schedule = schedule_of(self.stream) if parts.observed else None
        self._rejects_before = self._rejects()
        self._opened = True

    def run(self) -> Outcome:
        """Carry rows until the source ends or `stop` is called. Raises what cannot be mended by trying again."""
        try:
            self._write_manifest(self._epochs)
            if self.ended == "finished" and self._source.finished:
                self._write_manifest(self._epochs.after(None, "finished"))
                return "finished"
            while not self._stop.asked:
                self.turn()
                if self._source.finished:
                    return self._end("finished")
            return self._halt()
        except Exception:
            self._tell_failure()
            raise
        finally:
            self.close()

    def turn(self) -> None:
        """Once around: rows, or time, and a commit if one is due."""
        self._tell("waiting" if self._pause else "running")
        now = self._time.now()
        if self._schedule is not None and self._schedule.has_passed(now):
            # By the clock, before a row of the next window is there.
            self._gather(self.stream.tick(now))
            if self._is_due():
                self.commit()
        self._take(self._read())
        if self._is_due():
            self.commit()

    def drain(self, *, drop_window: bool = False) -> Outcome:
        """Publish what is pending as at the end of the stream, and end the job: it can then go on with another policy,
        schema or version, from where its source stands.

        Where presence is promised, this waits for the end of the open window, or gives up its rows (`drop_window`).
        """
        try:
            self._write_manifest(self._epochs)
            return self._end("drained", drop_window=drop_window)
        except Exception:
            self._tell_failure()
            raise
        finally:
            self.close()

    def _halt(self) -> Outcome:
        """Keep what is pending for the next run; without a checkpoint, publish what may be published now."""
        if self._store is None:
            self._gather(self.stream.flush() if self._schedule is None else self.stream.drop_window())
        self.commit()
        if self._store is None:
            self._write_manifest(self._epochs.after(None, "stopped"))
        self._tell("stopped", at_once=True)
        return "stopped"

    def _end(self, ended: Ended, *, drop_window: bool = False) -> Outcome:
        """Publish all that is pending; with other sites, as long as that gets on."""
        edge = self.stream.edge  # of the window that the last row was read in
        self._gather(self.stream.tick(self._time.now()))  # what is kept may be from long ago
        started, pending = self._clock.now(), self.stream.report().pending
        while not (self.stream.wind_down() or self._stop.asked):
            spent = (self._clock.now() - started) / self._pace.farewell
            left = self.stream.report().pending / max(pending, 1)
            if spent > 1.0 or (spent > 0.1 and left > 1.0 - spent / 2):
                break  # most rows leave alone in the end: they had better do so at once
            self._gather(self.stream.tick(self._time.now()))
            if self._is_due():
                self.commit()
            self._clock.sleep(_NAP)
        if self._schedule is not None and drop_window:
            self._gather(self.stream.drop_window())
        elif self._schedule is not None and edge is not None and not self._await(edge):
            return self._halt()
        self._gather(self.stream.flush(warn=False))  # below, with the malformed lines
        if self.stream.unsettled:
            self.commit()
            raise UnavailableError(
                "the relay is away, and other sites may have decided about rows of this one: everything else is "
                "published. Run it again when the relay is back"
            )
        self.commit(ended=ended)
        self._write_manifest(self._epochs)
        self._warn_if_empty()
        self._tell(ended, at_once=True)
        return ended

    def _await(self, edge: float) -> bool:
        """Let time pass until the open window has ended, whether it has rows or not; False if asked to stop before.

        Publishing it earlier would show when the source ended, and with that whether a last row came.
        """
        left = edge - self._time.now()
        if left > 0.0:
            LOG.warning(
                "no more rows come, and the open window ends in %.0f s: the job waits for that, because presence is "
                "promised (stop it, and run it again later, or drain it with --drop-window)",
                left,
            )
        while (left := edge - self._time.now()) > 0.0:
            if self._stop.asked:
                return False
            self._tell("running")
            if self._is_due():
                self.commit()
            self._clock.sleep(min(left, self._pace.poll))
        self._gather(self.stream.tick(self._time.now()))
        return True

    def _enter_epoch(self, latest: Checkpoint) -> Guarantee:
        """Begin an epoch with a new stream, which counts on the rows of each person if it can; or go on with the one
        that a restored stream belongs to. What is promised in it.
        """
        described = self.stream.describe()
        if latest.snapshot is None or not self._epochs.is_open:
            differing = [] if latest.carried is None else self.stream.take_over(latest.carried)
            if differing:
                LOG.warning(
                    "rows of a person that were published before do not count any more: another %s than then. The "
                    "statement says what all epochs of the job together promise",
                    " and another ".join(differing),
                )
            for found in other_parts(self._epochs.manifest(self._sink_name), described):
                LOG.warning("the sink has %s: name another one to keep them apart", found)
            carried = latest.carried is not None and not differing
            self._epochs.begin(described, version=__version__, sink=self._sink_name, carried=carried)
        return self._epochs.together(described)

    def guarantee(self) -> Guarantee:
        """The statement: what the stream promises, and what all epochs of the job together do where that differs."""
        return self._guarantee

    @property
    def _sink_name(self) -> str:
        """What tells the sink from others, in the list of epochs."""
        return sink_name(self._identity)

    def _write_manifest(self, epochs: Epochs) -> None:
        """Tell readers of the sink what was promised for which part: at the start of a process and at the end of an
        epoch, never at a commit. What a process that died could not write is made up for at the next start.
        """
        if self._manifest is not None:
            self._manifest.write(epochs.manifest(self._sink_name))

    def _warn_if_empty(self) -> None:
        """Log that nothing was published; not for a stream without rows in a job that had some before."""
        report = self.stream.report()
        if report.rows_in or not self.books()["rows_in"]:
            found = empty_output(report, malformed=0 if report.rows_in else self._bad)
            if found is not None:
                LOG.warning("%s", found)

    def stop(self) -> None:
        """Ask the job to commit and return soon."""
        self._stop.ask()

    def commit(self, *, ended: Ended | None = None) -> None:
        """Publish what was released since the last commit, exactly once.

        1. Gather released rows, rejects and the state of the stream into a segment. The sink has said that it can hold
           them (`_gather`): from step 2 on nothing can be taken back.
        2. Store segment, state and the source's position under the next number, in one transaction.
        3. Deliver the segment, if it has rows, and the letters at their place. Segments have numbers of their own:
           those without rows do not count, so that a sink does not show how often a job commits. Where presence is
           promised, wait before that until the segment is due (`runtime/schedule.py`).
        4. Mark it delivered, and wipe it.
        5. Acknowledge the source.
        6. Tell the stream: what it could not tell other sites before is safe now.

        Dying before 2 leaves the former commit: the rows are read again, and nothing of them was seen. Dying between 2
        and 4 leaves a segment that `_recover` delivers byte for byte, unless the sink has its number. Dying after 4
        costs nothing: acknowledging is for the source's own books, and a stream that continues from a snapshot tells
        others again.
        """
        if self._undelivered is not None:  # the commit before this one failed after step 2: it must not be replaced
            self._delivered(self._deliver(self._undelivered))
        if ended is None and not self._segment.dirty and not self._has_moved() and not self.stream.urgent:
            return
        started = time.monotonic()
        self._step(1)
        checkpoint = self._gathered(ended)
        self._step(2)
        if self._store is not None:
            self._store.save(checkpoint)
        self._epochs = Epochs.load(checkpoint.epochs)
        self.ended = ended
        self._segment = _Segment()
        self._undelivered = checkpoint
        self._delivered(self._deliver(checkpoint))
        self._position = checkpoint.position or None
        if checkpoint.position is not None:
            self._step(5)
            self._acknowledge(checkpoint.position)
        self._step(6)
        self.stream.committed()
        self._committed_at = self._clock.now()
        self._commit_seconds = time.monotonic() - started
        self._check_rejects(at_end=ended == "finished")

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        self._source.close()
        self._sink.close()
        if self._store is not None:
            self._store.close()
        self._close_more()

    def _recover(self) -> Checkpoint:
        """The latest commit, delivered: what a process before this one may not have managed. Before the first commit,
        one that says nothing.
        """
        latest = None if self._store is None else self._store.load()
        there = self._until_available(self._sink.last, "the sink")
        if latest is None:
            latest = Checkpoint(number=0, position=None, snapshot=None, delivered=True)
        else:
            latest = self._same_job(latest, there)
        if there > latest.segments:
            raise OutputError(
                f"the sink has segment {there}, and the checkpoint knows of {latest.segments or 'none'}: going on "
                f"would publish rows twice. Bring back the checkpoint that belongs to the sink; without it, only a new "
                f"job can begin: no checkpoint, an empty sink, and a source without the rows that were published"
            )
        self.recovered = not latest.delivered
        if not latest.delivered:
            # Of a segment that is there already nobody knows whether its letters are.
            latest = self._deliver(latest, segment=there < latest.segments)
        return latest

    def _same_job(self, latest: Checkpoint, there: int) -> Checkpoint:
        """Refuse a checkpoint of another job. After a drain another source begins at its own beginning, and only then:
        rows that were published must not be read again because of another sink.
        """
        if latest.ended == "drained" and latest.delivered:
            sections = {place.partition(".")[0] for place in differences(self._identity, latest.identity)}
            if there and "sink" in sections:
                raise OutputError(f"the sink has segment {there} of another job: begin with an empty sink")
            if "source" not in sections:
                return latest
            LOG.warning(
                "the source is another one than before the drain, and is read from its beginning: what it has in "
                "common with the former one is published again"
            )
            return replace(latest, position=None)
        check_identity(self._identity, latest)
        return latest

    def _deliver(self, checkpoint: Checkpoint, *, segment: bool = True) -> Checkpoint:
        """Steps 3 and 4."""
        if checkpoint.letters and self._letters is None:
            raise OutputError(
                "the latest commit holds dead letters that have not been written: run the job once more with its "
                "dead_letter section before it goes without"
            )
        self._step(3)
        if segment and checkpoint.segment:
            table = from_bytes(checkpoint.segment)
            self._wait_until(checkpoint.due)
            self._until_available(lambda: self._sink.deliver(checkpoint.segments, table), "the sink")
        if self._letters is not None and checkpoint.letters:
            self._letters.append(checkpoint.letters, checkpoint.letters_at)
        self._step(4)
        if checkpoint.delivered or self._store is None:  # nothing had to be delivered
            return checkpoint
        return self._store.mark_delivered(checkpoint)

    def _delivered(self, checkpoint: Checkpoint) -> None:
        self._number, self._segments, self._undelivered = checkpoint.number, checkpoint.segments, None

    def _wait_until(self, due: float | None) -> None:
        """Let time pass until a segment is due. What is late (the process was down, or slow) is due at once."""
        left = 0.0 if due is None else due - self._time.now()
        if left > 0.0:
            self._clock.sleep(min(left, LONGEST_LAG))  # a clock that was put back must not hold it up for longer

    def _gathered(self, ended: Ended | None) -> Checkpoint:
        segment = self._segment
        tables = [table for table in segment.tables if table.num_rows]
        letters = b"" if self._letters is None else self._letters.sealed(segment.letters)
        snapshot = None if ended is not None or self._store is None else self.stream.snapshot()
        return Checkpoint(
            number=self._number + 1,
            position=self._source.position(),
            snapshot=snapshot,
            segment=to_bytes(tables) if tables else b"",
            segments=self._segments + bool(tables),
            due=segment.due,
            letters=letters,
            letters_at=0 if self._letters is None else self._letters.length(),
            delivered=not tables and not letters,
            ended=ended,
            books=self.books(),
            identity=self._identity,
            carried=None if ended is None or self._store is None else self.stream.carry(),
            epochs=self._epochs.after(self._segments + 1 if tables else None, ended).facts(),
        )

    def _acknowledge(self, position: Position) -> None:
        """Step 5. Whatever comes of it: everything is safe, and the next commit acknowledges more."""
        try:
            self._source.acknowledge(position)
        except UnavailableError as exc:
            LOG.warning("the source was not told what is safe, the next commit tells it: %s", exc)

    def _read(self) -> Read | None:
        """The next rows. Of a source that is away there are none: it is tried again after growing pauses, while the
        clock goes on for the rows that wait, and for commits.
        """
        if self._pause_left > 0.0:
            nap = min(self._pause_left, self._patience())
            self._clock.sleep(nap)
            self._pause_left -= nap
            return None
        if self.stream.holding and 0.0 <= self._clock.now() - self._read_at < self._pace.hold:
            self._clock.sleep(_NAP)
            return None
        try:
            read = self._source.read(self._patience())
        except UnavailableError as exc:
            self._pause = self._pause_left = min(2 * self._pause or self._pace.first_pause, self._pace.longest_pause)
            LOG.warning("the source is not available, trying again in %.1f s: %s", self._pause, exc)
            return None
        self._pause = 0.0
        if read is not None:
            self._read_at = self._clock.now()
        return read

    def _patience(self) -> float:
        """Seconds to wait for rows before the clock is looked at."""
        if self._schedule is None:
            return self._pace.poll
        return self._schedule.patience(self._time.now(), self._pace.poll)

    def _take(self, read: Read | None) -> None:
        """Push rows, or let time pass, and gather what that releases and rejects."""
        now = self._time.now()
        if read is None:
            self._gather(self.stream.tick(now))
            return
        self._gather(self.stream.push(read.rows, now))
        self._segment.dirty |= read.rows.num_rows > 0 or bool(read.bad)
        self._bad += len(read.bad)
        if self._letters is not None:
            self._segment.letters += [
                _letter({"place": bad.place, "reason": bad.reason, "raw": bad.raw.decode(errors="backslashreplace")})
                for bad in read.bad
            ]
            for row, reason in self.stream.rejected():
                values = {name: _plain(read.rows.column(name)[row]) for name in read.rows.schema.names}
                self._segment.letters.append(_letter({"place": read.place(row), "reason": reason, "row": values}))

    def _gather(self, released: pa.Table) -> None:
        due = None if self._schedule is None else self._schedule.due()
        if released.schema != self._deliverable:
            self._sink.check(released.schema)  # before a commit: what is stored must be delivered
            self._deliverable = released.schema
        if released.num_rows:
            if due is not None:
                # One piece, however the rows that closed the window were cut: pieces show in some formats.
                self._segment.due, released = due, released.combine_chunks()
            self._segment.tables.append(released)
            self._segment.rows += released.num_rows
            self._segment.dirty = True

    def _is_due(self) -> bool:
        if self._segment.due is not None:  # a window has ended: it is stored now, and delivered when it is due
            return True
        if self._segment.rows + len(self._segment.letters) >= self._pace.most_rows:
            return True
        # A clock that was put back would otherwise hold up commits until it is where it was.
        since = self._clock.now() - self._committed_at
        if self.stream.urgent and not 0.0 <= since < max(self._pace.urgent, self._commit_seconds):
            return True
        waited = not 0.0 <= since < self._pace.every
        return waited and (self._segment.dirty or self._has_moved())

    def _has_moved(self) -> bool:
        """Whether the source stands elsewhere than the checkpoint says, also without any row: it may have found out
        where "now" is, or stepped over what is not for it and will be deleted.
        """
        return self._store is not None and (self._source.position() or None) != self._position

    def _rejects(self) -> tuple[int, int]:
        """Rejected rows and all rows, of the whole job."""
        books = self.books()
        return sum(books["rejected"].values()) + self._bad, books["rows_in"] + self._bad

    def _check_rejects(self, *, at_end: bool) -> None:
        """Stop a job that rejects too much: most likely its schema does not fit its source any more. What was rejected
        before this process began does not count: it may have been mended. On the way a few rows mean nothing yet; at
        the end of the source they are all there are.
        """
        rejected, rows = (now - before for now, before in zip(self._rejects(), self._rejects_before, strict=True))
        if rejected <= self._max_reject_share * rows or (rows < _ENOUGH and not at_end):
            return
        found = (
            f"{rejected:,} of {rows:,} rows were rejected, more than the share of {self._max_reject_share:g} that is "
            f"allowed: look at the dead letters"
        )
        if at_end:
            raise InputError(f"{found}. The source has ended, and everything else is published")
        raise InputError(
            f"{found}. They are not read again: mend the source, or drain the job and change its schema, then run "
            f"it again"
        )

    def _until_available(self, call: Callable[[], _Result], what: str) -> _Result:
        """Call until it works, and let whoever watches know that it does not."""

        def told() -> _Result:
            try:
                return call()
            except UnavailableError:
                self._tell("waiting", at_once=True)
                raise

        return until_available(told, what, clock=self._clock, pace=self._pace, stop=self._stop)

    @property
    def bad(self) -> int:
        """How much arrived that was no row."""
        return self._bad

    def status(self) -> Status:
        """How the job stands."""
        books = self.books()
        outcomes = ("published", "suppressed", "sampled_out", "over_budget", "handed_over", "undecided")
        return Status(
            job=str(self._identity.get("name", "")),
            state=self._state,
            rows={name: books[name] for name in (*outcomes, "bad", "pending")},
            received=books["received"],
            sent=self.stream.sent,
            rejected=books["rejected"],
            clamped=books["clamped"],
            groups=books["groups"],
            information_loss=books["information_loss"],
            open_clusters=books["open_clusters"],
            oldest_wait=books["oldest_wait"],
            commits=self._number,
            commit_seconds=self._commit_seconds,
            committed_at=self._committed_at,
            lag=self._source.lag(),
        )

    def _tell(self, state: str, *, at_once: bool = False) -> None:
        """Let whoever watches know, but not all the time."""
        now = self._clock.now()
        if at_once or state != self._state or not 0.0 <= now - self._watched_at < _WATCHED_EVERY:
            self._state, self._watched_at = state, now
            if self._opened:
                self._watch(self.status())

    def _tell_failure(self) -> None:
        """The last word of a job that dies of an error. Whatever comes of it must not hide that error."""
        with suppress(Exception):
            self._tell("failed", at_once=True)

    def books(self) -> dict[str, Any]:
        """The job in numbers, over all its streams: as a report has them, and `bad`, what arrived and was no row."""
        return {**_summed(asdict(self.stream.report()), self._before), "bad": self._bad, "before": self._before}


def check_identity(identity: dict[str, Any], latest: Checkpoint) -> None:
    """Refuse a checkpoint of a job that reads from or writes to something else."""
    differing = differences(identity, latest.identity)
    if differing:
        raise SnapshotError(
            f"the checkpoint belongs to a job with another {' and another '.join(differing)}. Drain it with the job "
            f"file that it was made with, then change that"
        )


def until_available(call: Callable[[], _Result], what: str, *, clock: Clock, pace: Pace, stop: Stop) -> _Result:
    """Call until it works, with growing pauses. A job that is told to stop does not wait for ever: it leaves, and
    continues where it stands.
    """
    pause = pace.first_pause
    while True:
        try:
            return call()
        except UnavailableError as exc:
            if stop.asked:
                raise
            LOG.warning("%s is not available, trying again in %.1f s: %s", what, pause, exc)
            left = pause
            while left > 0.0 and not stop.asked:
                nap = min(left, pace.poll)
                clock.sleep(nap)
                left -= nap
            pause = min(2 * pause, pace.longest_pause)


_NAP = 0.005  # seconds between two looks at what others have answered
_ENOUGH = 1000  # rows before a share of rejects means something
_WATCHED_EVERY = 1.0


def _summed(books: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Books with those of earlier streams added."""
    found = dict(books)
    both = (books, before)
    losses = [(one.get("information_loss"), one.get("published", 0) + one.get("received", 0)) for one in both]
    published = sum(rows for loss, rows in losses if loss is not None)
    if published:
        found["information_loss"] = sum(loss * rows for loss, rows in losses if loss is not None) / published
    found["oldest_wait"] = max(books["oldest_wait"], before.get("oldest_wait", 0))
    for name in _COUNTED:
        found[name] += before.get(name, 0)
    for name in ("rejected", "clamped"):
        counts = Counter(books[name])
        counts.update(before.get(name, {}))
        found[name] = dict(counts)
    return found


_COUNTED = (
    "rows_in",
    "published",
    "suppressed",
    "sampled_out",
    "over_budget",
    "handed_over",
    "undecided",
    "received",
    "at_root",
    "reused",
    "gate_refused",
    "groups",
)


def to_bytes(tables: list[pa.Table]) -> bytes:
    """Released tables as one Arrow stream, with the types of the last one: a column may have been all null before."""
    schema = tables[-1].schema
    out = pa.BufferOutputStream()
    # Compressed: what is published repeats itself, and a store that wipes what it forgets writes all of it three times.
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for table in tables:
            writer.write_table(table if table.schema == schema else table.cast(schema))
    return bytes(out.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """The table that `to_bytes` was given."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _letter(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode(errors="backslashreplace")


def _plain(scalar: pa.Scalar) -> object:
    """A value as JSON can hold it, whatever it is: a letter must not stop a job."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return _as(scalar, pa.binary()).decode(errors="backslashreplace")
    except (ValueError, OverflowError):  # a time that Python has no year for
        return _as(scalar, pa.string()).decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _as(scalar: pa.Scalar, kind: pa.DataType) -> bytes:
    try:
        return bytes(scalar.cast(kind).as_buffer())
    except pa.ArrowException:
        return f"a value of type {scalar.type} that cannot be shown".encode()
