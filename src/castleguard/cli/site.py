"""`castleguard site job.yaml --name berlin`: one site of a job that several publish together."""

from pathlib import Path

import click

from castleguard.cli.run import run_job


@click.command(short_help="Run one site of a job that has several.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@click.option("--name", required=True, metavar="SITE", help="Which one: a name of sites.names in JOB.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object per line on standard error, for every start, commit, trouble and end.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def site(job_file: Path, name: str, log_format: str, quiet: bool) -> None:
    """Run the site SITE of the job in the file JOB until its source ends or it is told to stop.

    The same file stands at every site; ${SITE} in it is the name. Each site publishes its own rows, and some together
    with rows of others. It works on alone while the others, or the relay, are away. SIGTERM commits and stops, as with
    `castleguard run`.
    """
    run_job(job_file, site=name, log_format=log_format, quiet=quiet)
