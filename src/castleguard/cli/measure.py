"""`castleguard measure ORIGINAL PUBLISHED --schema schema.yaml`: measure the utility of a published file."""

import json
from pathlib import Path
from typing import Any

import click

from castleguard.cli.file_options import (
    FILE,
    defaulted,
    json_option,
    link_option,
    published_formulas_option,
    schema_option,
)


@click.command(short_help="Measure the utility of a published file.")
@click.argument("original", type=FILE, metavar="ORIGINAL")
@click.argument("published", type=FILE, metavar="PUBLISHED")
@schema_option
@link_option
@click.option("--k", type=click.IntRange(min=1), help="The promised k, to judge group sizes.")
@defaulted(
    "--queries", type=click.IntRange(min=0), default=5000, help="Number of count queries per window; 0 skips them."
)
@defaulted("--selectivity", type=float, default=0.1, help="Share of rows that a query selects.")
@click.option("--window", type=click.IntRange(min=1), help="Rows per window.  [default: all rows]")
@defaulted("--sample-rate", type=float, default=1.0, help="Share of rows that was sampled.")
@click.option(
    "--label", metavar="COLUMN", help="Train classifiers to predict this column; needs --link and scikit-learn."
)
@defaulted("--runs", type=click.IntRange(min=1), default=3, help="Training runs per classifier.")
@defaulted("--seed", type=click.IntRange(min=0), default=0, help="Seed of queries and training.")
@published_formulas_option
@json_option
def measure(original: Path, published: Path, schema_file: Path, as_json: bool, **options: Any) -> None:
    """Compare a PUBLISHED file with its ORIGINAL and print how much utility was lost: detail, counts, single numbers,
    and the accuracy of classifiers.

    Without --link, measures that need to match rows are skipped, and the last lines list them. The figures depend on
    the original rows: do not publish them.
    """
    from castleguard.config.schema_file import read_schema_file
    from castleguard.jobs.evaluation import measure as measure_files

    schema, csv = read_schema_file(schema_file)
    found = measure_files(original, published, schema, csv=csv, **options)
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else found)
