"""`castleguard validate job.yaml`: check a job file and its environment."""

from pathlib import Path

import click

from castleguard.cli.exit_codes import FAILED, TRY_AGAIN, WRONG_USAGE
from castleguard.cli.job_options import job_argument, site_option

_COLOURS = {"good": "green", "bad": "red", "doubtful": "yellow"}


@click.command(short_help="Check a job file and its environment before it runs.")
@job_argument
@site_option
def validate(job_file: Path, name: str | None) -> None:
    """Check the job in the file JOB: keys, schema, policy, paths, permissions, columns, brokers and free disk space.

    ✓ passed, ! works but needs attention, ✗ would stop the job. Nothing is changed or published. The exit code is 0
    without ✗, 2 for a mistake in the file, 75 if every ✗ is an unavailable service that may return, and 1 otherwise.
    """
    from castleguard.jobs.check.job_checks import check_file

    found = check_file(job_file, site=name)
    for check in found:
        mark, text = str(check)[0], str(check)[1:]
        click.echo(click.style(mark, fg=_COLOURS[check.status]) + text)
    click.echo(f"\n{found.summary}")
    if not found.readable:
        raise click.exceptions.Exit(WRONG_USAGE)
    if not found.ok:
        raise click.exceptions.Exit(TRY_AGAIN if found.temporary else FAILED)
    assert found.guarantee is not None
    click.echo("\n" + found.guarantee.paragraphs())
