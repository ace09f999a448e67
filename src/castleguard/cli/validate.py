"""`castleguard validate job.yaml`: one checklist over the file and the world around it."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli.exit_codes import FAILED, TRY_AGAIN, USED_WRONGLY
from castleguard.cli.site_option import site_option
from castleguard.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from castleguard.jobs.check import Check

WIDTH = 100

_MARKS = {"good": ("✓", "green"), "bad": ("✗", "red"), "doubtful": ("!", "yellow")}


@click.command(short_help="Check a job file and the world around it.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@site_option
def validate(job_file: Path, name: str | None) -> None:
    """Check a job file: its keys, its schema, what its policy promises, paths, rights, columns, brokers, free disk.

    ✓ is as it must be, ! works but deserves a look, ✗ would stop the job. Nothing is changed and nothing is published.
    The exit code is 0 if there is no ✗, 2 if the file has a mistake, 75 if only something is away that may come back,
    and 1 otherwise.
    """
    from castleguard.config.places import check_places
    from castleguard.jobs.check import Check, check_job
    from castleguard.jobs.kept import promised
    from castleguard.jobs.load import load

    try:
        job = load(job_file, site=name)
        check_places(job)
    except ConfigError as exc:
        checks = [Check(line, "bad") for line in str(exc).splitlines()]
        _show(checks)
        raise click.exceptions.Exit(USED_WRONGLY) from None
    checks = []
    for check in check_job(job):
        checks.append(check._replace(what=job.mask(check.what), remedy=job.mask(check.remedy)))
    _show(checks)
    bad = [check for check in checks if check.state == "bad"]
    if bad:
        raise click.exceptions.Exit(TRY_AGAIN if all(check.passing for check in bad) else FAILED)
    if job.spark is not None:
        from castleguard.spark.job import prepare

        click.echo("\n" + prepare(job, allow_duplicates=True).guarantee.paragraphs())
        return
    try:
        guarantee = promised(job)
    except UnavailableError:  # the job is running: what it said at its start holds
        guarantee = job.policy.guarantee(job.schema, seeded=False)
    click.echo("\n" + guarantee.paragraphs())


def _show(checks: "list[Check]") -> None:
    for check in checks:
        mark, colour = _MARKS[check.state]
        lines = textwrap.wrap(check.what, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        click.echo(f"{click.style(mark, fg=colour)} " + "\n".join(lines))
        if check.remedy:
            click.echo(f"    -> {check.remedy}")
    counts = {state: sum(check.state == state for check in checks) for state in _MARKS}
    problems = f"{counts['bad']} problem{'' if counts['bad'] == 1 else 's'}"
    warnings = f", {counts['doubtful']} to look at" if counts["doubtful"] else ""
    click.echo(f"\n{problems}{warnings}")
