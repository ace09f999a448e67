"""Figures 4 to 6: accuracy of classifiers trained on published rows, by phi and the sampling rate."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from castleguard.lab import pima
from castleguard.lab.castleguard import lessons, statements
from castleguard.lab.castleguard.agreement import Agreement, agreement
from castleguard.lab.castleguard.lessons import NETWORK, Task, learn, mean
from castleguard.lab.castleguard.statements import AS_THEY_ARE, SCALED, Found, Grid
from castleguard.lab.result import Experiment, Result, Scale
from castleguard.lab.running import spread

PHIS = (1.0, 10.0, 100.0, 1_000.0)
RATES = (0.25, 0.5, 0.75, 1.0)
RUNS = 5
_COLUMNS = ("data", "phi", "sample rate", "rows", "as they are", "scaled")
_SHARED_NOTES = (
    "Two features per attribute, its minimum and its maximum, as the paper says. As they are: in their own units, as "
    "in the authors' code. Scaled: standardised to mean 0 and deviation 1.",
    "Strict: noise with a provable guarantee, also on the outcome; phi is then the epsilon of every column, so that a "
    "row has nine times as much. All rows are kept: sampling gains nothing there.",
)


def run(scale: Scale) -> list[Result]:
    """Train on every split of every cell."""
    phis, rates = (PHIS[::2], RATES[::3]) if scale.quick else (PHIS, RATES)
    seeds = range(scale.seed, scale.seed + (1 if scale.quick else RUNS))
    found = measure(phis, rates, seeds, scale.jobs)
    table = pima.load()
    setting = (
        f"Pima Indians, k={lessons.K}, l=1, delay={lessons.DELAY}, mu={lessons.LOSS_WINDOW}, b={lessons.MAX_CLUSTERS}; "
        f"seeds {seeds[0]} to {seeds[-1]}, with a split each. {round(lessons.HELD_OUT * table.num_rows)} of "
        f"{table.num_rows} rows are held out as they are, with minimum = maximum; the others are published and learned "
        "from."
    )
    return [_figure_4(found, setting), _figure_5(found, setting), _figure_6(found, setting)]


def measure(phis: tuple[float, ...], rates: tuple[float, ...], seeds: range, jobs: int) -> Found:
    """Means over all splits."""
    keys: list[tuple[float | None, float, bool]] = [(None, 1.0, False)]
    keys += [(phi, rate, False) for phi in phis for rate in rates]
    keys += [(phi, 1.0, True) for phi in phis]
    tasks = [Task(seed=seed, phi=phi, sample_rate=rate, strict=strict) for phi, rate, strict in keys for seed in seeds]
    marks = spread(learn, tasks, jobs)
    means = {key: mean(marks[at * len(seeds) : (at + 1) * len(seeds)]) for at, key in enumerate(keys)}
    outcomes = pima.load().column(pima.OUTCOME).to_numpy()
    return Found(
        original=means[None, 1.0, False],
        paper={(phi, rate): means[phi, rate, False] for phi in phis for rate in rates},
        strict={(phi, 1.0): means[phi, 1.0, True] for phi in phis},
        folds=fold_original(),
        majority=float(max(outcomes.mean(), 1 - outcomes.mean())),
    )


def fold_original() -> Agreement:
    """The authors' folds over the original rows; their code includes the outcome among the features."""
    table = pima.load()
    columns = [table.column(name).to_numpy().astype(np.float64) for name in (*pima.FEATURES, pima.OUTCOME)]
    return agreement(np.stack(columns, axis=1), table.column(pima.OUTCOME).to_numpy())


def _figure_4(found: Found, setting: str) -> Result:
    chance = found.majority**2 + (1 - found.majority) ** 2
    result = Result(
        figure="4",
        title="accuracy of k-nearest neighbours on the sampling rate and phi",
        setting=f"{setting} Mean over 10, 15, ... 50 neighbours, as in the authors' code.",
        claims=(
            statements.judge_nearest_original(found),
            statements.judge_nearest_better(found),
            statements.judge_nearest_best(found),
        ),
        notes=(
            "The paper states neither the number of neighbours nor the test rows. The authors' published code "
            "(hallnath1/CASTLEGUARD on GitHub, src/diabetes.py) cuts the rows into ten folds, and compares its "
            "predictions for a fold with the labels of other rows. On the "
            f"original rows that gives {found.folds.with_others:.2%}; with the labels of the fold itself it would be "
            f"{found.folds.with_own:.2%}. Two unrelated labels agree in {chance:.1%} of all cases, "
            f"and always predicting the more frequent one is right in {found.majority:.1%}: so this "
            "measure grows as less is learned.",
        ),
    )
    return _illustrated(result, found, "neighbours", "k-NN: right answers, %")


