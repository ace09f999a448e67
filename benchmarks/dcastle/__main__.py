"""The command: run, and print the tables."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from rich.console import Console

import benchmarks.dcastle
from benchmarks import adult
from benchmarks.dcastle.experiment import Experiment, processes, quieten
from benchmarks.dcastle.figure import draw
from benchmarks.dcastle.report import broken_promises, tabulate_claims, tabulate_losses, tabulate_sharing
from benchmarks.dcastle.settings import SWEEPS, Sweep, shortened


def main(arguments: Sequence[str] | None = None) -> None:
    """See the package. Ends with an error if a strict method has published a group below k."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.runs < 1 or asked.jobs < 1:
        parser.error("there must be a run and a process")
    table = load()
    sweeps = [sweep for sweep in SWEEPS if asked.only in (None, sweep.varied)]
    if asked.quick:
        table, sweeps = table.slice(0, 4_000), [shortened(sweep) for sweep in sweeps]
    experiment, console = Experiment(table, asked.runs), Console(width=200)
    console.print(f"{table.num_rows:,} rows, {experiment.data_bytes:,} bytes, {asked.runs} run(s) per point")
    with ExitStack() as stack:
        if asked.jobs > 1:
            experiment.find_ahead(sweeps, stack.enter_context(processes(asked.jobs, table)))
        _print_tables(console, experiment, sweeps)
    if asked.figure is not None:
        _draw_if_possible(asked.figure, experiment, sweeps)
    broken = broken_promises(experiment, sweeps)
    if broken:
        raise SystemExit("\n".join(["strict must never publish a group below k, but did:", *broken]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dcastle",
        description=benchmarks.dcastle.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=1, help="runs per point, each with choices of its own")
    parser.add_argument("--only", choices=sorted({sweep.varied for sweep in SWEEPS}), help="vary nothing but this")
    parser.add_argument("--quick", action="store_true", help="4,000 rows, and the ends of every sweep")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; one per core unless given")
    parser.add_argument("--figure", type=Path, help="draw losses and bytes into this file")
    return parser


def load() -> pa.Table:
    """Adult, or the end of the program where it is missing."""
    if adult.data_folder() is None:
        raise SystemExit("CASTLEGUARD_DATA must name the folder with adult/adult.data.gz and its hierarchies")
    return adult.load()


def _print_tables(console: Console, experiment: Experiment, sweeps: Sequence[Sweep]) -> None:
    start = time.monotonic()
    for sweep in sweeps:
        console.print(tabulate_losses(experiment, sweep))
        console.print(tabulate_sharing(experiment, sweep))
        print(f"  {time.monotonic() - start:.0f} s so far", file=sys.stderr)
    console.print(tabulate_claims(experiment, sweeps))


def _draw_if_possible(path: Path, experiment: Experiment, sweeps: Sequence[Sweep]) -> None:
    try:
        draw(path, experiment, sweeps)
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.startswith("matplotlib"):
            raise
        raise SystemExit("no figure: it needs matplotlib, pip install 'castleguard[plot]'") from exc


if __name__ == "__main__":
    quieten()
    main()
