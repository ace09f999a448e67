"""Section VI-B: whether the information loss depends on phi and on the sampling rate.

The paper gives 0.0178 to 0.0182 for all values of both. `floor` shows that a mean over published rows cannot be that
low at every rate: in any grouping a row shares its box with rows of k - 1 other persons, so the box is at least as wide
as the distance to the (k-1)-th nearest of them.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.drawing import INK, LINES
from castleguard.lab import taxi
from castleguard.lab.castleguard.rides import (
    DELAY,
    LOSS_WINDOW,
    MAX_CLUSTERS,
    K,
    Lost,
    Setting,
    experiment,
    measure,
    seeds,
)
from castleguard.lab.result import Claim, Result, Scale, Word

PAPER = (0.0178, 0.0182)
PHIS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
RATES = (0.25, 0.5, 0.75, 1.0)
SAMPLES = 10  # samples of January 2019
_SMALL_EFFECT = 0.10  # of the mean: between the highest and the lowest cell

Losses = Mapping[tuple[float, float], Lost]  # by phi and rate


def run(scale: Scale) -> list[Result]:
    """The whole grid in both modes, the floor, and other samples of the month."""
    rides = taxi.authors()
    phis, rates = (PHIS[::4], RATES[::3]) if scale.quick else (PHIS, RATES)
    chosen = seeds(scale.seed, quick=scale.quick)
    cells = [(phi, rate) for phi in phis for rate in rates]
    paper, strict = (
        {(phi, rate): measure(rides, Setting(phi=phi, sample_rate=rate, strict=mode), chosen) for phi, rate in cells}
        for mode in (False, True)
    )
    floors = {rate: floor(rides, rate, chosen) for rate in rates}
    others = other_samples(2 if scale.quick else SAMPLES, scale.seed)
    return [
        Result(
            figure="VI-B",
            title="information loss on the sampling rate and phi",
            setting=f"The authors' 1,000 taxi rides, k={K}, l=1, delay={DELAY}, mu={LOSS_WINDOW}, b={MAX_CLUSTERS}; "
            f"{len(chosen)} runs with the seeds {chosen[0]} to {chosen[-1]}.",
            claims=(judge_value(paper, floors), judge_independence(paper)),
            columns=("phi", "sample rate", "published rows", "open clusters", "rows", "strict: published rows"),
            rows=(
                *(_row(phi, rate, paper[phi, rate], strict[phi, rate]) for phi, rate in cells),
                *(("any", f"{rate:g}", f"{least:.4f} at least", "", "", "") for rate, least in floors.items()),
            ),
            draw=partial(_draw, paper, strict, floors),
            size=(9.5, 4.2),
            notes=(
                "At least: a box has rows of nine other persons, so it is as wide as the distance to the ninth "
                "nearest. The mean of that, over rows and both columns, is a bound for every algorithm, even one that "
                "sees all rows at once. It is computed for rows without noise.",
                f"{len(others)} other samples of 1,000 rides of January 2019, with 100 simulated persons, phi=10,000 "
                f"and all rows kept: {min(others):.4f} to {max(others):.4f}, mean {statistics.fmean(others):.4f}.",
                "The authors' published code averages over clusters that are open at the end, and does not bound their "
                "number; that may be how the paper's value came about.",
            ),
        )
    ]


def floor(rides: pa.Table, rate: float, seeds: Sequence[int]) -> float:
    """Lower bound for any grouping of the sampled rows, even one that sees all of them at once."""
    columns = [rides.column(name).to_numpy().astype(np.float64) for name in taxi.COLUMNS]
    points = np.stack([(column - column.min()) / (column.max() - column.min()) for column in columns], axis=1)
    persons = rides.column(taxi.PERSON).to_numpy()
    found = []
    for seed in seeds:
        kept = np.random.default_rng(seed).random(len(points)) < rate
        found.append(nearest(points[kept], persons[kept], K - 1))
    return statistics.fmean(found)


def nearest(points: NDArray[np.float64], persons: NDArray[np.int64], which: int) -> float:
    """Mean over rows of the distance, averaged over both columns, to the n-th nearest other person."""
    order = np.argsort(persons, kind="stable")
    points, persons = points[order], persons[order]
    starts = np.flatnonzero(np.diff(persons, prepend=persons[0] - 1))
    own = np.cumsum(np.diff(persons, prepend=persons[0]) != 0)
    apart = np.abs(points[:, None, :] - points[None, :, :]).mean(axis=2)
    each = np.minimum.reduceat(apart, starts, axis=1)
    each[np.arange(len(points)), own] = np.inf
    return float(np.sort(each, axis=1)[:, which - 1].mean())


def other_samples(count: int, seed: int) -> list[float]:
    """Loss of published rows for other samples of the month."""
    rides = taxi.january()
    return [measure(taxi.sample(rides, at), Setting(), [seed]).published for at in range(count)]


def judge_value(found: Losses, floors: Mapping[float, float]) -> Claim:
    """The paper's range: reproduced if every cell is within a tenth of it; not comparable if it is below the floor."""
    losses = [lost.published for lost in found.values()]
    opened = [lost.opened for lost in found.values()]
    is_there = 0.9 * PAPER[0] <= min(losses) and max(losses) <= 1.1 * PAPER[1]
    above = {rate: least for rate, least in floors.items() if least > PAPER[1]}
    verdict: Word = "reproduced" if is_there else "not comparable" if above else "not reproduced"
    reason = ""
    if verdict == "not comparable":
        rate, least = max(above.items(), key=lambda item: item[1])
        reason = (
            f"The paper's value cannot be the mean loss of published rows: at a rate of {rate:g} no grouping can be "
            f"below {least:.4f}. The paper does not say what it is the mean of."
        )
    return Claim(
        paper=f"The information loss is {PAPER[0]} to {PAPER[1]}.",
        ours=f"Published rows: {min(losses):.4f} to {max(losses):.4f}. Clusters that are open at the end: "
        f"{min(opened):.4f} to {max(opened):.4f}.",
        verdict=verdict,
        reason=reason,
    )


