"""The experiment of DOCA's paper (Leal, Vidal, Machado 2018, section 4), repeated: power-on hours of hard drives.

    python -m benchmarks.backblaze --figure out/backblaze.png

Per run the values are shuffled and published by every method. The paper has 1,989,462 values of January 2017 with a
maximum of 66,413; here are 868,484 of April and May 2013. So its errors cannot be met, but their ratio can be: how far
DOCA's error falls below that of noise on every value, and how much its histogram has in common with the original one.

As in the paper, the domain is the range of the data and every row counts as a person, though a drive has one per day.
Whoever publishes such data would have to know the domain beforehand, and to say how many rows a person may have.
"""

import argparse
import logging
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from rich.console import Console
from rich.table import Table

import castleguard as cg
from castleguard.drawing import BLUE, GREY, STYLE
from castleguard.evaluate.error import histogram_intersection, mean_squared_error, paired_by_rank
from castleguard.evaluate.naive import naive_laplace

Values = NDArray[np.float64]  # (values,)

FILE = Path("backblaze") / "drive_stats_2013-04-10_to_2013-05-19_smart9.csv.gz"
COLUMN, ROW = "smart_9_raw", "row"
HIGHEST_CREDIBLE = 66_413  # the paper's maximum; one drive claims to have been on for 29 years
COUNT = 868_484
DOMAIN = LOWER, UPPER = 6, 38_450
SENSITIVITY = 1.5 * (UPPER - LOWER)
CLUSTERS, LOSS_WINDOW, BINS = 50, 100, 100
KS = (10, 20, 50, 100)
PAPER = {"naive": "error 20,297,943,835.96", "paper": "error 143,064,439.62, -99.2952 %, 85.98 %"}
CAPTION = f"""\
error: mean squared error, for naive and paper of every value against its own row's. strict publishes no rows but a
multiset per window: there the smallest value of a window stands for its smallest original, and so on. That is another
pairing, and of all within the windows the kindest. By rank, whole data: so over all values at once, for every method.
in common: of two histograms with {BINS} bins from {LOWER:,} to {UPPER:,}, what lies outside having nothing in common;
in brackets: with bins that reach as far as any value of both, which noise makes wide."""


class Pairs(NamedTuple):
    """Original values and what was published for them, one for one."""

    original: Values
    published: Values


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to publish a stream of values."""

    name: str
    publish: Callable[[Values, int], pa.Table]
    """A stream and a seed in, all that is published in return."""
    pair: Callable[[Values, pa.Table], Pairs]
    """Which original a published value is compared with."""
    paper: str = ""
    """What the paper says of it."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one method did in one run, or in the mean of several."""

    error: float
    error_by_rank: float
    common: float
    """Share that the histograms over the domain have in common."""
    common_wide: float
    """The same, over the range of both."""
    rows: float
    seconds: float


def load() -> Values | None:
    """The paper's column as far as it can be true, or None where the file is missing."""
    path = Path(os.environ.get("CASTLEGUARD_DATA") or "") / FILE
    if not os.environ.get("CASTLEGUARD_DATA") or not path.exists():
        return None
    values = read(path)
    if values.size != COUNT:
        raise SystemExit(f"{path} must have {COUNT:,} values up to {HIGHEST_CREDIBLE:,}, got {values.size:,}")
    return values


def read(path: Path) -> Values:
    """The credible values of a file, in its order."""
    options = csv.ConvertOptions(include_columns=[COLUMN], column_types={COLUMN: pa.float64()})
    values: Values = csv.read_csv(path, convert_options=options).column(COLUMN).to_numpy()
    return values[values <= HIGHEST_CREDIBLE]


def shuffled(values: Values, seed: int, count: int | None = None) -> Values:
    """The stream of one run: the values in a random order, or the first so many of them."""
    # Not the seed alone: the naive noise of the run is drawn from that.
    return np.random.default_rng([2018, seed]).permutation(values)[:count]


