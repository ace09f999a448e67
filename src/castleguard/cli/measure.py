"""`castleguard measure ORIGINAL PUBLISHED --schema schema.yaml`: what a published file is still good for."""

import json
import math
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.file_options import published_formulas_option

if TYPE_CHECKING:
    from castleguard.judge.measure.utility import Figure, Utility

_FILE = click.Path(path_type=Path)
_WIDTH = 100
_MOST_DIGITS = 1e6


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
    from castleguard.config.schema_file import load_schema
    from castleguard.jobs.publication import read_original, read_published
    from castleguard.judge.measure.learning import Learning
    from castleguard.judge.measure.queries import Workload
    from castleguard.judge.measure.utility import Asked, measure_utility

    link, seed = options["link"], options["seed"]
    chosen = {name: options[name] for name in ("selectivity", "queries", "window", "seed", "sample_rate")}
    asked = Asked(
        link=link,
        k=options["k"],
        workload=Workload(**chosen) if options["queries"] else None,
        label=options["label"],
        learning=Learning(runs=options["runs"], seed=seed),
    )
    schema = load_schema(schema_file)
    before = read_original(original, list(dict.fromkeys([*schema.columns, *([link] if link else [])])))
    found = measure_utility(read_published(published, options["formulas"]).rows, before, schema, asked)
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else as_text(found))


def as_text(found: "Utility") -> str:
    """The figures for a reader, section by section, each with what it means."""
    names = max(len(figure.name) for figure in found.figures)
    values = max(len(_number(figure)) for figure in found.figures)
    lines: list[str] = []
    for section, figures in groupby(found.figures, key=lambda figure: figure.section):
        lines += ["", section] if lines else [section]
        said: set[str] = set()
        for each in figures:
            # What stands above already is not said again for every column.
            meaning = "" if each.meaning in said else each.meaning
            said.add(each.meaning)
            lines.append(f"  {each.name:<{names}}  {_number(each):>{values}}  {meaning}".rstrip())
    for title, sentences in (("to know", found.notes), ("left out", found.left_out)):
        if sentences:
            lines += ["", title]
            lines += [click.wrap_text(sentence, _WIDTH, "  ", "    ") for sentence in sentences]
    return "\n".join(lines)


def _number(figure: "Figure") -> str:
    if isinstance(figure.value, int):
        return f"{figure.value:,}"
    if math.isnan(figure.value):
        return "-"
    spread = "" if math.isnan(figure.deviation) else f" ± {figure.deviation:.4f}"
    return (f"{figure.value:.3e}" if figure.value >= _MOST_DIGITS else f"{figure.value:.4f}") + spread
