"""`castleguard drain job.yaml`: publish what is pending and end the job, so that it can be changed."""

import os
from pathlib import Path

import click

from castleguard.cli.site_option import site_option


@click.command(short_help="Flush a job and end it.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@site_option
@click.option("--allow-duplicates", is_flag=True, help="Let a sink get noisy rows twice after a crash.")
@click.option(
    "--new-key",
    metavar="VARIABLE",
    help="Then seal the checkpoint with the key in this variable of the environment; JOB still names the former one.",
)
@click.option("--no-key", is_flag=True, help="Then leave the checkpoint without a key.")
@click.option(
    "--drop-window",
    is_flag=True,
    help="Where presence is promised: give up the rows of the open window; without this, wait for its end.",
)
@click.option("-q", "--quiet", is_flag=True, help="No summary.")
def drain(
    job_file: Path,
    name: str | None,
    allow_duplicates: bool,
    new_key: str | None,
    no_key: bool,
    drop_window: bool,
    quiet: bool,
) -> None:
    """Publish what the stopped job in the file JOB still holds, as at the end of its stream.

    The way to change k, the schema or the version: drain with the old file and the old version, then run with the new
    ones. The next run begins a new stream where this one ended. A job that is running has to be stopped first.

    SDGS with windows of seconds publishes a window at its end, and not before: the drain waits for that, or drops it.

    Also the way to change the key, or to begin or end encrypting: only a drained checkpoint holds no row.
    """
    if new_key is not None and no_key:
        raise click.UsageError("--new-key and --no-key exclude one another")
    from castleguard.cli.run import closing_words, say_at_end
    from castleguard.errors import ConfigError, UsageError
    from castleguard.jobs.assemble import make_job
    from castleguard.jobs.endpoints import manifest_of
    from castleguard.jobs.kept import change_key, check_letters_are_gone, has_committed
    from castleguard.jobs.load import load

    job = load(job_file, site=name)
    if job.checkpoint is None:
        raise ConfigError(f"{job.path}  has no checkpoint, so that nothing is kept that could be drained")
    key = None if new_key is None else _key_in(new_key)
    changing = new_key is not None or no_key
    if changing:
        check_letters_are_gone(job)  # before anything is done; a drain may still bring letters of the last commit
    if not has_committed(job) and not (changing and job.checkpoint.path.exists()):
        raise UsageError(
            f"there is nothing to drain: {job.checkpoint.path} holds no commit, so the job has not run yet"
        )
    made = make_job(job, allow_duplicates=allow_duplicates)
    outcome = made.drain(drop_window=drop_window)
    if changing:
        change_key(job, key)
    if not quiet:
        words = closing_words(made, outcome)
        if manifest_of(job) is not None:
            words += f"\n{BESIDE}"
        if changing:
            words += f"\nThe checkpoint {'has no key' if no_key else 'has the new key'} now: change the job file, too."
        say_at_end(job, words)


BESIDE = """\
With another policy or schema, name another folder in sink.path: parts of both would lie side by side, and only
_castleguard.json says which is which."""


def _key_in(variable: str) -> bytes:
    from castleguard.config.job_model import parse_key
    from castleguard.errors import ConfigError

    if variable not in os.environ:
        # What is no name may be the key itself, which must not be shown.
        named = f"the variable {variable}" if variable.isidentifier() else "the variable of that name"
        raise ConfigError(f"{named} is not set: --new-key takes the name of the variable that holds the new key")
    return parse_key(os.environ[variable], variable)
