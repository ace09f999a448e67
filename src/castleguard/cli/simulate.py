"""`castleguard simulate --sites 8 DATA --schema schema.yaml --k 10 --delay 1000`: several sites in one process."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from castleguard.cli.file_options import check_output, csv_output, formulas_option
from castleguard.cli.many_runs import read_table, warn_once
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.algorithms.dcastle.policy import Dcastle
    from castleguard.sites.ways import Way

_FILE = click.Path(path_type=Path)
_TITLES = ("information loss", "published", "suppressed", "messages", "bytes")
_WIDTHS = (17, 12, 12, 10, 14)


@click.command(
    cls=PolicyCommand,
    only="dcastle",
    # Modes and thresholds are compared, a file has no clock, and dcastle refuses criteria about distributions.
    without=("sites", "mode", "share_threshold", "max_wait", "l_per", "diversity", "c", "closeness", "reading"),
    short_help="Try what several sites gain by publishing together.",
)
@click.argument("data", type=_FILE, metavar="DATA")
@click.option("--sites", type=click.IntRange(2, 1000), required=True, help="How many; rows go to them in turn.")
@click.option("--schema", "schema_file", type=_FILE, required=True, help="YAML file that gives every column its role.")
@click.option("-o", "--output", type=_FILE, metavar="OUT", help="Write what the strict run publishes, of all sites.")
@formulas_option
@click.option("--seed", type=int, default=0, show_default=True, help="Another one makes other random choices.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
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
    """Deal the rows of the file DATA out to several sites in this process, and print what becomes of them: sites that
    publish together, one site with all rows, and sites that do not talk.

    All parameters are the same for all of them. The delay counts rows of a site, so that the one with all rows has less
    time. A suppressed row counts as a loss of 1. The choices follow from the seed: OUT is for experiments, and is not
    to be published. `castleguard compare --methods dcastle-paper` runs the protocol as its paper prints it.
    """
    if output is None and formulas is not None:
        raise click.UsageError("--formulas is for an OUT that is CSV")
    if output is not None:
        check_output(data, output, overwrite)
    chosen = cast("Dcastle", make_policy("dcastle", {**policy, "sites": sites}))

    from castleguard.config.schema_file import load_schema
    from castleguard.connectors.formats import open_writer
    from castleguard.sites.ways import compare

    schema = load_schema(schema_file)
    table = read_table(data, schema.columns)
    click.echo(f"{table.num_rows:,} rows of {table.nbytes:,} bytes, dealt out to {sites} sites\n")
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
    """One way of publishing as a line of the table, with its note on a second line."""
    loss = "-" if found.information_loss is None else f"{found.information_loss:.4f}"
    numbers = (found.published, found.suppressed, found.messages, found.bytes)
    cells = [loss, *(f"{number:,}" for number in numbers)]
    text = "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)) + f"  {found.name}"
    return f"{text}\n{' ' * sum(_WIDTHS)}  ({found.note})" if found.note else text
