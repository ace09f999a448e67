"""`castleguard reproduce castle --figure 5a`: repeat the papers' experiments and compare the results."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli.exit_codes import FAILED
from castleguard.cli.file_options import defaulted
from castleguard.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from castleguard.lab.result import Experiment, Result, Scale

_PAPERS = ("castle", "castleguard", "dcastle", "doca")
_PIPED_WIDTH = 120
_COLOURS = {"reproduced": "green", "partly": "yellow", "not reproduced": "red", "not comparable": "blue"}


@click.command(short_help="Repeat the experiments of the papers.")
@click.argument("paper", type=click.Choice(_PAPERS), required=False)
@click.option("--figure", "figures", multiple=True, metavar="5a", help="Run only this figure; can be repeated.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write pages and charts here.",
)
@click.option("--quick", is_flag=True, help="Few points on few rows, as a smoke test.")
@click.option("--full", is_flag=True, help="Every point and every method; may take hours.")
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [default: one per core]")
@defaulted("--seed", type=click.IntRange(0), default=0, help="Seed of the random draws.")
@click.option("--list", "only_list", is_flag=True, help="List the experiments and whether their data is available.")
@click.option("--download", is_flag=True, help="Download missing data from its publishers.")
def reproduce(
    paper: str | None,
    figures: tuple[str, ...],
    output: Path | None,
    quick: bool,
    full: bool,
    jobs: int | None,
    seed: int,
    only_list: bool,
    download: bool,
) -> None:
    """Repeat the experiments of PAPER, or of all four papers, and print each published result next to ours.

    Data is read from the folder named by CASTLEGUARD_DATA, or from the user's cache. An experiment whose data is
    missing is skipped, and the exit code is then 1.

    With --output, charts are written to FOLDER, with a page for each paper whose experiments all ran.
    """
    from castleguard.lab import catalogue
    from castleguard.lab.result import Scale
    from castleguard.workers import cores

    if quick and full:
        raise click.UsageError("--quick and --full are mutually exclusive: use only one")
    papers = [paper] if paper else list(_PAPERS)
    try:
        selected = catalogue.select(papers, figures)
    except UsageError as exc:
        raise click.BadParameter(str(exc), param_hint="--figure") from exc
    if download:
        _fetch(selected)
    if only_list:
        _list(selected)
        return
    ready = _with_data(selected)
    scale = Scale(seed=seed, jobs=jobs or cores(), quick=quick, full=full)
    with _quietly():
        _run(ready, papers, figures, scale, output)
    if len(ready) < len(selected):
        raise SystemExit(FAILED)


def _run(
    ready: Sequence["Experiment"], papers: Sequence[str], figures: Sequence[str], scale: "Scale", output: Path | None
) -> None:
    from rich.console import Console

    from castleguard.lab import catalogue, pages, running

    if output is not None:
        pages.require_matplotlib()
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    found: list[Result] = []
    for paper in papers:
        done = []
        own = [experiment for experiment in ready if experiment.paper == paper]
        for experiment in own:
            name = f"{paper} {', '.join(experiment.figures)}"
            click.echo(f"{name}: {experiment.about} ...", err=True)
            for each in running.run([experiment], scale, figures=figures):
                done.append(each)
                click.echo(f"{name}: {each.seconds:.1f} s", err=True)
                for result in each.results:
                    _show(console, paper, result, values=bool(figures))
                if output is not None:
                    pages.draw(output, paper, each.results)
        results = [result for each in done for result in each.results]
        if output is not None and results and len(own) == len(catalogue.experiments(paper)) and not figures:
            pages.write(output, pages.facts_of(paper, scale, done), results)
        found += results
    console.print(pages.tally(pages.count(found)))
    if scale.quick:
        console.print("This was a quick run on few rows: its verdicts say nothing about the papers.")
    if not figures:
        console.print("To see the figures: --figure prints one as a table, --output writes pages and charts.")


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress warnings: every run has a seed, and would warn about it."""
    from castleguard.workers import quieten

    logger = logging.getLogger("castleguard")
    before = logger.level
    quieten()
    try:
        yield
    finally:
        logger.setLevel(before)


def _show(console: "Console", paper: str, result: "Result", *, values: bool) -> None:
    """Print one figure: the paper's claims next to our results."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from castleguard.lab.catalogue import heading

    console.print(f"\n[bold]{paper}, {heading(result.figure)}: {escape(result.title)}[/bold]")
    console.print(escape(result.setting), highlight=False)
    claims = Table("the paper", "here", "verdict", box=box.SIMPLE, show_lines=True)
    for claim in result.claims:
        ours = f"{claim.ours} {claim.reason}" if claim.reason else claim.ours
        claims.add_row(escape(claim.paper), escape(ours), f"[{_COLOURS[claim.verdict]}]{claim.verdict}[/]")
    console.print(claims)
    if values and result.rows:
        table = Table(*result.columns, box=box.SIMPLE)
        for row in result.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for note in result.notes:
        console.print(f"- {escape(note)}", highlight=False)


def _with_data(selected: Sequence["Experiment"]) -> list["Experiment"]:
    """The experiments whose data is available; reports the others. Raises InputError if none is left."""
    from castleguard.lab import datasets

    ready, reasons = [], set()
    for experiment in selected:
        try:
            datasets.require(experiment.needs)
            ready.append(experiment)
        except InputError as exc:
            reasons.add(str(exc))
    if not ready and reasons:
        raise InputError(sorted(reasons)[0])
    for reason in sorted(reasons):
        click.echo(f"castleguard: {reason}", err=True)
    return ready


def _list(selected: Sequence["Experiment"]) -> None:
    from castleguard.lab import datasets

    for experiment in selected:
        here = "" if not datasets.missing(experiment.needs) else " (missing)"
        data = ", ".join(experiment.needs) or "synthetic"
        click.echo(f"{experiment.paper:12} {', '.join(experiment.figures)}: {experiment.about}; data: {data}{here}")


def _fetch(selected: Sequence["Experiment"]) -> None:
    """Download the data that can be downloaded; the rest is reported as missing."""
    from castleguard.lab import datasets

    for name in dict.fromkeys(name for experiment in selected for name in experiment.needs):
        if all(file.url for file in datasets.missing([name])):
            datasets.download([name], say=lambda line: click.echo(line, err=True))
