"""Table 1 and Figure 2 of DOCA's paper: the error of published power-on hours, and their histogram.

The paper's values are from January 2017, ours from April and May 2013, with another range. Its absolute errors cannot
be matched, but ratios can: how far DOCA's error falls below that of noise on every value, and the overlap of its
histogram with the original.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from castleguard.drawing import BLUE, GREY
from castleguard.judge.measure.error import histogram_intersection
from castleguard.lab import backblaze
from castleguard.lab.doca.publishers import (
    BINS,
    CLUSTERS,
    DELAY,
    EPSILON,
    LOSS_WINDOW,
    SENSITIVITY,
    Figures,
    compare,
    mean,
    methods,
)
from castleguard.lab.result import Claim, Experiment, Result, Scale, Word

PAPER_NAIVE, PAPER_DOCA, PAPER_FALL = 20_297_943_835.96, 143_064_439.62, 0.992952
PAPER_SENSITIVITY = 99_618.0
PAPER_COMMON, PAPER_COMMON_SHOWN = 0.8598, 0.8601
RUNS = 5
QUICK_VALUES = 20_000

Runs = Mapping[str, Sequence[Figures]]  # by method


def run(scale: Scale) -> list[Result]:
    """Every method on five shuffles of all values."""
    values = backblaze.hours()
    seeds = range(scale.seed, scale.seed + (2 if scale.quick else RUNS))
    streams = [backblaze.shuffled(values, seed, QUICK_VALUES if scale.quick else None) for seed in seeds]
    compared = methods()
    figures, firsts = compare(compared, streams, seeds)
    found = {method.name: runs for method, runs in zip(compared, figures, strict=True)}
    setting = (
        f"{streams[0].size:,} power-on hours of drives, Backblaze, April and May 2013, in {len(seeds)} random orders "
        f"with the seeds {seeds[0]} to {seeds[-1]}; epsilon {EPSILON:g}, delay {DELAY:,}, {CLUSTERS} clusters, "
        f"m={LOSS_WINDOW}, sensitivity {SENSITIVITY:,.0f}. The paper has 1,989,462 of January 2017, sensitivity "
        f"{PAPER_SENSITIVITY:,.0f}."
    )
    shared = (
        "Strict publishes a multiset per window instead of rows: the smallest value of a window is compared with "
        "its smallest original, and so on, the most favourable pairing within the windows. By rank: so over all "
        "values at once, for every method.",
        "As in the paper, the domain is the range of the data and every row counts as a person. To publish such data, "
        "neither would do.",
    )
    return [
        Result(
            figure="Table 1",
            title="mean squared error of DOCA and of naive noise",
            setting=setting,
            claims=(judge_fall(found), judge_naive(found), judge_doca(found)),
            columns=("method", "mean squared error", "against naive", "by rank", "against naive"),
            rows=tuple(_error_row(name, mean(runs), mean(found["naive"])) for name, runs in found.items()),
            notes=shared,
        ),
        Result(
            figure="2",
            title="original and anonymised distribution",
            setting=f"{setting} {BINS} bins over the range of the original data; the picture is of the first run.",
            claims=(judge_common(found), judge_shown(found)),
            columns=("method", "in common, mean", "lowest", "highest", "with bins over the range of both"),
            rows=tuple(_common_row(name, runs) for name, runs in found.items()),
            draw=partial(
                draw, streams[0], [(method.name, part) for method, part in zip(compared, firsts, strict=True)]
            ),
            size=(11.0, 8.5),
            notes=(
                "The paper does not say whether its bins reach over the original data or over both. Noise makes the "
                "range of both wide, and wide bins tell less apart.",
                shared[1],
            ),
        ),
    ]


def judge_fall(found: Runs) -> Claim:
    """How far the error falls: within a tenth of a point, or within one."""
    falls = _falls(found)
    mine = statistics.fmean(falls)
    off = abs(mine - PAPER_FALL)
    verdict: Word = "reproduced" if off <= 0.001 else "partly" if off <= 0.01 else "not reproduced"
    return Claim(
        paper=f"DOCA's mean squared error is {PAPER_FALL:.4%} below that of naive noise.",
        ours=f"{mine:.4%} below, {min(falls):.4%} to {max(falls):.4%} in the runs.",
        verdict=verdict,
    )


def judge_naive(found: Runs) -> Claim:
    """The naive error as a multiple of the squared sensitivity, which does not depend on the data; within 3 %."""
    reason = "Only the multiple can be compared: the data have another range. In theory it is 2."
    mine = mean(found["naive"]).error
    return _judge_error("Naive noise", PAPER_NAIVE, mine, digits=3, limits=(0.03, 0.1), reason=reason)


def judge_doca(found: Runs) -> Claim:
    """DOCA's error as a share of the squared sensitivity; within a tenth, or within a half."""
    reason = "Only the multiple can be compared: the data have another range."
    mine = mean(found["DOCA, paper"]).error
    return _judge_error("DOCA", PAPER_DOCA, mine, digits=4, limits=(0.1, 0.5), reason=reason)


