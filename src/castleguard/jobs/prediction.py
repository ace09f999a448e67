"""Checks of a dry run: everything that would stop `castleguard run` at its start, without changing anything."""

from pathlib import Path

from castleguard.config.job_model import JobFile
from castleguard.connectors.file_sink import last_part
from castleguard.errors import CastleguardError, ConfigError, OutputError, UnavailableError
from castleguard.jobs.assemble import check_duplicates, refuse_spark
from castleguard.jobs.check.folders import check_writable
from castleguard.jobs.endpoints import FORMATS, open_source
from castleguard.jobs.identity import identity_of
from castleguard.jobs.load import connector_of
from castleguard.jobs.stored_state import check_stored, latest_of
from castleguard.runtime.delivery import check_letters_have_a_place
from castleguard.runtime.recovery import commit_to_restore


def check_start(job: JobFile, *, allow_duplicates: bool) -> int:
    """Raise the error that `run` would raise; returns the number of the commit that it would restore."""
    refuse_spark(job)
    try:
        number = _check_state(job, allow_duplicates=allow_duplicates)
        _check_folders(job)
        _ask_sink(job)
    except ConfigError:
        raise  # its message begins with a place in the job file
    except UnavailableError as exc:
        raise UnavailableError(f"`castleguard run` could not start now: {exc}") from exc
    except CastleguardError as exc:
        raise type(exc)(f"`castleguard run` would fail: {exc}") from exc
    return number


def _check_state(job: JobFile, *, allow_duplicates: bool) -> int:
    """Check checkpoint, sink and source as far as that changes nothing.

    A broker is not asked for the last segment, because that takes a producer with the job's own name.
    """
    check_duplicates(job, exactly_once=connector_of(job.sink).exactly_once, allowed=allow_duplicates)
    latest = latest_of(job)
    if latest is None and job.checkpoint is not None and job.checkpoint.path.exists():
        check_stored(job)  # raises: the path is not a file
    folder = Path(job.sink.options.path) if job.sink.type in FORMATS else None
    there = last_part(folder) if folder is not None and folder.exists() else 0
    latest = commit_to_restore(latest, there, identity_of(job), stored=job.checkpoint is not None)
    check_letters_have_a_place(latest, has_letters=job.dead_letter is not None)
    check_stored(job)
    if job.source.type in FORMATS and latest.position is not None:
        open_source(job, latest.position).close()
    return latest.number


def _check_folders(job: JobFile) -> None:
    folders = [] if job.sink.type not in FORMATS else [(Path(job.sink.options.path), "sink")]
    kept = (("checkpoint", job.checkpoint), ("dead_letter", job.dead_letter))
    folders += [(section.path.parent, name) for name, section in kept if section is not None]
    for folder, name in folders:
        found = check_writable(folder, name)
        if found.status == "bad":
            raise OutputError(f"{name}: {found.what} ({found.remedy})")


def _ask_sink(job: JobFile) -> None:
    """Raise OutputError if a check of the sink's connector fails."""
    ask = connector_of(job.sink).check
    for what, fine, remedy in () if ask is None else ask(job.sink.options):
        if not fine:
            raise OutputError(f"sink: check failed: {what} ({remedy})")
