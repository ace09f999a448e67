"""The commit that a job restores, and the checks that refuse it."""

from dataclasses import replace
from typing import Any

from castleguard.checkpoint.codec import differences
from castleguard.checkpoint.store import Checkpoint
from castleguard.errors import OutputError, SnapshotError
from castleguard.telemetry.logs import LOG


def check_identity(identity: dict[str, Any], latest: Checkpoint) -> None:
    """Refuse a checkpoint of a job with another source or sink."""
    differing = differences(identity, latest.identity)
    if differing:
        raise SnapshotError(
            f"the checkpoint belongs to a job with another {' and another '.join(differing)}. Drain it with its "
            f"original job file, then make the change"
        )


def commit_to_restore(latest: Checkpoint | None, last: int, identity: dict[str, Any], *, stored: bool) -> Checkpoint:
    """Return the commit to restore, given the `last` segment in the sink; an empty one before the first commit.

    Raises SnapshotError or OutputError where restoring would publish rows twice. `stored`: the job has a checkpoint.
    """
    if latest is None:
        latest = Checkpoint(number=0, position=None, snapshot=None, delivered=True)
    else:
        latest = _check_job(identity, latest, last)
    if last > latest.segments:
        if not stored:
            raise OutputError(
                f"the sink has segment {last}, but the job has no checkpoint for it: running it would publish rows "
                f"twice. Use an empty sink"
            )
        known = f"ends at {latest.segments}" if latest.segments else "has none"
        raise OutputError(
            f"the sink has segment {last}, but the checkpoint {known}: running the job would publish rows twice. Bring "
            f"back the checkpoint that belongs to the sink, or start a new job without a checkpoint, with an empty "
            f"sink and a source without the published rows"
        )
    return latest


def _check_job(identity: dict[str, Any], latest: Checkpoint, last: int) -> Checkpoint:
    """Return the checkpoint to restore; `last` is the last segment in the sink. Refuses that of another job.

    Only after a drain may the source change; the new one is read from its beginning. A change of the sink alone keeps
    the position: published rows must not be read again.
    """
    if latest.ended == "drained" and latest.delivered:
        sections = {place.partition(".")[0] for place in differences(identity, latest.identity)}
        if last and "sink" in sections:
            raise OutputError(f"the sink has segment {last} of another job: use an empty sink")
        if "source" not in sections:
            return latest
        LOG.warning(
            "the source has changed since the drain and is read from its beginning: rows that both sources contain "
            "are published again"
        )
        return replace(latest, position=None)
    check_identity(identity, latest)
    return latest
