"""`castleguard reproduce castle --figure 5a`: the experiments of the papers, repeated, beside what the papers state."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli.exit_codes import FAILED
from castleguard.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from castleguard.lab.result import Experiment, Result, Scale

_PAPERS = ("castle", "castleguard", "dcastle", "doca")
_PIPED_WIDTH = 120
_COLOURS = {"reproduced": "green", "partly": "yellow", "not reproduced": "red", "not comparable": "blue"}


@click.command(short_help="Repeat the experiments of the papers.")
@click.argument("paper", type=click.Choice(_PAPERS), required=False)
@click.option("--figure", "figures", multiple=True, metavar="5a", help="Only this one; may be given several times.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="For pages and pictures."
)
@click.option("--quick", is_flag=True, help="Few points on few rows: to see that it works.")
@click.option("--full", is_flag=True, help="Every point and every method, however long it takes.")
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [default: one per core]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another one makes other draws.")
@click.option("--list", "only_list", is_flag=True, help="Say what there is, and whether its data are here.")
@click.option("--download", is_flag=True, help="Fetch data that are missing from their publishers.")
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
    """Repeat the experiments of PAPER, or of all four, and print what each states beside what was found here.

    Data are looked for in the folder that CASTLEGUARD_DATA names, and in the user's cache. An experiment without its
    data is left out, and the command then fails.

    With --output, figures are drawn into FOLDER, and each paper that was run as a whole gets a page there.
    """
    from castleguard.lab import catalogue
    from castleguard.lab.result import Scale
    from castleguard.workers import cores

    if quick and full:
        raise click.UsageError("--quick and --full exclude each other")
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
        console.print("A quick run, with few points on few rows: its verdicts say nothing about the papers.")
    if not figures:
        console.print("The figures themselves: --figure prints them as a table, --output writes pages and pictures.")


@contextmanager
def _quietly() -> Iterator[None]:
    """Every run has a seed, and would say what that voids."""
    from castleguard.workers import quieten

    logger = logging.getLogger("castleguard")
    before = logger.level
    quieten()
    try:
        yield
    finally:
        logger.setLevel(before)


def _show(console: "Console", paper: str, result: "Result", *, values: bool) -> None:
    """One figure: what it states beside what was found."""
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
    """Those that can be run; what the others lack is said. Raises InputError if none can."""
    from castleguard.lab import datasets

    ready, said = [], set()
    for experiment in selected:
        try:
            datasets.require(experiment.needs)
            ready.append(experiment)
        except InputError as exc:
            said.add(str(exc))
    if not ready and said:
        raise InputError(sorted(said)[0])
    for words in sorted(said):
        click.echo(f"castleguard: {words}", err=True)
    return ready


def _list(selected: Sequence["Experiment"]) -> None:
    from castleguard.lab import datasets

    for experiment in selected:
        here = "" if not datasets.missing(experiment.needs) else " (not here)"
        data = ", ".join(experiment.needs) or "made up"
        click.echo(f"{experiment.paper:12} {', '.join(experiment.figures)}: {experiment.about}; data: {data}{here}")


def _fetch(selected: Sequence["Experiment"]) -> None:
    """What can be fetched; what cannot is told like other data that are missing."""
    from castleguard.lab import datasets

    for name in dict.fromkeys(name for experiment in selected for name in experiment.needs):
        if all(file.url for file in datasets.missing([name])):
            datasets.download([name], say=lambda words: click.echo(words, err=True))
