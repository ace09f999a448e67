"""`castleguard anonymise IN -o OUT --schema schema.yaml --k 10 --l 3 --delay 1000`: anonymise a file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.file_options import check_output, csv_input, csv_output, file_options, writing_options
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.connectors.base import Reader


@click.command(cls=PolicyCommand, short_help="Anonymise a file.")
@file_options
@click.option(
    "--numbers",
    type=click.Choice(["bounds", "interval", "midpoint"]),
    help="Publish a range as two columns, as one string or as its midpoint.  [default: bounds]",
)
@writing_options(quiet="Print no progress and no summary.")
def anonymise(
    input: Path,
    output: Path,
    schema_file: Path,
    csv_pairs: tuple[str, ...],
    algorithm: str,
    numbers: str | None,
    formulas: str | None,
    seed: int | None,
    overwrite: bool,
    quiet: bool,
    **policy: Any,
) -> None:
    """Anonymise the file IN and write the published rows to OUT.

    The file extension sets the format: .csv, .csv.gz, .jsonl, .jsonl.gz, .ndjson, .parquet, .arrow, .feather or .ipc.
    Columns that the schema does not declare are dropped. OUT appears only when it is complete. A file has no clock:
    for windows and waits in seconds, all rows arrive at the same time.
    """
    check_output(input, output, overwrite)
    csv = csv_output(output, formulas)

    from castleguard.cli.summary import summary, warn_if_empty
    from castleguard.config.schema_file import read_schema_file
    from castleguard.connectors.formats import open_reader, open_writer
    from castleguard.conversion import convert
    from castleguard.errors import ConfigError
    from castleguard.schema.published_text import unfit_text
    from castleguard.stream import Anonymiser

    schema, dialect = read_schema_file(schema_file)
    chosen = make_policy(algorithm, policy)
    stream = Anonymiser(schema, chosen, **_given({"seed": seed, "numbers": numbers}))
    found = unfit_text(schema, csv.unfit())
    if found is not None:
        raise ConfigError(
            f"{schema_file}  a spreadsheet would run {found} as a formula: rename it, or use --formulas escape"
        )
    stream.reject_unfit(csv.unfit())
    with closing(open_reader(input, schema.columns, csv=csv_input(input, csv_pairs, dialect))) as reader:
        with _progress_bar(reader, quiet=quiet) as progress:
            # A file has no clock: all rows arrive at once.
            convert(reader, stream, open_writer(output, csv=csv), now=0.0 if chosen.timed else None, progress=progress)
        if not quiet:
            errors = chosen.noise_errors(schema)
            click.echo(summary(stream.report(), stream.guarantee(), malformed=reader.malformed, errors=errors))
        warn_if_empty(stream.report(), malformed=reader.malformed)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; the defaults are those of Anonymiser."""
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _progress_bar(reader: "Reader", *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield a function to call with the number of rows of each batch; None without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0 if reader.fraction() is not None else None, rows=0, rate=0.0)

        def advance(batch_rows: int) -> None:
            state = bar.tasks[0]
            rows = state.fields["rows"] + batch_rows
            rate = rows / state.elapsed if state.elapsed else 0.0
            bar.update(task, completed=reader.fraction() or 0.0, rows=rows, rate=rate)

        yield advance
