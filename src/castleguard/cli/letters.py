"""`castleguard letters job.yaml`: print the dead letters of a job, decrypted, for its operator."""

from pathlib import Path

import click

from castleguard.cli.file_options import FILE
from castleguard.cli.job_options import job_argument, site_option


@click.command(short_help="Print a job's dead letters: raw personal values.")
@job_argument
@site_option
@click.option(
    "--file", type=FILE, metavar="FILE", help="Read another file of dead letters, encrypted with the same key."
)
def letters(job_file: Path, name: str | None, file: Path | None) -> None:
    """Print the dead letters of the job in the file JOB, one JSON object per line, decrypted with the job's key if it
    has one. The job may be running; nothing is changed.

    THIS PRINTS RAW PERSONAL VALUES to standard output: rows that were not anonymised. Keep them out of logs, tickets
    and terminal histories.
    """
    from castleguard.checkpoint.cipher import Cipher
    from castleguard.checkpoint.dead_letters import read_letters
    from castleguard.errors import ConfigError
    from castleguard.jobs.load import load

    job = load(job_file, site=name)
    if file is None:
        if job.spark is not None:
            raise ConfigError(
                f"{job.path}  is a job for Spark, which has no dead letters: see outcome=rejected in its output"
            )
        if job.dead_letter is None:
            raise ConfigError(
                f"{job.path}  has no dead_letter section, so rejected rows are only counted: add "
                "dead_letter: {path: rejects.jsonl} to keep them"
            )
        file = job.dead_letter.path
        if not file.exists():
            click.echo(f"castleguard: no dead letters: {file} does not exist", err=True)
            return
    key = None if job.checkpoint is None else job.checkpoint.key_bytes()
    for letter in read_letters(file, cipher=None if key is None else Cipher(key)):
        click.echo(letter)