def _figure_5(found: Found, setting: str) -> Result:
    result = Result(
        figure="5",
        title="accuracy of a neural network on the sampling rate and phi",
        setting=f"{setting} Layers of 256, 64 and 256 neurons, as in the authors' code; {NETWORK.rounds} rounds.",
        claims=(
            statements.judge_network_original(found),
            statements.judge_network_below(found),
            statements.judge_network_best(found),
            statements.judge_no_trend(found),
        ),
        notes=(
            "The paper's percentages are those of 163 and 158 of 231 rows: it has one split, and its differences "
            "amount to a few rows.",
        ),
    )
    return _illustrated(result, found, "network", "neural network: right answers, %")


def _figure_6(found: Found, setting: str) -> Result:
    result = Result(
        figure="6",
        title="area under the ROC curve of a neural network on the sampling rate and phi",
        setting=f"{setting} The same networks as in Figure 5.",
        claims=(statements.judge_area(found),),
        notes=(
            "The authors' code computes the area from predicted outcomes, which have two values; here it is that of "
            "the predicted probabilities. Below 50 % a classifier is worse than a coin: it was trained on boxes and "
            "is tested on points.",
        ),
    )
    return _illustrated(result, found, "area", "neural network: area under the ROC curve, %")


def _illustrated(result: Result, found: Found, name: str, label: str) -> Result:
    """The result with its table, its picture and the shared notes."""
    compared = name == "neighbours"
    return replace(
        result,
        columns=(*_COLUMNS, "the authors' comparison") if compared else _COLUMNS,
        rows=_rows(found, name, with_comparison=compared),
        draw=partial(draw, found, name, label),
        size=(12.5, 4.4),
        notes=(*result.notes, *_SHARED_NOTES),
    )


def _rows(found: Found, name: str, *, with_comparison: bool) -> tuple[tuple[str, ...], ...]:
    named = [
        (("original", "", ""), found.original),
        *((("as printed", f"{phi:,g}", f"{rate:g}"), marks) for (phi, rate), marks in found.paper.items()),
        *((("strict", f"{phi:,g}", f"{rate:g}"), marks) for (phi, rate), marks in found.strict.items()),
    ]
    rows = []
    for words, marks in named:
        compared = found.folds if marks is found.original else marks.agreed
        last = (f"{compared.with_others:.1%}",) if with_comparison else ()
        rows.append((*words, f"{marks.rows}", *(f"{share:.1%}" for share in getattr(marks, name)), *last))
    return tuple(rows)


EXPERIMENT = Experiment(
    paper="castleguard",
    figures=("4", "5", "6"),
    about="what classifiers learn from published rows",
    needs=("pima",),
    run=run,
)


def draw(found: Found, name: str, label: str, figure: Any) -> None:
    """As printed in both scales, strict, and for k-nearest neighbours the authors' comparison."""
    ways = ((found.paper, AS_THEY_ARE), (found.paper, SCALED), (found.strict, SCALED))
    grids = [{key: getattr(marks, name)[at] for key, marks in cells.items()} for cells, at in ways]
    originals = [getattr(found.original, name)[at] for _, at in ways]
    titles = ["as printed, values as they are", "as printed, scaled", "strict, scaled"]
    if name == "neighbours":
        grids.append({key: marks.agreed.with_others for key, marks in found.paper.items()})
        originals.append(found.folds.with_others)
        titles.append("as the authors compare")
    every = [100 * share for grid in grids for share in grid.values()]
    widths = [max(len({rate for _, rate in grid}), 2) for grid in grids]
    panels = figure.subplots(1, len(grids), width_ratios=widths)
    shown = None
    for axes, grid, title, original in zip(panels, grids, titles, originals, strict=True):
        shown = _draw_grid(axes, grid, (min(every), max(every)))
        axes.set_title(f"{title}\n(original: {100 * original:.1f})", fontsize=9)
        axes.set_xlabel("sample rate, beta")
    panels[0].set_ylabel("phi")
    figure.colorbar(shown, ax=list(panels), label=label)


def _draw_grid(axes: Any, grid: Grid, limits: tuple[float, float]) -> Any:
    phis, rates = (sorted({key[at] for key in grid}) for at in (0, 1))
    values = np.array([[100 * grid[phi, rate] for rate in rates] for phi in phis])
    shown = axes.imshow(values, vmin=limits[0], vmax=limits[1], aspect="auto", origin="lower")
    middle = (limits[0] + limits[1]) / 2
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if value < middle else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(phis)), [f"{phi:,g}" for phi in phis])
    return shown
