"""What would stop `castleguard run` at its start, found by a dry run without changing anything."""

from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError, ConfigError, OutputError, UnavailableError

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile


def check_start(job: "JobFile", *, allow_duplicates: bool) -> int:
    """Raise what `run` would fail with; the number of the commit that it would go on from."""
    from castleguard.jobs import assemble

    assemble.refuse_spark(job)
    try:
        number = assemble.check_start(job, allow_duplicates=allow_duplicates)
        _check_folders(job)
        _ask_sink(job)
    except ConfigError:
        raise  # it begins with a place in the job file
    except UnavailableError as exc:
        raise UnavailableError(f"`run` could not start now: {exc}") from exc
    except CastleguardError as exc:
        raise type(exc)(f"`run` would fail: {exc}") from exc
    return number


def _check_folders(job: "JobFile") -> None:
    from castleguard.jobs.assemble import FORMATS
    from castleguard.jobs.check import writable

    folders = [] if job.sink.type not in FORMATS else [(Path(job.sink.options.path), "sink")]
    kept = (("checkpoint", job.checkpoint), ("dead_letter", job.dead_letter))
    folders += [(section.path.parent, name) for name, section in kept if section is not None]
    for folder, name in folders:
        found = writable(folder, name)
        if found.state == "bad":
            raise OutputError(f"{found.what} ({found.remedy})")


def _ask_sink(job: "JobFile") -> None:
    """Let a broker say whether the sink is there."""
    from castleguard.jobs.assemble import connector_of

    ask = connector_of(job.sink).check
    for what, fine, remedy in () if ask is None else ask(job.sink.options):
        if not fine:
            raise OutputError(f"sink: it is not so that {what} ({remedy})")
