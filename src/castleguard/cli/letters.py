"""`castleguard letters job.yaml`: the rows that a job could not use, opened, for the eyes of its operator."""

from pathlib import Path

import click

from castleguard.cli.site_option import site_option


@click.command(short_help="Print a job's dead letters: raw personal values.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@site_option
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Another file of letters, such as one that was moved away, sealed with the same key.",
)
def letters(job_file: Path, name: str | None, file: Path | None) -> None:
    """Print the dead letters of the job in the file JOB, one JSON object per line, opened with the job's key if it has
    one. The job may be running; nothing is changed.

    THIS PRINTS PERSONAL VALUES, as they came, to standard output: rows that were not anonymised. Do not let them end up
    in a log, a ticket or the history of a terminal.
    """
    from castleguard.checkpoint.cipher import Cipher
    from castleguard.checkpoint.dead_letters import read_letters
    from castleguard.errors import ConfigError
    from castleguard.jobs.load import load

    job = load(job_file, site=name)
    if file is None:
        if job.spark is not None:
            raise ConfigError(f"{job.path}  is a job for Spark: rejected rows are in outcome=rejected of its output")
        if job.dead_letter is None:
            raise ConfigError(f"{job.path}  has no dead_letter section, so rejected rows are counted and not kept")
        file = job.dead_letter.path
        if not file.exists():
            click.echo(f"castleguard: there are no letters: {file} is not there, or was moved away", err=True)
            return
    key = None if job.checkpoint is None else job.checkpoint.key_bytes()
    for letter in read_letters(file, cipher=None if key is None else Cipher(key)):
        click.echo(letter)
