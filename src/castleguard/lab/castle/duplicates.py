"""Figure 7: information loss with several rows per person, by the number of quasi-identifiers and by k."""

from collections.abc import Mapping

from castleguard.algorithms.policy import Mode
from castleguard.lab.castle import summaries
from castleguard.lab.castle.curves import Panel, Picture
from castleguard.lab.castle.paper_streams import LISTED, Purchases
from castleguard.lab.castle.repeated_runs import MODES, Run, measure, run_loss
from castleguard.lab.castle.rules import Curve, grows, together
from castleguard.lab.result import Result, Scale

DUPLICATES = (5, 10, 15)
SIZES, KS = (2, 4, 6, 8, 10), (50, 100, 150, 200, 300)
K, SIZE, DELAY = 100, 4, 10_000
REPEATS = 3

Lines = Mapping[tuple[int, Mode], Curve]  # by dup and mode


def repeat_figure_7(scale: Scale) -> list[Result]:
    """Loss by the number of quasi-identifiers and by k, a line per mean number of items."""
    lines = [(dup, mode) for mode in MODES for dup in DUPLICATES]
    by_size = {
        line: {float(size): _runs(line, size, K, DELAY, scale) for size in summaries.some(SIZES, scale)}
        for line in lines
    }
    by_k = {line: {float(k): _runs(line, SIZE, k, DELAY, scale) for k in summaries.some(KS, scale)} for line in lines}
    # The other reading of the delay: it counts transactions, and all items of a transaction arrive together.
    (few, *_), at = DUPLICATES, float(SIZE)
    whole = {few: {at: _runs((few, "paper"), SIZE, K, DELAY * few, scale)}}
    found = measure(scale, run_loss, summaries.flat(by_size) + summaries.flat(by_k) + summaries.flat(whole))
    first, second = (summaries.curves(grid, found, lambda outcome: outcome.loss) for grid in (by_size, by_k))
    (other,) = summaries.curves(whole, found, lambda outcome: outcome.loss).values()
    note = (
        "The delay counts the rows after a transaction was split into its items. If it counts transactions instead, "
        f"dup times as many rows are held: with dup = {few}, {SIZE} quasi-identifiers and k={K} the loss is then "
        f"{other[at]}."
    )
    return [
        _result("7a", "number of quasi-identifiers", first, f"k={K}", scale, note),
        _result("7b", "k", second, f"the first {SIZE} quasi-identifiers", scale, note),
    ]


def _runs(line: tuple[int, Mode], size: int, k: int, delay: int, scale: Scale) -> list[Run]:
    duplicates, mode = line
    rows = 10_000 if scale.quick else Purchases.rows
    delay = delay // 5 if scale.quick else delay
    # Every run has its own random customers.
    return [
        Run(stream=Purchases(duplicates, LISTED[:size], rows=rows, seed=seed), k=k, delay=delay, mode=mode, seed=seed)
        for seed in summaries.seeds_of(scale, REPEATS)
    ]


def _result(figure: str, varied: str, losses: Lines, rest: str, scale: Scale, delay_note: str) -> Result:
    table = summaries.table_of(varied, {f"dup = {dup}, {mode}": curve for (dup, mode), curve in losses.items()})
    picture = Picture(
        panels=[
            Panel(f"{mode} mode", {f"dup = {dup}": curve for (dup, of), curve in losses.items() if of == mode})
            for mode in MODES
        ],
        across=varied,
    )
    judged = {
        mode: together({f"dup = {dup}": grows(curve) for (dup, of), curve in losses.items() if of == mode})
        for mode in MODES
    }
    states = (
        "In general, when the size of QI increases, the information quality degrades."
        if figure == "7a"
        else "When k increases, the information loss is uniformly increased."
    )
    reason = (
        "The loss is a mean over the attributes, and some of them cost less than those before them, as in figure 5a."
        if figure == "7a"
        else f"The {DELAY:,} rows held belong to only a few hundred persons where each has 15 rows or more."
    )
    paper, strict = ([curve for (_, of), curve in losses.items() if of == mode] for mode in MODES)
    example = Purchases(DUPLICATES[0], LISTED, rows=10_000 if scale.quick else Purchases.rows)
    result = Result(
        figure=figure,
        title=f"Information loss by {varied} where persons have several rows",
        setting=f"UCI-Adult joined with made-up transactions, {example.per_customer:g} per customer and dup items "
        f"each on average, the first {example.rows:,} rows; {rest}, "
        f"delta={DELAY // 5 if scale.quick else DELAY:,}; {len(summaries.seeds_of(scale, REPEATS))} run(s) per point, "
        f"each with its own data, seeds from {scale.seed}",
        claims=(summaries.claim(states, judged["paper"], strict=judged["strict"], reason=reason),),
        notes=(
            summaries.LOSS_NOTE,
            summaries.END_NOTE,
            summaries.POINTS_NOTE,
            summaries.ORDER_NOTE,
            _DATA_NOTE,
            delay_note,
            summaries.difference_note(paper, strict),
        ),
    )
    return summaries.illustrate(result, table, picture)


_DATA_NOTE = (
    "The paper's transactions come from the IBM Quest generator, with settings that it does not state. Here customers "
    "and items are drawn as there (Poisson distributed numbers, some items more popular than others), without Quest's "
    "hidden patterns: items are not quasi-identifiers, and CASTLE never looks at them. A stream ends after 150,000 "
    "rows. Customers after the 30,162nd have the attributes of a random person, as in the paper; with 10 and 15 items "
    "the stream ends before they arrive."
)
