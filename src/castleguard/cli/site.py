"""`castleguard site job.yaml --name berlin`: run one site of a job with several sites."""

from pathlib import Path

import click

from castleguard.cli.job_options import job_argument, log_format_option
from castleguard.cli.run import run_job


@click.command(short_help="Run one site of a job with several sites.")
@job_argument
@click.option("--name", required=True, metavar="SITE", help="Name of the site, from sites.names in JOB.")
@log_format_option
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")
def site(job_file: Path, name: str, log_format: str, quiet: bool) -> None:
    """Run the site SITE of the job in the file JOB until its source ends or a signal stops it.

    Every site uses the same file, in which ${SITE} is the name of the site. Each site publishes its own rows, some of
    them in groups with rows of other sites. While the other sites or the relay are unavailable, it publishes alone.
    SIGTERM commits and stops, as with `castleguard run`.
    """
    run_job(job_file, site=name, log_format=log_format, quiet=quiet)