def methods(*, epsilon: float, delay: int) -> list[Method]:
    """Everything that is compared; the first one is what the others are compared with."""
    printed = cg.Doca(epsilon=epsilon, delay=delay, mode="paper", max_clusters=CLUSTERS, loss_window=LOSS_WINDOW)
    found = [
        Method(name="naive", publish=partial(publish_naive, epsilon), pair=pair_rows, paper=PAPER["naive"]),
        Method(name="DOCA, paper", publish=partial(publish_doca, printed), pair=pair_rows, paper=PAPER["paper"]),
    ]
    for k in KS:
        if k <= delay:
            strict = partial(publish_doca, cg.Doca(epsilon=epsilon, delay=delay, k=k))
            found.append(Method(name=f"DOCA, strict, k={k}", publish=strict, pair=partial(pair_windows, delay)))
    return found


def publish_naive(epsilon: float, stream: Values, seed: int) -> pa.Table:
    """Noise on every value by itself."""
    values = naive_laplace(stream, epsilon=epsilon, sensitivity=SENSITIVITY, seed=seed)
    return pa.table({COLUMN: values, ROW: np.arange(stream.size)})


def publish_doca(policy: cg.Doca, stream: Values, seed: int) -> pa.Table:
    """What the policy makes of the stream; as printed it publishes rows, and so their numbers can come along."""
    schema = make_schema(public=[ROW] if policy.mode == "paper" else [])
    return cg.anonymise(pa.table({COLUMN: stream, ROW: np.arange(stream.size)}), schema, policy, seed=seed)


def pair_rows(stream: Values, table: pa.Table) -> Pairs:
    """Every value with that of its own row."""
    return Pairs(stream[table.column(ROW).to_numpy()], table.column(COLUMN).to_numpy())


def pair_windows(delay: int, stream: Values, table: pa.Table) -> Pairs:
    """By rank within each window: a window is published as a multiset."""
    return Pairs(*paired_by_rank(stream, table.column(COLUMN).to_numpy(), window=delay))


def make_schema(public: Sequence[str] = ()) -> cg.Schema:
    """One number per row, every row a person of its own, as the paper has it."""
    hours = cg.Numeric(COLUMN, lower=LOWER, upper=UPPER, step=1)
    return cg.Schema(person=None, quasi_identifiers=[hours], public=public)


def run(method: Method, stream: Values, seed: int) -> tuple[Figures, Values]:
    """One method once: how it did, and what it published."""
    start = time.process_time()
    table = method.publish(stream, seed)
    seconds = time.process_time() - start
    pairs = method.pair(stream, table)
    values = pairs.published
    found = Figures(
        error=mean_squared_error(*pairs),
        error_by_rank=mean_squared_error(*paired_by_rank(*pairs, window=values.size)),
        common=histogram_intersection(stream, values, bins=BINS, range=DOMAIN),
        common_wide=histogram_intersection(stream, values, bins=BINS),
        rows=values.size,
        seconds=seconds,
    )
    return found, values


def compare(
    compared: Sequence[Method], streams: Sequence[Values], *, warm_up: int
) -> tuple[list[Figures], list[Values]]:
    """Every method on every stream: its mean figures, and what it published of the first one."""
    for method in compared:
        method.publish(streams[0][:warm_up], 0)  # compiles, which no run is to pay for
    found: list[list[Figures]] = [[] for _ in compared]
    firsts: list[Values] = []
    for seed, stream in enumerate(streams):
        for method, runs in zip(compared, found, strict=True):
            figures, published = run(method, stream, seed)
            runs.append(figures)
            if seed == 0:
                firsts.append(published)
    return [mean(runs) for runs in found], firsts


def mean(runs: Sequence[Figures]) -> Figures:
    """The mean of every figure."""
    return Figures(**{name: statistics.fmean(getattr(found, name) for found in runs) for name in vars(runs[0])})


def tabulate(found: Sequence[tuple[Method, Figures]], title: str) -> Table:
    """A row per method; errors are also given as a change of the first one's."""
    table = Table(title=title, caption=CAPTION, caption_justify="left")
    table.add_column("method")
    errors = ("error", "against\nnaive", "error by rank,\nwhole data", "against\nnaive")
    for name in (*errors, "in common", "rows", "CPU s", "values/s"):
        table.add_column(name, justify="right")
    table.add_column("the paper's")
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
            method.paper,
        )
    return table


