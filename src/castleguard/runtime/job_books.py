"""The books of a job over all its streams, and the share of rejected rows at which it stops."""

from dataclasses import replace
from typing import Any

from castleguard.books import Books
from castleguard.checkpoint.store import Checkpoint
from castleguard.errors import InputError
from castleguard.release.emptiness import empty_output
from castleguard.telemetry.logs import LOG

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
