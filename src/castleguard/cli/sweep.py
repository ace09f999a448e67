"""`castleguard sweep DATA --schema schema.yaml --k 5,10,20 --delay 500,1000 -o OUT`: search for parameters."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from castleguard.cli.file_options import FILE, defaulted, schema_option, seed_option
from castleguard.cli.policy_options import PolicyCommand, make_policy

_INTERRUPTED = "interrupted; finished settings are kept: run the same command again to finish"


@click.command(cls=PolicyCommand, lists=True, short_help="Try many parameters on a sample and recommend one setting.")
@click.argument("data", type=FILE, metavar="DATA")
@schema_option
@click.option("-o", "--output", type=FILE, required=True, metavar="OUT", help="Folder for the results.")
@defaulted(
    "--sample", type=click.IntRange(min=1), default=20_000, help="Number of rows to use, from the start of DATA."
)
@defaulted("--runs", type=click.IntRange(min=1), default=1, help="Runs per setting.")
@seed_option
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one per core]")
@click.option("--max-loss", type=click.FloatRange(0, 1), help="Largest information loss to recommend.")
@click.option("--max-risk", type=click.FloatRange(0), help="Largest risk to recommend: mean of 1/persons, or epsilon.")
@click.option("--overwrite", is_flag=True, help="Replace the results of another sweep in OUT.")
def sweep(
    data: Path,
    schema_file: Path,
    output: Path,
    algorithm: tuple[str, ...],
    sample: int,
    runs: int,
    seed: int,
    jobs: int | None,
    max_loss: float | None,
    max_risk: float | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Publish the first rows of DATA with every combination of the given parameters, in memory, and write a table, a
    chart and a recommendation to the folder OUT.

    Every parameter takes several values: --k 5,10,20. So does --algorithm, with parameters that all of them have. The
    published rows are checked and discarded. Run the same command again after an interruption to finish the sweep.
    """
    from castleguard.cli.signals import Interrupted, interruption_message
    from castleguard.config.schema_file import read_schema_file
    from castleguard.jobs.sweeping import plan_sweep
    from castleguard.judge.sweep.advice import Limits
    from castleguard.judge.sweep.folder import Folder

    lists = {name: values for name, values in _in_order(options).items() if values is not None}
    schema, csv = read_schema_file(schema_file)
    plan = plan_sweep(
        data,
        schema,
        algorithm,
        lists,
        make_policy,
        sample=sample,
        seeds=range(seed, seed + runs),
        csv=csv,
    )
    settings = len(plan.grid.settings)
    with closing(Folder(output, plan.identity, overwrite=overwrite)) as folder, interruption_message(_INTERRUPTED):
        if folder.done:
            click.echo(f"{len(folder.done):,} of {settings:,} settings are already done.", err=True)
        try:
            with _bar(settings, len(folder.done)) as progress:
                found = plan.run(folder, limits=Limits(loss=max_loss, risk=max_risk), jobs=jobs, progress=progress)
        except Interrupted as exc:
            _release_frames(exc)
            raise
        if not found.write(folder):
            click.echo("no picture.png: install matplotlib with pip install 'castleguard[plot]'", err=True)
    click.echo(found)
    click.echo(f"All settings: {output}/report.md, results.csv, picture.png")


def _in_order(options: dict[str, Any]) -> dict[str, Any]:
    """Order the parameters: the main ones first, the delay last because it varies fastest."""
    first = [name for name in ("mode", "epsilon", "phi", "sample_rate", "k", "l") if name in options]
    others = [name for name in options if name not in (*first, "delay")]
    return {name: options[name] for name in (*first, *others, "delay")}


@contextmanager
def _bar(settings: int, done: int) -> Iterator[Callable[[], None] | None]:
    """Yield a function to call after each setting; None without a terminal."""
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


def _release_frames(exc: BaseException) -> None:
    """Drop the traceback's references to the process pool, whose locks would be reported as leaked."""
    import gc
    import traceback

    at: BaseException | None = exc
    while at is not None:
        traceback.clear_frames(at.__traceback__)
        at = at.__context__
    gc.collect()
