"""`castleguard drain job.yaml`: publish the pending rows and end the stream, before a job is changed."""

import os
from pathlib import Path

import click

from castleguard.cli.job_options import duplicates_option, job_argument, site_option


@click.command(short_help="Publish the pending rows of a stopped job and end its stream.")
@job_argument
@site_option
@duplicates_option
@click.option(
    "--new-key",
    metavar="VARIABLE",
    help="Afterwards encrypt the checkpoint with the key in this environment variable; JOB still names the old key.",
)
@click.option("--no-key", is_flag=True, help="Afterwards leave the checkpoint unencrypted.")
@click.option(
    "--drop-window",
    is_flag=True,
    help="SDGS with windows of seconds: suppress the rows of the open window instead of waiting for its end.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary.")
def drain(
    job_file: Path,
    name: str | None,
    allow_duplicates: bool,
    new_key: str | None,
    no_key: bool,
    drop_window: bool,
    quiet: bool,
) -> None:
    """Publish the pending rows of the stopped job in the file JOB, as at the end of its stream.

    Drain a job before you change k, the schema or the version of castleguard: drain with the old file and version,
    then run with the new ones. The next run starts a new stream where this one ended. Stop a running job first.

    SDGS with windows of seconds publishes a window only at its end: drain waits for it, or drops it (--drop-window).

    Drain also changes, adds or removes the encryption key, because only a drained checkpoint holds no rows.
    """
    if new_key is not None and no_key:
        raise click.UsageError("--new-key and --no-key are mutually exclusive: use only one")
    from castleguard.cli.run import closing_text, print_closing
    from castleguard.errors import ConfigError, UsageError
    from castleguard.jobs.assemble import make_job
    from castleguard.jobs.endpoints import manifest_of
    from castleguard.jobs.load import load
    from castleguard.jobs.stored_state import change_key, check_letters_are_gone, has_committed

    job = load(job_file, site=name)
    if job.checkpoint is None:
        raise ConfigError(f"{job.path}  has no checkpoint section, so the job keeps no rows to drain")
    key = None if new_key is None else _key_in(new_key)
    changing = new_key is not None or no_key
    if changing:
        check_letters_are_gone(job)  # first of all; the drain may still write dead letters of the last commit
    if not has_committed(job) and not (changing and job.checkpoint.path.exists()):
        raise UsageError(f"nothing to drain: {job.checkpoint.path} holds no commit because the job has not run yet")
    made = make_job(job, allow_duplicates=allow_duplicates)
    outcome = made.drain(drop_window=drop_window)
    if changing:
        change_key(job, key)
    if not quiet:
        text = closing_text(made, outcome)
        if manifest_of(job) is not None:
            text += f"\n{CHANGE_FOLDER}"
        if changing:
            state = "is not encrypted" if no_key else "is encrypted with the new key"
            text += f"\nThe checkpoint {state} now: update checkpoint.key in the job file."
        print_closing(job, text)


CHANGE_FOLDER = """\
If you change the policy or the schema, also change sink.path: otherwise old and new parts share a folder, and only
_castleguard.json tells them apart."""


def _key_in(variable: str) -> bytes:
    from castleguard.config.job_model import parse_key
    from castleguard.errors import ConfigError

    if variable not in os.environ:
        # Anything but a variable name may be the key itself, which must not be shown.
        named = f"the environment variable {variable}" if variable.isidentifier() else "the named environment variable"
        raise ConfigError(f"{named} is not set: --new-key takes the name of the variable that holds the new key")
    return parse_key(os.environ[variable], variable)
