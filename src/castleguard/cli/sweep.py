"""`castleguard sweep DATA --schema schema.yaml --k 5,10,20 --delay 500,1000 -o OUT`: which parameters to take."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.judge.sweep.folder import Folder
    from castleguard.judge.sweep.run import Sweep

_FILE = click.Path(path_type=Path)


@click.command(cls=PolicyCommand, lists=True, short_help="Try many parameters on a sample, and recommend some.")
@click.argument("data", type=_FILE, metavar="DATA")
@click.option("--schema", "schema_file", type=_FILE, required=True, help="YAML file that gives every column its role.")
@click.option("-o", "--output", type=_FILE, required=True, metavar="OUT", help="Folder for the results.")
@click.option(
    "--sample", type=click.IntRange(min=1), default=20_000, show_default=True, help="Rows to try on, the first ones."
)
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of every setting.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another one makes other random choices.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: as many as there are cores]")
@click.option("--max-loss", type=click.FloatRange(0, 1), help="Recommend nothing that loses more.")
@click.option("--max-risk", type=click.FloatRange(0), help="Recommend no larger risk: mean 1/persons, or epsilon.")
@click.option("--overwrite", is_flag=True, help="Start anew if OUT has the results of another sweep.")
def sweep(
    data: Path,
    schema_file: Path,
    output: Path,
    algorithm: str,
    sample: int,
    runs: int,
    seed: int,
    jobs: int | None,
    max_loss: float | None,
    max_risk: float | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Publish the first rows of the file DATA with every combination of the given parameters, in memory, and write to
    the folder OUT what each costs and protects: a table, a picture and a recommendation.

    Any option of the policy takes several values: --k 5,10,20. What a combination publishes is checked and thrown away.
    Started again after an interruption, the same command does only what is left.
    """
    from castleguard import __version__
    from castleguard.cli import Interrupted
    from castleguard.config.schema_file import load_schema
    from castleguard.judge.publishing import quiet
    from castleguard.judge.sample import read_sample
    from castleguard.judge.sweep.advice import Limits
    from castleguard.judge.sweep.folder import Folder, identity_of_file
    from castleguard.judge.sweep.grid import make_grid
    from castleguard.judge.sweep.measure import Ground
    from castleguard.judge.sweep.run import recommend
    from castleguard.workers import cores

    lists = {name: values for name, values in _in_order(options).items() if values is not None}
    schema = load_schema(schema_file)
    grid = make_grid(lists, lambda given: make_policy(algorithm, given), schema)
    identity = {
        "version": __version__,
        "data": identity_of_file(data),
        "schema": schema.fingerprint(),
        "algorithm": algorithm,
        "parameters": lists,
        "sample": sample,
        "runs": runs,
        "seed": seed,
    }
    ground = Ground(read_sample(data, schema, sample), schema, tuple(range(seed, seed + runs)))
    with closing(Folder(output, identity, overwrite=overwrite)) as folder, quiet():
        if folder.done:
            click.echo(f"{len(folder.done):,} of {len(grid.settings):,} settings were done before.", err=True)
        try:
            with _bar(len(grid.settings), len(folder.done)) as progress:
                found = recommend(
                    ground, grid, folder, limits=Limits(loss=max_loss, risk=max_risk), jobs=jobs or cores(),
                    progress=progress,
                )  # fmt: skip
        except Interrupted as exc:
            exc.words = "interrupted; the settings that are done are kept: start it again for the others"
            _forget(exc)
            raise
        about = {
            "data": f"the first {ground.sample.num_rows:,} rows of {data.name}",
            "algorithm": algorithm,
            **{name.replace("_", " "): ", ".join(map(str, values)) for name, values in lists.items()},
            "runs of each setting": str(runs),
            "settings": f"{len(grid.settings)}, and {len(grid.refused)} that are refused",
        }
        _write(folder, found, about)
    _tell(output, found)


def _in_order(options: dict[str, Any]) -> dict[str, Any]:
    """The parameters that people speak of first stand first; the delay runs fastest."""
    first = [name for name in ("mode", "epsilon", "phi", "sample_rate", "k", "l") if name in options]
    others = [name for name in options if name not in (*first, "delay")]
    return {name: options[name] for name in (*first, *others, "delay")}


@contextmanager
def _bar(settings: int, done: int) -> Iterator[Callable[[], None] | None]:
    """A bar on a terminal; None if nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("settings"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=settings, completed=done)
        yield lambda: bar.advance(task)


def _forget(exc: BaseException) -> None:
    """Let go of the pool of processes, which the traceback still holds: its locks would be reported as forgotten."""
    import gc
    import traceback

    at: BaseException | None = exc
    while at is not None:
        traceback.clear_frames(at.__traceback__)
        at = at.__context__
    gc.collect()


def _write(folder: "Folder", found: "Sweep", about: dict[str, str]) -> None:
    """The table, the picture if there is something to draw with, and the report."""
    from castleguard.judge.sweep.folder import PICTURE, REPORT, TABLE
    from castleguard.judge.sweep.picture import draw
    from castleguard.judge.sweep.table import as_csv, as_report

    weighed, grid, advice = found.weighed, found.grid, found.advice
    folder.write(TABLE, as_csv(weighed, grid))
    drawn = True
    try:
        title = f"{about['algorithm']} on {about['data']}"
        folder.write(PICTURE, draw(weighed, grid, advice.chosen, title=title))
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.startswith("matplotlib"):
            raise
        drawn = False
        click.echo("no picture: it needs matplotlib, pip install 'castleguard[plot]'", err=True)
    folder.write(REPORT, as_report(about, weighed, grid, advice, picture=drawn))


def _tell(output: Path, found: "Sweep") -> None:
    """The Pareto set, the recommendation, and what is to be known about it."""
    from castleguard.judge.sweep.table import rows_of

    weighed, grid, advice = found.weighed, found.grid, found.advice
    table = rows_of(weighed, grid, advice.chosen, only_best=True)
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    for row in table:
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    star = "recommended" if advice.met else "closest to what was asked"
    click.echo(f"\n{len(weighed.best)} of {len(weighed.outcomes)} settings are beaten by none; * is {star}.\n")
    for sentence in advice.sentences:
        click.echo(sentence)
    if grid.refused:
        click.echo(f"Combinations that are refused: {len(grid.refused)}; the report says why.")
    for warning in advice.warnings:
        click.echo(f"note: {warning}")
    click.echo(f"All settings: {output}/report.md, results.csv, picture.png")
