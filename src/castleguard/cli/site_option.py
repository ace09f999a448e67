"""The option that says which site of a job is meant."""

import click

site_option = click.option("--name", metavar="SITE", help="Which site, of a job that has several.")
