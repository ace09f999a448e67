"""What a job tells: how it stands, what it has counted over all its streams, and what it promises.

A watcher is told the state about once a second, the checkpoint gets the books, and readers of the sink find the
statement of each epoch beside the parts.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from castleguard.books import Books
from castleguard.checkpoint.store import Checkpoint
from castleguard.connectors.manifest import Manifest
from castleguard.errors import InputError
from castleguard.privacy.guarantee import Guarantee
from castleguard.release.emptiness import empty_output
from castleguard.runtime.clock import Clock
from castleguard.runtime.epochs import Described, Epochs, other_parts, sink_name
from castleguard.telemetry.logs import LOG
from castleguard.telemetry.metrics import Status

_EVERY = 1.0  # seconds


class Telling:
    """Calls `watch` with what `status` returns, when the state changes and about once a second."""

    def __init__(self, watch: Callable[[Status], None], status: Callable[[], Status], clock: Clock) -> None:
        self._watch = watch
        self._status = status
        self._clock = clock
        self._told_at = 0.0
        self.state = "starting"
        self.opened = False
        """Whether there is a status to tell."""

    def tell(self, state: str, *, at_once: bool = False) -> None:
        """Tell it, but not all the time."""
        now = self._clock.now()
        if at_once or state != self.state or not 0.0 <= now - self._told_at < _EVERY:
            self.state, self._told_at = state, now
            if self.opened:
                self._watch(self._status())

    def tell_waiting(self) -> None:
        """Tell that something is not available."""
        self.tell("waiting", at_once=True)

    def tell_failure(self) -> None:
        """The last word of a job that dies of an error. A failure of the watcher must not hide that error."""
        with suppress(Exception):
            self.tell("failed", at_once=True)


_ENOUGH = 1000  # rows before a share of rejects means something


class JobBooks:
    """What earlier streams of a job have counted, and what its source read that is not a row."""

    def __init__(self, latest: Checkpoint) -> None:
        """As a checkpoint has them. The books of the present stream are in its snapshot."""
        self.malformed = int(latest.books.get("bad", 0))
        facts = latest.books if latest.snapshot is None else latest.books["before"]
        # What is open or tried at the end of a stream is of no interest afterwards.
        self.before = replace(Books.load(facts), open_clusters=0, threshold=0.0) if facts else None
        """Of streams that were flushed for good; None if there were none."""

    def total(self, report: Books) -> Books:
        """The books of the whole job, with the report of its present stream."""
        return replace(report + (self.before or Books()), malformed=self.malformed)

    def facts(self, report: Books) -> dict[str, Any]:
        """As a checkpoint holds them."""
        before = {} if self.before is None else self.before.facts()
        return {**self.total(report).facts(), "bad": self.malformed, "before": before}

    def warn_if_empty(self, report: Books) -> None:
        """Log that nothing was published; not for a stream without rows in a job that had some before."""
        found = None
        if report.rows_in:
            found = empty_output(report)
        elif not self.total(report).rows_in:
            found = empty_output(replace(report, malformed=self.malformed))
        if found is not None:
            LOG.warning("%s", found)


def check_rejects(now: Books, started: Books, max_share: float, *, at_end: bool) -> None:
    """Stop a job that rejects too much: most likely its schema does not fit its source any more.

    What was rejected before this process started does not count: it may have been mended. On the way a few rows mean
    nothing yet; at the end of the source they are all there are.
    """
    rejected = rejected_of(now) - rejected_of(started)
    rows = now.rows_in + now.malformed - started.rows_in - started.malformed
    if rejected <= max_share * rows or (rows < _ENOUGH and not at_end):
        return
    found = (
        f"{rejected:,} of {rows:,} rows were rejected, more than the share of {max_share:g} that is allowed: look at "
        f"the dead letters"
    )
    if at_end:
        raise InputError(f"{found}. The source has ended, and everything else is published")
    raise InputError(
        f"{found}. They are not read again: mend the source, or drain the job and change its schema, then run it again"
    )


def rejected_of(books: Books) -> int:
    """Everything that came in and could not be used."""
    return books.rejected_rows + books.malformed


class Counted(Protocol):
    """What a statement asks of a stream."""

    def describe(self) -> Described:
        """What tells its output from that of another stream, and what it promises."""

    def take_over(self, carried: bytes) -> list[str]:
        """Go on with the counts of an earlier stream; what differs, if that cannot be."""


class Statement:
    """The epochs of one job; `guarantee` is what is promised in the open one."""

    def __init__(
        self, latest: Checkpoint, stream: Counted, identity: dict[str, Any], manifest: Manifest | None, version: str
    ) -> None:
        """Begin an epoch with a new stream, which counts on the rows of each person if it can; or go on with the one
        that a restored stream belongs to.
        """
        self._epochs = Epochs.of(latest)
        self._sink = sink_name(identity)
        self._manifest = manifest
        self._version = version
        described = stream.describe()
        if latest.snapshot is None or not self._epochs.is_open:
            self._begin(latest, stream, described)
        self.guarantee: Guarantee = self._epochs.together(described)

    def _begin(self, latest: Checkpoint, stream: Counted, described: Described) -> None:
        differing = [] if latest.carried is None else stream.take_over(latest.carried)
        if latest.counts_wiped:
            LOG.warning(
                "rows of a person that were published before do not count any more: their counts were deleted when the "
                "checkpoint lost its key. The statement says what all epochs of the job together promise"
            )
        if differing:
            LOG.warning(
                "rows of a person that were published before do not count any more: another %s than then. The "
                "statement says what all epochs of the job together promise",
                " and another ".join(differing),
            )
        for found in other_parts(self._epochs.manifest(self._sink), described):
            LOG.warning("the sink has %s: name another one to keep them apart", found)
        carried = latest.carried is not None and not differing
        self._epochs.begin(described, version=self._version, sink=self._sink, carried=carried)

    def after(self, part: int | None, ended: str | None) -> dict[str, Any]:
        """The epochs as a commit stores them that publishes `part`, if it does, and ends the open epoch, if it does."""
        return self._epochs.after(part, ended).facts()

    def commit(self, epochs: dict[str, Any]) -> None:
        """A commit has stored what `after` returned."""
        self._epochs = Epochs.load(epochs)

    def write(self, ended: str | None = None) -> None:
        """Tell readers of the sink what was promised for which part: at the start of a process and at the end of an
        epoch, never at a commit. What a process that died could not write is made up for at the next start.
        """
        if self._manifest is not None:
            epochs = self._epochs if ended is None else self._epochs.after(None, ended)
            self._manifest.write(epochs.manifest(self._sink))
