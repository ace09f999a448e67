"""Figure 6: information loss on power-law data, by their skew, for several delays and k."""

from collections.abc import Mapping

from castleguard.algorithms.policy import Mode
from castleguard.lab.castle import summaries
from castleguard.lab.castle.curves import Panel, Picture
from castleguard.lab.castle.paper_streams import PowerLaw
from castleguard.lab.castle.repeated_runs import MODES, Run, measure, run_loss
from castleguard.lab.castle.rules import Curve, Judgement, falls, is_at_most, together
from castleguard.lab.result import Claim, Result, Scale

KS = (100, 400, 700, 1_000)
ALPHAS, DELAYS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0), (2_000, 5_000, 10_000, 20_000)
ROWS, REPEATS = 50_000, 3
EFFECTIVE = 0.1
"""Loss of clustered data below which CASTLE counts as very effective; the paper names no value."""

Lines = Mapping[tuple[int, Mode], Curve]  # by delay and mode, over alpha


def repeat_figure_6(scale: Scale) -> list[Result]:
    """Loss by alpha, a line per delay, a figure per k."""
    grids = {
        k: {
            (delay, mode): {alpha: _runs(k, delay, mode, alpha, scale) for alpha in summaries.some(ALPHAS, scale)}
            for mode in MODES
            for delay in summaries.some(DELAYS, scale)
        }
        for k in KS
    }
    found = measure(scale, run_loss, [run for grid in grids.values() for run in summaries.flat(grid)])
    return [
        _result(f"6{letter}", k, summaries.curves(grids[k], found, lambda outcome: outcome.loss), scale)
        for letter, k in zip("abcd", KS, strict=True)
    ]


def _runs(k: int, delay: int, mode: Mode, alpha: float, scale: Scale) -> list[Run]:
    rows = 4_000 if scale.quick else ROWS
    # Every run has its own random data.
    return [
        Run(stream=PowerLaw(alpha, rows, seed=seed), k=k, delay=delay, mode=mode, seed=seed)
        for seed in summaries.seeds_of(scale, REPEATS)
    ]


def _result(figure: str, k: int, losses: Lines, scale: Scale) -> Result:
    named = {f"δ = {delay:,}, {mode}": curve for (delay, mode), curve in losses.items()}
    table = summaries.table_of("alpha", named)
    picture = Picture(
        panels=[
            Panel(f"k = {k:,}, {mode} mode", {f"δ = {d:,}": curve for (d, of), curve in losses.items() if of == mode})
            for mode in MODES
        ],
        across="alpha of the power law",
    )
    paper, strict = ([curve for (_, of), curve in losses.items() if of == mode] for mode in MODES)
    example = PowerLaw(1.0, 4_000 if scale.quick else ROWS)
    result = Result(
        figure=figure,
        title=f"Information loss on power-law data, k={k:,}",
        setting=f"{example.rows:,} rows of {example.columns} attributes with whole numbers from 1 to "
        f"{example.largest:,}; k={k:,}; {len(summaries.seeds_of(scale, REPEATS))} run(s) per point, each with its own "
        f"data, seeds from {scale.seed}",
        claims=claims(losses),
        notes=(
            summaries.LOSS_NOTE,
            summaries.END_NOTE,
            "The paper states neither how many rows and attributes its data have, nor N, nor alpha and δ: they are "
            "chosen here. The attributes do not depend on each other, and persons occur once.",
            summaries.difference_note(paper, strict),
        ),
    )
    return summaries.illustrate(result, table, picture)


def claims(losses: Lines) -> tuple[Claim, ...]:
    """Whether clustered data lose little, and the trends over alpha and delta."""
    by_mode = {mode: {f"δ = {d:,}": curve for (d, of), curve in losses.items() if of == mode} for mode in MODES}
    by_delay: dict[Mode, dict[str, Judgement]] = {mode: _by_delay(losses, mode) for mode in MODES}
    ends = {mode: [list(curve.values())[-1] for curve in by_mode[mode].values()] for mode in MODES}
    small = {mode: is_at_most(ends[mode], EFFECTIVE) for mode in MODES}
    alpha = {mode: together({name: falls(curve) for name, curve in by_mode[mode].items()}) for mode in MODES}
    delay = {mode: together(by_delay[mode]) for mode in MODES}
    top = max(alpha for curve in losses.values() for alpha in curve)
    return (
        summaries.claim(
            "CASTLE is very effective for clustered data.",
            small["paper"],
            strict=small["strict"],
            reason=f"Judged by a loss of at most {EFFECTIVE:g} at alpha = {top:g}, a threshold that is chosen here.",
        ),
        summaries.claim(
            "The more clustered the data (the larger alpha), the smaller the loss.",
            alpha["paper"],
            strict=alpha["strict"],
            reason=_reason_alpha(losses),
        ),
        summaries.claim(
            "The longer the delay δ, the smaller the loss.",
            delay["paper"],
            strict=delay["strict"],
            reason="Where nearly everything is one value there is nothing left to gain from waiting.",
        ),
    )


def _by_delay(losses: Lines, mode: Mode) -> dict[str, Judgement]:
    """Per alpha, whether the loss falls with the delay."""
    lines = {delay: curve for (delay, of), curve in losses.items() if of == mode}
    alphas = list(next(iter(lines.values())))
    return {f"alpha = {alpha:g}": falls({float(d): curve[alpha] for d, curve in lines.items()}) for alpha in alphas}


def _reason_alpha(losses: Lines) -> str:
    worst = max(sample.mean for curve in losses.values() for sample in curve.values())
    return (
        f"Where k is a large part of the rows that are held (δ), boxes are nearly the whole domain for small "
        f"alpha (losses up to {worst:.2f}), and level there."
    )