def judge_independence(found: Losses) -> Claim:
    """Independent if the means of the rows and of the columns of the grid differ by at most a tenth."""
    phis, rates = (sorted({key[at] for key in found}) for at in (0, 1))
    by_phi = [statistics.fmean(found[phi, rate].published for rate in rates) for phi in phis]
    by_rate = [statistics.fmean(found[phi, rate].published for phi in phis) for rate in rates]
    small = [_spread(by_phi) <= _SMALL_EFFECT, _spread(by_rate) <= _SMALL_EFFECT]
    verdict: Word = "reproduced" if all(small) else "partly" if any(small) else "not reproduced"
    return Claim(
        paper="phi and the sampling rate have a small effect on the loss, which may be considered independent of them.",
        ours=f"By the rate, from {rates[0]:g} to {rates[-1]:g}: {by_rate[0]:.3f} to {by_rate[-1]:.3f}. By phi, from "
        f"{phis[0]:g} to {phis[-1]:g}: {by_phi[0]:.3f} to {by_phi[-1]:.3f}.",
        verdict=verdict,
        reason=""
        if all(small)
        else "Half the rows leave half as many to share a box with, and noise as wide as the domain fills it.",
    )


def _spread(means: Sequence[float]) -> float:
    return (max(means) - min(means)) / statistics.fmean(means)


def _row(phi: float, rate: float, lost: Lost, strict: Lost) -> tuple[str, ...]:
    return (
        f"{phi:,g}",
        f"{rate:g}",
        f"{lost.published:.4f} ± {lost.published_spread:.4f}",
        f"{lost.opened:.4f} ± {lost.opened_spread:.4f}",
        f"{lost.rows:.0f}",
        f"{strict.published:.4f} ± {strict.published_spread:.4f}",
    )


def _draw(paper: Losses, strict: Losses, floors: Mapping[float, float], figure: Any) -> None:
    phis, rates = (sorted({key[at] for key in paper}) for at in (0, 1))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, title, found in zip(panels, ("as printed", "strict"), (paper, strict), strict=True):
        for phi, line in zip(phis, LINES, strict=False):
            axes.plot(rates, [found[phi, rate].published for rate in rates], label=f"phi = {phi:,g}", **line)
        axes.plot(rates, [floors[rate] for rate in rates], color=INK, linewidth=2.4, label="no grouping is below")
        axes.axhline(PAPER[1], color=INK, linestyle=(0, (1, 3)), label="the paper's, for all phi")
        axes.set(title=title, xlabel="sample rate, beta", ylim=(0, None), xticks=rates)
    panels[0].set_ylabel("information loss of published rows")
    panels[1].legend(frameon=False, loc="upper right", fontsize=8)


EXPERIMENT = experiment("VI-B", "information loss by phi and sampling rate", run)
