"""`castleguard compare DATA --schema schema.yaml --k 10 --delay 1000`: Citadel and CASTLE against other methods."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.file_options import FILE, defaulted, json_option, schema_option, seed_option
from castleguard.cli.many_runs import read_table, warn_once

if TYPE_CHECKING:
    from castleguard.lab.side_by_side import Compared

_TITLES = ("loss", "publ. loss", "NCP", "discernib.", "groups", "suppressed", "rows/s")
_WIDTHS = (8, 12, 8, 14, 8, 12, 11)
_NAME = 36


@click.command(short_help="Compare Citadel and CASTLE with other methods on the same rows.")
@click.argument("data", type=FILE, metavar="DATA")
@schema_option
@click.option("--k", type=int, required=True, help="Distinct persons in every published group.")
@click.option("--delay", type=int, required=True, help="Rows that may arrive before a row must be published.")
@defaulted("--l", type=int, default=1, help="Distinct values of every sensitive column in every group.")
@defaulted("--sites", type=int, default=4, help="Number of sites, for sites-alone and dcastle-paper.")
@defaulted("--epsilon", type=float, default=1.0, help="Epsilon of a row, for laplace.")
@click.option(
    "--methods",
    metavar="A,B",
    help="Only these: citadel, citadel-narrow, castle, castle-paper, sites-alone, dcastle-paper, fads, mondrian, "
    "dynamic-group, laplace.",
)
@click.option(
    "--on-grid", is_flag=True, help="Widen the bounds of fads, mondrian and dynamic-group to the public grid."
)
@seed_option
@json_option
def compare(
    data: Path, schema_file: Path, methods: str | None, as_json: bool, k: int, delay: int, l: int, **options: Any
) -> None:
    """Publish the rows of DATA with several methods in memory, and print the loss of each, its promise, and the broken
    promises found in its output. Nothing is written: the gate does not check the output of other methods.

    "loss" covers all rows and counts a suppressed row as 1; "publ. loss" covers published rows only. A method that
    does not support the schema is listed with the reason.
    """
    from castleguard.config.schema_file import read_schema_file
    from castleguard.lab.harness import Options, make_task
    from castleguard.lab.side_by_side import choose
    from castleguard.lab.side_by_side import compare as compare_all

    chosen = choose([] if methods is None else [name.strip() for name in methods.split(",")])
    schema, csv = read_schema_file(schema_file)
    task = make_task(read_table(data, schema.columns, csv), schema, k=k, delay=delay, l=l, options=Options(**options))
    warn_once(but="the gate refused")  # the table shows those
    if as_json:
        click.echo(json.dumps([found.figures() for found in compare_all(task, chosen)], indent=2))
        return
    click.echo(f"{task.table.num_rows:,} rows, k={k}, l={l}, delay={delay:,}, seed={task.seed}\n")
    click.echo(
        "method".ljust(_NAME) + "".join(title.rjust(width) for title, width in zip(_TITLES, _WIDTHS, strict=True))
    )
    for found in compare_all(task, chosen):
        click.echo(lines(found))


def lines(found: "Compared") -> str:
    """Lines of the table for one method: figures, promise, and broken promises."""
    measured, name = found.measured, found.method.title
    if measured is None:
        return f"{name}\n  not possible: {found.refused}"
    cells = [
        _number(measured.loss, ".4f"),
        _number(measured.published_loss, ".4f"),
        _number(measured.ncp, ".4f"),
        _number(measured.discernibility, ","),
        _number(measured.groups, ","),
        f"{measured.suppressed:,}",
        _number(measured.rows_per_second, ",.0f"),
    ]
    notes = [f"promises {found.method.promise}", *measured.notes]
    if measured.error is not None:
        notes.append(f"published values are off by {measured.error:.4f} of their domain on average")
    broken = [f"{count:,} {what}" for what, count in measured.broken.items()]
    notes.append(f"FOUND: {'; '.join(broken)}" if broken else "no broken promise found")
    return "\n".join([_line(name, cells), *(f"  {note}" for note in notes)])


def _line(name: str, cells: Sequence[str]) -> str:
    return name.ljust(_NAME) + "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or not math.isfinite(value) else format(value, form)
