"""What would stop `castleguard run` at its start, found without changing anything."""

from pathlib import Path

from castleguard.config.job_model import JobFile
from castleguard.connectors.file_sink import last_part
from castleguard.errors import CastleguardError, ConfigError, OutputError, UnavailableError
from castleguard.jobs.assemble import check_duplicates, refuse_spark
from castleguard.jobs.check.folders import writable
from castleguard.jobs.endpoints import FORMATS, open_source
from castleguard.jobs.identity import identity_of
from castleguard.jobs.kept import check_kept, latest_of
from castleguard.jobs.load import connector_of
from castleguard.runtime.delivery import check_letters_have_a_place
from castleguard.runtime.recovery import commit_to_restore


def check_start(job: JobFile, *, allow_duplicates: bool) -> int:
    """Raise what `run` would fail with; the number of the commit that it would go on from."""
    refuse_spark(job)
    try:
        number = _check_kept(job, allow_duplicates=allow_duplicates)
        _check_folders(job)
        _ask_sink(job)
    except ConfigError:
        raise  # it begins with a place in the job file
    except UnavailableError as exc:
        raise UnavailableError(f"`run` could not start now: {exc}") from exc
    except CastleguardError as exc:
        raise type(exc)(f"`run` would fail: {exc}") from exc
    return number


def _check_kept(job: JobFile, *, allow_duplicates: bool) -> int:
    """Look at checkpoint, sink and source as far as that changes nothing.

    Brokers are asked what they have, but not for the last segment: that takes a producer of the job's own name.
    """
    check_duplicates(job, exactly_once=connector_of(job.sink).exactly_once, allowed=allow_duplicates)
    latest = latest_of(job)
    if latest is None and job.checkpoint is not None and job.checkpoint.path.exists():
        check_kept(job)  # what is there is not a file
    folder = Path(job.sink.options.path) if job.sink.type in FORMATS else None
    there = last_part(folder) if folder is not None and folder.exists() else 0
    latest = commit_to_restore(latest, there, identity_of(job), stored=job.checkpoint is not None)
    check_letters_have_a_place(latest, has_letters=job.dead_letter is not None)
    check_kept(job)
    if job.source.type in FORMATS and latest.position is not None:
        open_source(job, latest.position).close()
    return latest.number


def _check_folders(job: JobFile) -> None:
    folders = [] if job.sink.type not in FORMATS else [(Path(job.sink.options.path), "sink")]
    kept = (("checkpoint", job.checkpoint), ("dead_letter", job.dead_letter))
    folders += [(section.path.parent, name) for name, section in kept if section is not None]
    for folder, name in folders:
        found = writable(folder, name)
        if found.status == "bad":
            raise OutputError(f"{name}: {found.what} ({found.remedy})")


def _ask_sink(job: JobFile) -> None:
    """Let a broker say whether the sink is there."""
    ask = connector_of(job.sink).check
    for what, fine, remedy in () if ask is None else ask(job.sink.options):
        if not fine:
            raise OutputError(f"sink: it is not so that {what} ({remedy})")
