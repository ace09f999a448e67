"""The commit that a job continues from, and the reasons to refuse it."""

from dataclasses import replace
from typing import Any

from castleguard.checkpoint.codec import differences
from castleguard.checkpoint.store import Checkpoint
from castleguard.errors import OutputError, SnapshotError
from castleguard.telemetry.logs import LOG


def check_identity(identity: dict[str, Any], latest: Checkpoint) -> None:
    """Refuse a checkpoint of a job that reads from or writes to something else."""
    differing = differences(identity, latest.identity)
    if differing:
        raise SnapshotError(
            f"the checkpoint belongs to a job with another {' and another '.join(differing)}. Drain it with the job "
            f"file that it was made with, then change that"
        )


def continued(latest: Checkpoint | None, there: int, identity: dict[str, Any], *, stored: bool) -> Checkpoint:
    """The commit that a job goes on from, if its sink has the segments up to `there`; before the first commit, one that
    says nothing. Raises SnapshotError or OutputError where going on would publish rows twice. `stored`: the job has a
    checkpoint.
    """
    if latest is None:
        latest = Checkpoint(number=0, position=None, snapshot=None, delivered=True)
    else:
        latest = _same_job(identity, latest, there)
    if there > latest.segments:
        if not stored:
            raise OutputError(
                f"the sink has segment {there}, and the job has no checkpoint that knows of it: going on would publish "
                f"rows twice. Name an empty sink"
            )
        raise OutputError(
            f"the sink has segment {there}, and the checkpoint knows of {latest.segments or 'none'}: going on "
            f"would publish rows twice. Bring back the checkpoint that belongs to the sink; without it, only a new "
            f"job can begin: no checkpoint, an empty sink, and a source without the rows that were published"
        )
    return latest


def _same_job(identity: dict[str, Any], latest: Checkpoint, there: int) -> Checkpoint:
    """The checkpoint to go on from; `there` is the last segment in the sink. Refuses that of another job.

    After a drain another source begins at its own beginning, and only then: rows that were published must not be read
    again because of another sink.
    """
    if latest.ended == "drained" and latest.delivered:
        sections = {place.partition(".")[0] for place in differences(identity, latest.identity)}
        if there and "sink" in sections:
            raise OutputError(f"the sink has segment {there} of another job: begin with an empty sink")
        if "source" not in sections:
            return latest
        LOG.warning(
            "the source is another one than before the drain, and is read from its beginning: what it has in "
            "common with the former one is published again"
        )
        return replace(latest, position=None)
    check_identity(identity, latest)
    return latest
