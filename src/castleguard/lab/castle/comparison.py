"""Figures 9 and 10: CASTLE against dynamicGroup, by information loss and by the errors of queries."""

from collections.abc import Mapping
from typing import NamedTuple

from castleguard.algorithms.policy import Mode
from castleguard.lab.castle import summaries
from castleguard.lab.castle.curves import Panel, Picture
from castleguard.lab.castle.paper_streams import CONTINUOUS, EVEN_CONTINUOUS, Adult
from castleguard.lab.castle.query_errors import Asked, Grouping, answer, grouping_loss, queries_of
from castleguard.lab.castle.repeated_runs import MODES, Run, measure, run_loss
from castleguard.lab.castle.rules import Curve, Judgement, Sample, beats, falls, is_least, together
from castleguard.lab.result import Claim, Result, Scale

KS = (50, 100, 200, 400)
DELAYS, INFINITE = (1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 20_000), 30_162
TICKS = (2_000, 6_000, 10_000, 20_000, INFINITE)
HISTORIES, BEST = (2_000, 4_000, 6_000, 8_000), 8_000
ASKED_KS, THETAS = (50, 100, 200, 300, 400), (0.05, 0.1, 0.15, 0.2, 0.3)
K, THETA, DELAY = 200, 0.1, 20_000
SENSITIVE = "workclass"
LOSS_REPEATS, REPEATS, ASKED_REPEATS = 5, 3, 5
QUICK_ROWS = 3_000

SCALED, RAW = "dynamicGroup, scaled distances", "dynamicGroup, raw distances"
DISTANCES_NOTE = (
    "It is not stated in which units dynamicGroup measures distances. Both are shown: values as they are, where "
    "final-weight, whose values are the largest, decides nearly alone; and values as shares of their domains, which is "
    "how CASTLE measures. Nor is it stated how dynamicGroup was measured, which publishes rows made up from "
    "statistics: here its groups are published as the bounding boxes of their rows."
)


class Losses(NamedTuple):
    """Measurements of figure 9 for one k."""

    castle: Mapping[Mode, Curve]
    """By mode, over the delay."""
    groups: Mapping[str, Mapping[float, Sample]]
    """By unit of distance, over the history."""


def repeat_figure_9(scale: Scale) -> list[Result]:
    """Loss by delay, a figure per k; dynamicGroup has no delay and is drawn as a level."""
    stream = Adult("UCI", CONTINUOUS, rows=QUICK_ROWS if scale.quick else None)
    delays = (500, QUICK_ROWS) if scale.quick else (*DELAYS, INFINITE)
    histories = (500, 1_000) if scale.quick else HISTORIES
    castle = {
        k: {
            mode: {
                float(delay): [
                    Run(stream=stream, k=k, delay=delay, mode=mode, seed=seed)
                    for seed in summaries.seeds_of(scale, LOSS_REPEATS)
                ]
                for delay in delays
            }
            for mode in MODES
        }
        for k in KS
    }
    groups = {
        k: {
            name: {
                float(history): [
                    Grouping(stream=stream, k=k, history=history, scaled=name == SCALED, seed=seed)
                    for seed in summaries.seeds_of(scale, REPEATS)
                ]
                for history in histories
            }
            for name in (SCALED, RAW)
        }
        for k in KS
    }
    ours = measure(scale, run_loss, [run for grid in castle.values() for run in summaries.flat(grid)])
    theirs = measure(scale, grouping_loss, [run for grid in groups.values() for run in summaries.flat(grid)])
    return [
        _result_9(
            f"9{letter}",
            k,
            Losses(
                summaries.curves(castle[k], ours, lambda outcome: outcome.loss),
                summaries.curves(groups[k], theirs, float),
            ),
            scale,
        )
        for letter, k in zip("abcd", KS, strict=True)
    ]


def best_of(histories: Mapping[float, Sample]) -> Sample:
    """The history with which dynamicGroup does best, as in the paper."""
    return min(histories.values(), key=lambda sample: sample.mean)


def _result_9(figure: str, k: int, losses: Losses, scale: Scale) -> Result:
    lines = {f"CASTLE, {mode}": curve for mode, curve in losses.castle.items()}
    levels = {name: best_of(histories) for name, histories in losses.groups.items()}
    columns, rows = summaries.table_of("delta", lines)
    shown = tuple((*row, *(str(level) for level in levels.values())) for row in rows)
    picture = Picture(
        panels=[Panel(f"k = {k}", lines)],
        across="δ (the last one is the whole stream)",
        ticks=None if scale.quick else TICKS,
        levels={name: level.mean for name, level in levels.items()},
    )
    return Result(
        figure=figure,
        title=f"Information loss of CASTLE and dynamicGroup, k={k}",
        setting=_setting(scale, f"six continuous quasi-identifiers, k={k}", LOSS_REPEATS)
        + f", of dynamicGroup {len(summaries.seeds_of(scale, REPEATS))}",
        claims=claims_9(losses),
        columns=(*columns, *levels),
        rows=shown,
        draw=picture,
        size=picture.size,
        notes=(
            summaries.LOSS_NOTE,
            summaries.POINTS_NOTE,
            DISTANCES_NOTE,
            "All rows of dynamicGroup count, also those of its history. Loss by history: "
            + "; ".join(
                f"{name}: " + ", ".join(f"{sample.mean:.3f} ({n:,.0f})" for n, sample in histories.items())
                for name, histories in losses.groups.items()
            )
            + ".",
        ),
    )


