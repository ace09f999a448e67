"""`castleguard validate job.yaml`: one checklist over the file and the world around it."""

from pathlib import Path

import click

from castleguard.cli.exit_codes import FAILED, TRY_AGAIN, USED_WRONGLY
from castleguard.cli.site_option import site_option

_COLOURS = {"good": "green", "bad": "red", "doubtful": "yellow"}


@click.command(short_help="Check a job file and the world around it.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@site_option
def validate(job_file: Path, name: str | None) -> None:
    """Check a job file: its keys, its schema, what its policy promises, paths, rights, columns, brokers, free disk.

    ✓ is as it must be, ! works but deserves a look, ✗ would stop the job. Nothing is changed and nothing is published.
    The exit code is 0 if there is no ✗, 2 if the file has a mistake, 75 if only something is away that may come back,
    and 1 otherwise.
    """
    from castleguard.jobs.check.job_checks import check_file

    found = check_file(job_file, site=name)
    for check in found:
        mark, text = str(check)[0], str(check)[1:]
        click.echo(click.style(mark, fg=_COLOURS[check.status]) + text)
    click.echo(f"\n{found.summary}")
    if not found.readable:
        raise click.exceptions.Exit(USED_WRONGLY)
    if not found.ok:
        raise click.exceptions.Exit(TRY_AGAIN if found.temporary else FAILED)
    assert found.guarantee is not None
    click.echo("\n" + found.guarantee.paragraphs())
