"""`castleguard anonymise IN -o OUT --schema schema.yaml --k 10 --l 3 --delay 1000`: one file into another."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from castleguard.cli.file_options import check_output, csv_output, file_options, formulas_option
from castleguard.cli.policy_options import PolicyCommand, make_policy


@click.command(cls=PolicyCommand, short_help="Anonymise a file.")
@file_options
@click.option(
    "--numbers",
    type=click.Choice(["bounds", "interval", "midpoint"]),
    help="A range as two columns, as one text, or as its middle.  [default: bounds]",
)
@formulas_option
@click.option("--seed", type=int, help="Make the run repeatable: for tests and experiments only.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def anonymise(
    input: Path,
    output: Path,
    schema_file: Path,
    algorithm: str,
    numbers: str | None,
    formulas: str | None,
    seed: int | None,
    overwrite: bool,
    quiet: bool,
    **policy: Any,
) -> None:
    """Read IN to its end and write what may be published to OUT.

    The ending of a file name says its format: .csv, .csv.gz, .jsonl, .jsonl.gz, .ndjson, .parquet, .arrow, .feather
    or .ipc. Columns that the schema does not declare are dropped. OUT appears when it is complete. A file has no clock:
    windows and waits of seconds see all of it at one moment.
    """
    check_output(input, output, overwrite)
    csv = csv_output(output, formulas)

    from castleguard.cli.progress import progress_bar
    from castleguard.cli.summary import summary, warn_if_empty
    from castleguard.config.schema_file import load_schema
    from castleguard.connectors.formats import open_reader, open_writer
    from castleguard.conversion import convert
    from castleguard.errors import ConfigError
    from castleguard.schema.published_text import unfit_text
    from castleguard.stream import Anonymiser

    schema = load_schema(schema_file)
    chosen = make_policy(algorithm, policy)
    stream = Anonymiser(schema, chosen, **_given({"seed": seed, "numbers": numbers}))
    found = unfit_text(schema, csv.unfit())
    if found is not None:
        raise ConfigError(
            f"{schema_file}  a spreadsheet would run {found} as a formula: rename it, or choose --formulas escape"
        )
    stream.reject_unfit(csv.unfit())
    with closing(open_reader(input, schema.columns)) as reader:
        with progress_bar(reader, quiet=quiet) as progress:
            # A file has no clock: all of its rows arrive at once.
            convert(reader, stream, open_writer(output, csv=csv), now=0.0 if chosen.timed else None, progress=progress)
        if not quiet:
            click.echo(summary(stream.report(), stream.guarantee(), malformed=reader.malformed))
        warn_if_empty(stream.report(), malformed=reader.malformed)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given: defaults are kept in one place, which is not here."""
    return {name: value for name, value in options.items() if value is not None}
