"""Arguments and options of the commands that take a job file."""

import click

from castleguard.cli.file_options import FILE, defaulted

job_argument = click.argument("job_file", type=FILE, metavar="JOB")

site_option = click.option("--name", metavar="SITE", help="Name of the site, for a job with several sites.")

log_format_option = defaulted(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json writes starts, commits, problems and the end to standard error, one object per line.",
)

duplicates_option = click.option(
    "--allow-duplicates", is_flag=True, help="Accept that the sink may get noisy rows twice after a crash."
)
