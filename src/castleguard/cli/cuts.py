"""`castleguard cuts PUBLISHED --schema schema.yaml --shards 8 --output cuts.json`: public cut points between shards."""

from pathlib import Path

import click

from castleguard.cli.file_options import (
    FILE,
    check_output,
    defaulted,
    overwrite_option,
    published_formulas_option,
    schema_option,
)


@click.command(short_help="Choose public cut points between shards.")
@click.argument("published", type=FILE, nargs=-1, metavar="[PUBLISHED]...")
@schema_option
@click.option("--shards", type=click.IntRange(min=1), required=True, metavar="N", help="Number of shards.")
@click.option("-o", "--output", type=FILE, required=True, metavar="OUT", help="JSON file to write.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="Quasi-identifier that may be cut; can be repeated.  [default: all except timestamps]",
)
@defaulted(
    "--numbers",
    type=click.Choice(["bounds", "interval", "midpoint"]),
    default="bounds",
    help="Form of the published ranges: two columns, one string or the midpoint.",
)
@published_formulas_option
@overwrite_option
def cuts(
    published: tuple[Path, ...],
    schema_file: Path,
    shards: int,
    output: Path,
    columns: tuple[str, ...],
    numbers: str,
    formulas: str | None,
    overwrite: bool,
) -> None:
    """Choose where to cut the quasi-identifiers into N shards so that similar rows go to the same shard.

    PUBLISHED are files, or folders of files, that castleguard published earlier with this schema: the shards then get
    about the same number of rows each, and few published groups are cut. Without PUBLISHED the declared domain is
    halved repeatedly. Original rows are never read, because the output reveals the cut points.
    """
    from castleguard.jobs.cutting import choose_cuts
    from castleguard.jobs.load import load_schema
    from castleguard.shards.cuts_file import write_cuts

    for path in published:
        check_output(path, output, overwrite)
    check_output(schema_file, output, overwrite)
    schema = load_schema(schema_file)
    chosen = choose_cuts(
        published,
        schema,
        shards,
        columns=columns or None,
        numbers=numbers,  # type: ignore[arg-type]  # one of the choices
        formulas=formulas,
    )
    click.echo(str(chosen))
    write_cuts(chosen.cuts, schema, output)
    click.echo(f"written to {output}")