def claims_9(losses: Losses) -> tuple[Claim, ...]:
    """The paper's statements about the delay, both methods, and the history."""
    castle = losses.castle["paper"]
    stated = 10_000.0 if 10_000.0 in castle else next(iter(castle))
    longest = list(castle)[-1]
    return (
        summaries.claim(
            "As δ increases, the information loss of CASTLE decreases.",
            falls(castle),
            strict=falls(losses.castle["strict"]),
            reason="The longer the delay, the more rows the end of the stream decides, and the rest then leaves as one "
            "wide cluster.",
        ),
        summaries.claim(
            "When δ is 10,000, CASTLE outperforms dynamicGroup.",
            _against(losses, "paper", stated),
            strict=_against(losses, "strict", stated),
            reason="It depends on the units of dynamicGroup's distances, which are not stated: with raw values it "
            "groups by final-weight nearly alone and loses much in all other attributes; with shares of the domains "
            "it groups as CASTLE does and has all rows at hand, where CASTLE has 10,000.",
        ),
        summaries.claim(
            "For a fair comparison δ must be infinite; CASTLE loses less then.",
            _against(losses, "paper", longest),
            strict=_against(losses, "strict", longest),
            reason="With all rows at hand both methods make groups of k rows and more of the nearest ones.",
        ),
        summaries.claim(
            "The best history of dynamicGroup is n=8,000.",
            together({name: is_least(histories, (max(histories),)) for name, histories in losses.groups.items()}),
            reason="Longer histories help, but the last steps are smaller than the spread of the runs.",
        ),
    )


def _against(losses: Losses, mode: Mode, delay: float) -> Judgement:
    ours = {delay: losses.castle[mode][delay]}
    return together({name: beats(ours, {delay: best_of(each)}) for name, each in losses.groups.items()})


def repeat_figure_10(scale: Scale) -> list[Result]:
    """Error by k and by selectivity."""
    rows = QUICK_ROWS if scale.quick else None
    stream = Adult("UCI", EVEN_CONTINUOUS, SENSITIVE, rows)
    names = [*(f"CASTLE, {mode}" for mode in MODES), SCALED, RAW]
    seeds = summaries.seeds_of(scale, ASKED_REPEATS)
    methods = {(name, k): [_method(name, stream, k, seed, scale) for seed in seeds] for name in names for k in ASKED_KS}
    by_k = {
        name: {
            float(k): [_ask(each, THETA, scale) for each in methods[name, k]] for k in summaries.some(ASKED_KS, scale)
        }
        for name in names
    }
    by_theta = {
        name: {
            theta: [_ask(each, theta, scale) for each in methods[name, K]] for theta in summaries.some(THETAS, scale)
        }
        for name in names
    }
    found = measure(scale, answer, summaries.flat(by_k) + summaries.flat(by_theta))
    return [
        _result_10("10a", "k", summaries.curves(by_k, found, float), f"theta={THETA:g}", scale),
        _result_10("10b", "selectivity θ", summaries.curves(by_theta, found, float), f"k={K}", scale),
    ]


def _method(name: str, stream: Adult, k: int, seed: int, scale: Scale) -> Run | Grouping:
    for mode in MODES:
        if name == f"CASTLE, {mode}":
            return Run(stream=stream, k=k, delay=2_000 if scale.quick else DELAY, mode=mode, seed=seed)
    return Grouping(stream=stream, k=k, history=800 if scale.quick else BEST, scaled=name == SCALED, seed=seed)


def _ask(method: Run | Grouping, theta: float, scale: Scale) -> Asked:
    return Asked(method=method, selectivity=theta, queries=queries_of(scale))


def _result_10(figure: str, varied: str, errors: Mapping[str, Curve], rest: str, scale: Scale) -> Result:
    table = summaries.table_of(varied, errors)
    picture = Picture(panels=[Panel("", errors)], across=varied, up="workload error (median relative error)")
    result = Result(
        figure=figure,
        title=f"Workload error of CASTLE and dynamicGroup by {varied}",
        setting=_setting(scale, f"four continuous quasi-identifiers, delta={DELAY:,}, {rest}", ASKED_REPEATS),
        claims=(claim_10(errors),),
        notes=(
            summaries.POINTS_NOTE,
            f"One window with all rows, because dynamicGroup publishes at the end; {queries_of(scale):,} queries "
            "per run, different ones in every run, the same for all methods. Points are means, bars standard "
            "deviations, over the runs.",
            f"The sensitive attribute is not stated; it is {SENSITIVE} here. The history of dynamicGroup is {BEST:,}, "
            "the best one of the paper.",
            DISTANCES_NOTE,
        ),
    )
    return summaries.illustrate(result, table, picture)


def claim_10(errors: Mapping[str, Curve]) -> Claim:
    """Whether CASTLE answers better, against both units of distance."""
    judged = {
        mode: together({name: beats(errors[f"CASTLE, {mode}"], errors[name]) for name in (SCALED, RAW)})
        for mode in MODES
    }
    return summaries.claim(
        "CASTLE outperforms dynamicGroup.",
        judged["paper"],
        strict=judged["strict"],
        reason="The errors come from final-weight, as in figure 8. With raw distances dynamicGroup groups by it nearly "
        "alone, and so answers these queries well, though it loses the other attributes; with scaled distances both "
        "methods are close to one another.",
    )


def _setting(scale: Scale, rest: str, repeats: int) -> str:
    data = f"the first {QUICK_ROWS:,} rows of UCI-Adult, shorter delays" if scale.quick else "UCI-Adult"
    return f"{data}; {rest}; {len(summaries.seeds_of(scale, repeats))} run(s) per point, seeds from {scale.seed}"
