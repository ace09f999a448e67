"""The experiment of DOCA's paper (Leal, Vidal, Machado 2018, section 4) with other parameters, and how fast it is.

    python -m benchmarks.backblaze --epsilon 0.1 --figure out/backblaze.png

With the paper's parameters, `castleguard reproduce doca` compares the outcome with the paper.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from castleguard.drawing import canvas
from castleguard.errors import InputError
from castleguard.lab import backblaze
from castleguard.lab.backblaze import LOWER, UPPER
from castleguard.lab.doca import hours
from castleguard.lab.doca.publishers import BINS, SENSITIVITY, Figures, Method, compare, mean, methods

CAPTION = f"""\
error: mean squared error, for naive and paper of every value against its own row's. strict publishes no rows but a
multiset per window: there the smallest value of a window stands for its smallest original, and so on. That is another
pairing, and of all within the windows the kindest. By rank, whole data: so over all values at once, for every method.
in common: of two histograms with {BINS} bins from {LOWER:,} to {UPPER:,}, what lies outside having nothing in common;
in brackets: with bins that reach as far as any value of both, which noise makes wide."""


def tabulate(found: Sequence[tuple[Method, Figures]], title: str) -> Table:
    """A row per method; errors also as a change from the first method's."""
    table = Table(title=title, caption=CAPTION, caption_justify="left")
    table.add_column("method")
    errors = ("error", "against\nnaive", "error by rank,\nwhole data", "against\nnaive")
    for name in (*errors, "in common", "rows", "CPU s", "values/s"):
        table.add_column(name, justify="right")
    naive = found[0][1]
    for method, figures in found:
        table.add_row(
            method.name,
            f"{figures.error:,.0f}",
            _change(figures.error, naive.error),
            f"{figures.error_by_rank:,.0f}",
            _change(figures.error_by_rank, naive.error_by_rank),
            f"{figures.common:.2%} ({figures.common_wide:.2%})",
            f"{figures.rows:,.0f}",
            f"{figures.seconds:.2f}",
            f"{figures.rows / figures.seconds:,.0f}" if figures.seconds else "",
        )
    return table


def _change(error: float, naive: float) -> str:
    return "" if error == naive else f"{error / naive - 1:.4%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--values", type=int, help="take so many values per run, not all of them")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delay", type=int, default=1000)
    parser.add_argument("--figure", type=Path, help="draw the histograms of the first run into this file")
    asked = parser.parse_args(arguments)
    if asked.runs < 1 or (asked.values is not None and asked.values < asked.delay):
        parser.error("there must be a run, and a window of --delay values in it")
    try:
        values = backblaze.hours()
    except InputError as exc:
        raise SystemExit(str(exc)) from exc
    compared = methods(epsilon=asked.epsilon, delay=asked.delay)
    streams = [backblaze.shuffled(values, seed, asked.values) for seed in range(asked.runs)]
    with without_warnings():
        for method in compared:
            method.publish(streams[0][: 2 * asked.delay], 0)  # compiles, which must not count in any run
        found, drawn = compare(compared, streams, range(asked.runs))
    title = f"{streams[0].size:,} values, {asked.runs} run{'s' * (asked.runs != 1)}, epsilon {asked.epsilon:g}, "
    title += f"delay {asked.delay:,}, sensitivity {SENSITIVITY:,.0f}"
    Console(width=150).print(
        tabulate([(method, mean(runs)) for method, runs in zip(compared, found, strict=True)], title)
    )
    if asked.figure is not None:
        names = [method.name for method in compared]
        with canvas(asked.figure, width=13, height=3.3 * -(-len(names) // 2)) as figure:
            hours.draw(streams[0], list(zip(names, drawn, strict=True)), figure)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the announcement of compiling, which would interrupt the table."""
    logger = logging.getLogger("castleguard")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


if __name__ == "__main__":
    main()