def _judge_error(
    what: str, stated: float, mine: float, *, digits: int, limits: tuple[float, float], reason: str
) -> Claim:
    """A mean squared error in multiples of the squared sensitivity: within the first limit, or the second."""
    theirs, ours = stated / PAPER_SENSITIVITY**2, mine / SENSITIVITY**2
    off = abs(ours / theirs - 1)
    return Claim(
        paper=f"{what} has a mean squared error of {stated:,.0f}, {theirs:.{digits}f} times sensitivity squared.",
        ours=f"{mine:,.0f}, {ours:.{digits}f} times sensitivity squared.",
        verdict="reproduced" if off <= limits[0] else "partly" if off <= limits[1] else "not reproduced",
        reason=reason,
    )


def judge_common(found: Runs) -> Claim:
    """Mean of the runs: within two points, or within five."""
    shares = [figures.common for figures in found["DOCA, paper"]]
    mine, wide = statistics.fmean(shares), mean(found["DOCA, paper"]).common_wide
    return Claim(
        paper=f"On average over five runs, {PAPER_COMMON:.2%} of both distributions intersect.",
        ours=f"{mine:.2%} over the range of the original data, {wide:.2%} over that of both.",
        verdict=_near(mine),
    )


def judge_shown(found: Runs) -> Claim:
    """The run that is shown, the first: within two points, or within five."""
    shares = [figures.common for figures in found["DOCA, paper"]]
    return Claim(
        paper=f"In the run that is shown, {PAPER_COMMON_SHOWN:.2%} intersect.",
        ours=f"{shares[0]:.2%} in the first run, {min(shares):.2%} to {max(shares):.2%} in all.",
        verdict=_near(shares[0]),
    )


def _near(share: float) -> Word:
    off = abs(share - PAPER_COMMON)
    return "reproduced" if off <= 0.02 else "partly" if off <= 0.05 else "not reproduced"


def _falls(found: Runs) -> list[float]:
    """Run by run."""
    pairs = zip(found["naive"], found["DOCA, paper"], strict=True)
    return [1 - after.error / before.error for before, after in pairs]


def _error_row(name: str, figures: Figures, naive: Figures) -> tuple[str, ...]:
    return (
        name,
        f"{figures.error:,.0f}",
        _change(figures.error, naive.error),
        f"{figures.error_by_rank:,.0f}",
        _change(figures.error_by_rank, naive.error_by_rank),
    )


def _change(error: float, naive: float) -> str:
    return "" if error == naive else f"{error / naive - 1:+.4%}"


def _common_row(name: str, runs: Sequence[Figures]) -> tuple[str, ...]:
    shares = [figures.common for figures in runs]
    wide = statistics.fmean(figures.common_wide for figures in runs)
    return name, f"{statistics.fmean(shares):.2%}", f"{min(shares):.2%}", f"{max(shares):.2%}", f"{wide:.2%}"


def draw(stream: backblaze.Values, published: Sequence[tuple[str, backblaze.Values]], figure: Any) -> None:
    """Figure 2: histograms of the original and of the published values, a panel per method."""
    lines = -(-len(published) // 2)
    panels = figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False)
    for axes, (name, values) in zip(panels.flat, published, strict=False):
        _draw_histograms(axes, name, stream, values)
        axes.label_outer()
    for axes in panels.flat[len(published) :]:
        axes.axis("off")
    panels[0, 0].legend(frameon=False, loc="upper right")


def _draw_histograms(axes: Any, name: str, stream: backblaze.Values, values: backblaze.Values) -> None:
    """Both in one panel, scaled to the original; a bin that exceeds it has its height written beside it."""
    edges = np.linspace(*backblaze.DOMAIN, BINS + 1)
    before, after = (100 * np.histogram(part, edges)[0] / part.size for part in (stream, values))
    axes.stairs(before, edges, fill=True, color=GREY, alpha=0.6, label="original")
    axes.stairs(after, edges, color=BLUE, linewidth=1.4, label="published")
    top = 1.8 * before.max()
    for at in np.flatnonzero(after > top):
        axes.annotate(f" {after[at]:.1f}", (edges[at + 1], top), color=BLUE, va="top")
    common = histogram_intersection(stream, values, bins=BINS, range=backblaze.DOMAIN)
    outside = np.count_nonzero((values < backblaze.LOWER) | (values > backblaze.UPPER)) / values.size
    axes.set_title(f"{name}: {common:.2%} in common" + (f", {outside:.1%} outside" if outside else ""), fontsize=10)
    axes.set(xlabel="power-on hours", ylabel="% of values", xlim=backblaze.DOMAIN, ylim=(0, top))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


EXPERIMENT = Experiment(
    paper="doca",
    figures=("Table 1", "2"),
    about="error and histogram of published power-on hours",
    needs=("backblaze",),
    run=run,
)
