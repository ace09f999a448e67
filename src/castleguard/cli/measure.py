"""`castleguard measure ORIGINAL PUBLISHED --schema schema.yaml`: what a published file is still good for."""

import json
from pathlib import Path
from typing import Any

import click

from castleguard.cli.file_options import published_formulas_option

_FILE = click.Path(path_type=Path)


@click.command(short_help="Measure what a published file is still good for.")
@click.argument("original", type=_FILE, metavar="ORIGINAL")
@click.argument("published", type=_FILE, metavar="PUBLISHED")
@click.option("--schema", "schema_file", type=_FILE, required=True, help="YAML file that gives every column its role.")
@click.option("--link", metavar="COLUMN", help="A column of both files that numbers the original rows.")
@click.option("--k", type=click.IntRange(min=1), help="What was promised, to judge the size of groups by.")
@click.option("--queries", type=click.IntRange(min=0), default=5000, show_default=True, help="Per window; 0: none.")
@click.option("--selectivity", type=float, default=0.1, show_default=True, help="Share of rows that a query counts.")
@click.option("--window", type=click.IntRange(min=1), help="Rows of a window.  [default: all rows]")
@click.option(
    "--sample-rate", type=float, default=1.0, show_default=True, help="Share of rows that was sampled at all."
)
@click.option("--label", metavar="COLUMN", help="Train classifiers to name it; needs --link and scikit-learn.")
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Trainings of each classifier.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of queries and trainings.")
@published_formulas_option
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def measure(original: Path, published: Path, schema_file: Path, as_json: bool, **options: Any) -> None:
    """Put a PUBLISHED file beside its ORIGINAL, and print how much of it is lost for whoever uses it: detail, counts,
    single numbers, and what a classifier can learn.

    Without --link, what needs to know which row became which is left out, and the last lines say so. The figures
    depend on the original rows: they are for whoever has those, and not to be published.
    """
    from castleguard.jobs.judging import measure as measure_files
    from castleguard.jobs.load import load_schema

    found = measure_files(original, published, load_schema(schema_file), **options)
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else found)