def _change(error: float, naive: float) -> str:
    return "" if error == naive else f"{error / naive - 1:.4%}"


def draw(path: Path, stream: Values, published: Sequence[tuple[str, Values]]) -> None:
    """The paper's Figure 2 for every method: both histograms, and what they have in common.

    Raises ModuleNotFoundError without matplotlib.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        lines = -(-len(published) // 2)
        figure, panels = plt.subplots(
            lines, 2, figsize=(13, 3.3 * lines), sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axes, (name, values) in zip(panels.flat, published, strict=False):
            _draw_histograms(axes, name, stream, values)
            axes.label_outer()
        for axes in panels.flat[len(published) :]:
            axes.axis("off")
        panels[0, 0].legend(frameon=False, loc="upper right")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130, facecolor="white")
        plt.close(figure)


def _draw_histograms(axes: Any, name: str, stream: Values, values: Values) -> None:
    """Both in one panel, which is as high as the original one needs; a bin beyond that has its height written to it."""
    edges = np.linspace(*DOMAIN, BINS + 1)
    before, after = (100 * np.histogram(part, edges)[0] / part.size for part in (stream, values))
    axes.stairs(before, edges, fill=True, color=GREY, alpha=0.6, label="original")
    axes.stairs(after, edges, color=BLUE, linewidth=1.4, label="published")
    top = 1.8 * before.max()
    for at in np.flatnonzero(after > top):
        axes.annotate(f" {after[at]:.1f}", (edges[at + 1], top), color=BLUE, va="top")
    common = histogram_intersection(stream, values, bins=BINS, range=DOMAIN)
    outside = np.count_nonzero((values < LOWER) | (values > UPPER)) / values.size
    axes.set_title(f"{name}: {common:.2%} in common" + (f", {outside:.1%} outside" if outside else ""))
    axes.set(xlabel="hours", ylabel="% of values", xlim=DOMAIN, ylim=(0, top))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--values", type=int, help="take so many values per run, not all of them")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delay", type=int, default=1000)
    parser.add_argument("--figure", type=Path, help="draw the histograms of the first run into this file")
    asked = parser.parse_args(arguments)
    if asked.runs < 1 or (asked.values is not None and asked.values < asked.delay):
        parser.error("there must be a run, and a window of --delay values in it")
    values = load()
    if values is None:
        raise SystemExit(
            f"CASTLEGUARD_DATA must name the folder with {FILE}: {COLUMN} of the daily Drive Stats of these 40 days, "
            f"https://www.backblaze.com/cloud-storage/resources/hard-drive-test-data"
        )
    compared = methods(epsilon=asked.epsilon, delay=asked.delay)
    streams = [shuffled(values, seed, asked.values) for seed in range(asked.runs)]
    with without_warnings():
        found, drawn = compare(compared, streams, warm_up=2 * asked.delay)
    title = f"{streams[0].size:,} values, {asked.runs} run{'s' * (asked.runs != 1)}, epsilon {asked.epsilon:g}, "
    title += f"delay {asked.delay:,}, sensitivity {SENSITIVITY:,.0f}"
    Console(width=175).print(tabulate(list(zip(compared, found, strict=True)), title))
    if asked.figure is not None:
        names = [method.name for method in compared]
        _draw_if_possible(asked.figure, streams[0], list(zip(names, drawn, strict=True)))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Compiling is announced as a warning, which would stand in the middle of the table."""
    logger = logging.getLogger("castleguard")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _draw_if_possible(path: Path, stream: Values, drawn: Sequence[tuple[str, Values]]) -> None:
    try:
        draw(path, stream, drawn)
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.startswith("matplotlib"):
            raise
        raise SystemExit("no figure: it needs matplotlib, pip install 'castleguard[plot]'") from exc


if __name__ == "__main__":
    main()
