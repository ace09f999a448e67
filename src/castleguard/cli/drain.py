"""`castleguard drain job.yaml`: publish what is pending and end the job, so that it can be changed."""

from pathlib import Path

import click


@click.command(short_help="Flush a job and end it.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@click.option("--allow-duplicates", is_flag=True, help="Let a sink get noisy rows twice after a crash.")
@click.option("-q", "--quiet", is_flag=True, help="No summary.")
def drain(job_file: Path, allow_duplicates: bool, quiet: bool) -> None:
    """Publish what the stopped job in the file JOB still holds, as at the end of its stream.

    The way to change k, the schema or the version: drain with the old file and the old version, then run with the new
    ones. The next run begins a new stream where this one ended. A job that is running has to be stopped first.
    """
    from castleguard.assemble import load, make_job
    from castleguard.cli.run import closing_words, say_at_end
    from castleguard.errors import ConfigError

    job = load(job_file)
    if job.checkpoint is None:
        raise ConfigError(f"{job.path}  has no checkpoint, so that nothing is kept that could be drained")
    made = make_job(job, allow_duplicates=allow_duplicates)
    outcome = made.drain()
    if not quiet:
        say_at_end(job, closing_words(made, outcome))
