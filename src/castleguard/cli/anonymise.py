"""`castleguard anonymise IN -o OUT --schema schema.yaml --k 10 --l 3 --delay 1000`: one file into another."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from castleguard.errors import OutputError

FILE = click.Path(path_type=Path)


@click.command(short_help="Anonymise a file.")
@click.argument("input", type=FILE, metavar="IN")
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="OUT", help="File to write; its ending is its format."
)
@click.option("--schema", "schema_file", type=FILE, required=True, help="YAML file that gives every column its role.")
@click.option("--k", type=int, required=True, help="Distinct persons in every published group.")
@click.option("--l", type=int, help="Distinct values of every sensitive column in every group.  [default: 1]")
@click.option("--delay", type=int, required=True, help="Rows that may arrive before a row has to leave.")
@click.option("--max-clusters", type=int, help="Open clusters, CASTLE's beta.  [default: 50]")
@click.option("--loss-window", type=int, help="Clusters whose mean loss is the threshold, CASTLE's mu.  [default: 100]")
@click.option(
    "--mode",
    type=click.Choice(["strict", "paper"]),
    help="Keep the promise where the paper loses it, or do what the paper prints.  [default: strict]",
)
@click.option(
    "--reuse",
    type=click.Choice(["paper", "off"]),
    help="Whether a late row may join a group that was published before, or is merged.  [default: paper]",
)
@click.option(
    "--suppression",
    type=click.Choice(["root", "generalise", "drop"]),
    help="Publish a row that fits nowhere at the root, or drop it.  [default: root; generalise in paper mode]",
)
@click.option(
    "--order",
    type=click.Choice(["shuffled", "arrival", "input"]),
    help="Order of the published rows.  [default: shuffled; arrival in paper mode]",
)
@click.option(
    "--numbers",
    type=click.Choice(["bounds", "interval", "midpoint"]),
    help="A range as two columns, as one text, or as its middle.  [default: bounds]",
)
@click.option("--seed", type=int, help="Make the run repeatable: for tests and experiments only.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def anonymise(
    input: Path,
    output: Path,
    schema_file: Path,
    numbers: str | None,
    seed: int | None,
    overwrite: bool,
    quiet: bool,
    **policy: Any,
) -> None:
    """Read IN to its end and write what may be published to OUT.

    The ending of a file name says its format: .csv, .csv.gz, .jsonl, .jsonl.gz, .ndjson, .parquet, .arrow, .feather
    or .ipc. Columns that the schema does not declare are dropped. OUT appears when it is complete.
    """
    _check_output(input, output, overwrite)

    from castleguard.cli.progress import progress_bar
    from castleguard.cli.summary import summary
    from castleguard.config.schema_file import load_schema
    from castleguard.connectors.files import open_sink, open_source
    from castleguard.engine.policy import Castle
    from castleguard.pipeline import run
    from castleguard.stream import Anonymiser

    schema = load_schema(schema_file)
    castle = Castle(**_given(policy))
    stream = Anonymiser(schema, castle, **_given({"seed": seed, "numbers": numbers}))
    with closing(open_source(input, schema.columns)) as source:
        with progress_bar(source, quiet=quiet) as progress:
            run(source, stream, open_sink(output), progress=progress)
        if not quiet:
            click.echo(summary(stream.report(), stream.guarantee(), malformed=source.malformed))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given: defaults are kept in one place, which is not here."""
    return {name: value for name, value in options.items() if value is not None}


def _check_output(input: Path, output: Path, overwrite: bool) -> None:
    """Refuse to lose a file."""
    if not output.exists():
        return
    if input.exists() and os.path.samefile(input, output):
        raise OutputError(f"{output} is the input: choose another name for the output")
    if not overwrite and not output.is_dir():
        raise OutputError(f"{output} exists already: choose another name, or replace it with --overwrite")
