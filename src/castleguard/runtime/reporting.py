"""Reports of a job: its status, its books over all streams, and the guarantee of each epoch.

The watcher gets the status about once a second, the checkpoint stores the books, and readers of the sink find the
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


class StatusReporter:
    """Passes the status to `watch` when the state changes and about once a second."""

    def __init__(self, watch: Callable[[Status], None], status: Callable[[], Status], clock: Clock) -> None:
        self._watch = watch
        self._status = status
        self._clock = clock
        self._reported_at = 0.0
        self.state = "starting"
        self.opened = False
        """Whether the job is constructed and `status` can be called."""

    def report(self, state: str, *, at_once: bool = False) -> None:
        """Report the state; an unchanged one about once a second, or `at_once`."""
        now = self._clock.now()
        if at_once or state != self.state or not 0.0 <= now - self._reported_at < _EVERY:
            self.state, self._reported_at = state, now
            if self.opened:
                self._watch(self._status())

    def report_waiting(self) -> None:
        """Report that the source or the sink is unavailable."""
        self.report("waiting", at_once=True)

    def report_failure(self) -> None:
        """Report that the job failed. An error of the watcher must not hide the job's own error."""
        with suppress(Exception):
            self.report("failed", at_once=True)


_ENOUGH = 1000  # rows before the share of rejected ones is checked


class JobBooks:
    """Books of a job's earlier streams, and the number of malformed rows its source has read."""

    def __init__(self, latest: Checkpoint) -> None:
        """Load them from a checkpoint. The books of the current stream are in its snapshot."""
        self.malformed = int(latest.books.get("bad", 0))
        facts = latest.books if latest.snapshot is None else latest.books["before"]
        # Gauges of an ended stream mean nothing.
        self.before = replace(Books.load(facts), open_clusters=0, threshold=0.0) if facts else None
        """Books of ended streams; None if there were none."""

    def total(self, report: Books) -> Books:
        """Return the books of the whole job; `report`: those of the current stream."""
        return replace(report + (self.before or Books()), malformed=self.malformed)

    def facts(self, report: Books) -> dict[str, Any]:
        """Return the books as JSON values for the checkpoint."""
        before = {} if self.before is None else self.before.facts()
        return {**self.total(report).facts(), "bad": self.malformed, "before": before}

    def warn_if_empty(self, report: Books) -> None:
        """Warn if nothing was published; not for a stream without rows in a job that had some before."""
        found = None
        if report.rows_in:
            found = empty_output(report)
        elif not self.total(report).rows_in:
            found = empty_output(replace(report, malformed=self.malformed))
        if found is not None:
            LOG.warning("%s", found)


def check_rejects(now: Books, started: Books, max_share: float, *, at_end: bool) -> None:
    """Stop a job that rejects too many rows: most likely its schema no longer fits its source.

    Rows rejected before this process started do not count: their cause may be fixed. A minimum number of rows is
    required, except at the end of the source.
    """
    rejected = _rejected(now) - _rejected(started)
    rows = now.rows_in + now.malformed - started.rows_in - started.malformed
    if rejected <= max_share * rows or (rows < _ENOUGH and not at_end):
        return
    found = (
        f"{rejected:,} of {rows:,} rows were rejected, more than the allowed share of {max_share:g}: check the dead "
        f"letters"
    )
    if at_end:
        raise InputError(f"{found}. The source has ended; all other rows are published")
    raise InputError(
        f"{found}. They are not read again: fix the source, or drain the job and change its schema, then run it again"
    )


def _rejected(books: Books) -> int:
    """Rejected and malformed rows."""
    return books.rejected_rows + books.malformed


class Counted(Protocol):
    """The methods of a stream that a statement calls."""

    def describe(self) -> Described:
        """Return the identity, the guarantee and the counting windows of the stream."""

    def take_over(self, carried: bytes) -> list[str]:
        """Adopt the row counts of an earlier stream. If they do not fit, return what differs."""


class Statement:
    """The epochs of one job; `guarantee` is that of the open epoch."""

    def __init__(
        self, latest: Checkpoint, stream: Counted, identity: dict[str, Any], manifest: Manifest | None, version: str
    ) -> None:
        """Begin an epoch for a new stream, with the earlier row counts if they fit; keep that of a restored one."""
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
                "earlier rows of each person are no longer counted: their counts were deleted when the checkpoint lost "
                "its key. The statement gives the guarantee of all epochs of the job together"
            )
        if differing:
            LOG.warning(
                "earlier rows of each person are no longer counted: the job has another %s. The statement gives the "
                "guarantee of all epochs of the job together",
                " and another ".join(differing),
            )
        for found in other_parts(self._epochs.manifest(self._sink), described):
            LOG.warning("the sink has %s: use another sink to keep them apart", found)
        carried = latest.carried is not None and not differing
        self._epochs.begin(described, version=self._version, sink=self._sink, carried=carried)

    def after(self, part: int | None, ended: str | None) -> dict[str, Any]:
        """Return the epochs to store with a commit: it may publish a `part`, and end the open epoch (`ended`)."""
        return self._epochs.after(part, ended).facts()

    def commit(self, epochs: dict[str, Any]) -> None:
        """Adopt the epochs returned by `after`, once a commit has stored them."""
        self._epochs = Epochs.load(epochs)

    def write(self, ended: str | None = None) -> None:
        """Write the manifest, which maps parts to statements: at the start of a process and at the end of an epoch.

        Never at a commit. After a crash the next start writes what is missing.
        """
        if self._manifest is not None:
            epochs = self._epochs if ended is None else self._epochs.after(None, ended)
            self._manifest.write(epochs.manifest(self._sink))
