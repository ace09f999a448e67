"""Arguments and options of the commands that take a job file."""

from pathlib import Path

import click

job_argument = click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")

site_option = click.option("--name", metavar="SITE", help="Name of the site, for a job with several sites.")

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json writes starts, commits, problems and the end to standard error, one object per line.",
)

duplicates_option = click.option(
    "--allow-duplicates", is_flag=True, help="Accept that the sink may get noisy rows twice after a crash."
)
