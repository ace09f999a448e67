"""`castleguard explain job.yaml`: what the job will do, in plain words."""

from pathlib import Path

import click

from castleguard.cli.site_option import site_option


@click.command(short_help="Say in plain words what a job does and promises.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@site_option
def explain(job_file: Path, name: str | None) -> None:
    """Say what each column becomes, what is promised, what delay and memory to expect, and what happens on a restart,
    to bad rows and at the end. It reads the job file and, if the job has run, what its checkpoint says of earlier
    epochs; no data.
    """
    from castleguard.jobs.explain.explanation import explain_job
    from castleguard.jobs.load import load

    click.echo(explain_job(load(job_file, site=name)))
