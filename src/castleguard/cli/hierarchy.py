"""`castleguard hierarchy COLUMN DATA --prefixes -o zip.csv`: make the file of a hierarchy from a column of data."""

from pathlib import Path
from typing import get_args

import click

from castleguard.cli.file_options import FILE, overwrite_option


def _numbers(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Lengths such as "1,3"; "all" is none."""
    if text is None or text == "all":
        return None if text is None else ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("lengths are whole numbers, separated by commas, or all") from None


def _parts(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    from castleguard.schema.tree_makers import DatePart

    if text is None:
        return None
    parts = tuple(part.strip() for part in text.split(","))
    if not set(parts) <= set(get_args(DatePart)):
        raise click.BadParameter(f"parts of dates are {', '.join(get_args(DatePart))}, separated by commas")
    return parts


@click.command(short_help="Make the file of a hierarchy from a column.")
@click.argument("column")
@click.argument("data", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="OUT", help="CSV file to write, leaf;parent;...;root."
)
@click.option("--prefixes", callback=_numbers, metavar="LENGTHS", help="Codes under their beginnings: 1,3 or all.")
@click.option("--dates", callback=_parts, metavar="PARTS", help="Dates under month, quarter, year, decade.")
@click.option("--bins", type=click.IntRange(min=2), metavar="N", help="Numbers under N bins of equally many rows.")
@click.option(
    "--frequent", type=click.IntRange(min=1), metavar="N", help="The N most frequent values; the rest is other."
)
@click.option("--lookup", type=FILE, help="CSV file with a value and what is above it in each row.")
@click.option(
    "--tree", type=FILE, help="YAML file with a nested mapping, such as {all: {north: [oslo], south: [rome]}}."
)
@overwrite_option
def hierarchy(column: str, data: Path, output: Path, overwrite: bool, **how: object) -> None:
    """Make a tree of the values of COLUMN in the file DATA, for `hierarchy: OUT` in a schema.

    Values that a table or a tree does not have are counted and put under "other". The tree lists the values of the
    data: protect the file like the data, or replace them by all values that are known without the data.
    """
    from castleguard.jobs.growing import Plan, grow
    from castleguard.jobs.propose.proposal import check_new

    given = {name: value for name, value in how.items() if value is not None}
    if len(given) != 1:
        raise click.UsageError(f"give exactly one of {', '.join(f'--{name}' for name in how)}")
    check_new(output, overwrite=overwrite)
    grown = grow(column, data, Plan(**given))  # type: ignore[arg-type]  # checked by the options
    grown.write(output)
    click.echo(f"{output}: {grown}")
