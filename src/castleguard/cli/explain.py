"""`castleguard explain job.yaml`: describe what a job does and promises."""

from pathlib import Path

import click

from castleguard.cli.job_options import job_argument, site_option


@click.command(short_help="Explain what a job does and promises.")
@job_argument
@site_option
def explain(job_file: Path, name: str | None) -> None:
    """Explain the job in the file JOB: the output of each column, the promise, delay and memory, and what happens on a
    restart, to bad rows and at the end. It reads the job file and, if the job has run, its checkpoint; no data.
    """
    from castleguard.jobs.explain.explanation import explain_job
    from castleguard.jobs.load import load

    click.echo(explain_job(load(job_file, site=name)))
