"""`castleguard simulate --sites 8 DATA --schema schema.yaml --k 10 --delay 1000`: simulate several sites."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from castleguard.cli.file_options import (
    FILE,
    check_output,
    csv_output,
    formulas_option,
    overwrite_option,
    schema_option,
    seed_option,
)
from castleguard.cli.many_runs import read_table, warn_once
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.algorithms.dcastle.policy import Dcastle
    from castleguard.sites.ways import Way

_TITLES = ("information loss", "published", "suppressed", "messages", "bytes")
_WIDTHS = (17, 12, 12, 10, 14)


@click.command(
    cls=PolicyCommand,
    only="dcastle",
    # The command compares modes and thresholds itself; a file has no clock; dcastle refuses distribution criteria.
    without=("sites", "mode", "share_threshold", "max_wait", "l_per", "diversity", "c", "closeness", "reading"),
    short_help="Simulate several sites that publish together.",
)
@click.argument("data", type=FILE, metavar="DATA")
@click.option("--sites", type=click.IntRange(2, 1000), required=True, help="Number of sites; rows go to them in turn.")
@schema_option
@click.option(
    "-o", "--output", type=FILE, metavar="OUT", help="Write the rows that all sites publish in the strict run."
)
@formulas_option
@seed_option
@overwrite_option
def simulate(
    data: Path,
    sites: int,
    schema_file: Path,
    output: Path | None,
    formulas: str | None,
    seed: int,
    overwrite: bool,
    **policy: Any,
) -> None:
    """Distribute the rows of DATA to several simulated sites, and compare sites that publish together, one site with
    all rows, and sites that do not cooperate.

    All of them use the same parameters. The delay counts rows of a site, so the site with all rows has less time. A
    suppressed row counts as a loss of 1. The seed makes all random choices predictable: OUT is for experiments only;
    do not publish it. `castleguard compare --methods dcastle-paper` runs the protocol as printed in its paper.
    """
    if output is None and formulas is not None:
        raise click.UsageError("--formulas needs --output with a CSV file")
    if output is not None:
        check_output(data, output, overwrite)
    chosen = cast("Dcastle", make_policy("dcastle", {**policy, "sites": sites}))

    from castleguard.config.schema_file import read_schema_file
    from castleguard.connectors.formats import open_writer
    from castleguard.sites.ways import compare

    schema, csv = read_schema_file(schema_file)
    table = read_table(data, schema.columns, csv)
    click.echo(f"{table.num_rows:,} rows ({table.nbytes:,} bytes), distributed to {sites} sites\n")
    click.echo("".join(title.rjust(width) for title, width in zip(_TITLES, _WIDTHS, strict=True)))
    warn_once()
    for found in compare(table, schema, chosen, seed=seed):
        click.echo(line(found))
        if output is not None and found.output is not None:
            writer = open_writer(output, csv=csv_output(output, formulas))
            try:
                writer.write(found.output)
                writer.close()
            except BaseException:
                writer.abort()
                raise


def line(found: "Way") -> str:
    """One line of the table, with its note on a second line."""
    loss = "-" if found.information_loss is None else f"{found.information_loss:.4f}"
    numbers = (found.published, found.suppressed, found.messages, found.bytes)
    cells = [loss, *(f"{number:,}" for number in numbers)]
    text = "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)) + f"  {found.name}"
    return f"{text}\n{' ' * sum(_WIDTHS)}  ({found.note})" if found.note else text
