"""Figure 7 and section 6.4: sites that talk, against one site with all rows and against sites that do not talk.

The paper does not state the l of its sub-figures a to g; here it is 2, as in Figure 6.
"""

from collections.abc import Sequence
from functools import partial

from castleguard.lab.dcastle.charts import Line, Panel, draw_panel, ticks
from castleguard.lab.dcastle.contenders import (
    ALONE,
    ALONE_STRICT,
    CENTRALISED,
    CENTRALISED_STRICT,
    DISTRIBUTED,
    METHODS,
    PROMISE_K,
    STRICT,
    STRICT_FEW,
)
from castleguard.lab.dcastle.design import UNITS, Setting, distinct
from castleguard.lab.dcastle.judging import always, claim, guaranteed, mostly_near, reaches, spread
from castleguard.lab.dcastle.runs import Point
from castleguard.lab.dcastle.study import Study
from castleguard.lab.result import Claim, Result

LETTERS = "abcdefghi"
FIGURES = (*(f"7{letter}" for letter in LETTERS), "7")
MOST_GAIN = 0.35
GAP = 0.05
"""Smallest gap between separate sites and one site that is worth closing."""
_COMPARED = {STRICT: (CENTRALISED_STRICT, ALONE_STRICT), STRICT_FEW: (CENTRALISED_STRICT, ALONE_STRICT)}


def points(study: Study) -> list[Point]:
    """Every method at every point; slow methods at some."""
    return [
        (method, setting)
        for sweep in study.sweeps.values()
        for method in METHODS
        for setting in study.settings(method, sweep)
    ]


def results(study: Study) -> list[Result]:
    """One result per sub-figure, then the statements about all of them."""
    return [*(_result(study, letter) for letter in LETTERS), _all(study)]


def _result(study: Study, letter: str) -> Result:
    sweep = study.sweeps[letter]
    settings = sweep.settings()
    lines = [Line(method, tuple(study.loss(method, setting) for setting in settings)) for method in METHODS]
    panel = Panel(
        ticks=ticks(sweep.values),
        across=f"{UNITS[sweep.varied]}{' of ' + sweep.base.sensitive if sweep.varied == 'l' else ''}",
        up="information loss, 0 to 1",
        lines=tuple(lines),
    )
    talking = (DISTRIBUTED, STRICT, STRICT_FEW)
    return Result(
        figure=f"7{letter}",
        title=f"loss with and without messages, {sweep}",
        setting=study.about(str(sweep)),
        claims=(_near(study, settings), _more(study, settings)),
        columns=(
            UNITS[sweep.varied],
            *(f"loss, {method}" for method in METHODS),
            *(f"bytes, {method}" for method in talking),
            f"groups below k, {DISTRIBUTED}",
        ),
        rows=tuple(
            (
                f"{value:,}",
                *_losses(study, setting),
                *(_bytes(study, method, setting) for method in talking),
                _below(study, setting),
            )
            for value, setting in zip(sweep.values, settings, strict=True)
        ),
        draw=partial(draw_panel, panel),
        size=(8.5, 4.5),
    )


def _losses(study: Study, setting: Setting) -> list[str]:
    losses = [study.loss(method, setting) for method in METHODS]
    return ["-" if loss is None else f"{loss:.4f}" for loss in losses]


def _bytes(study: Study, method: str, setting: Setting) -> str:
    return f"{study.runs.outcome(method, setting).bytes:,}" if study.runs.has(method, setting) else "-"


def _below(study: Study, setting: Setting) -> str:
    found = study.runs.outcome(DISTRIBUTED, setting)
    return f"{found.groups_below_k:,} of {found.groups:,}"


# -- Claims ------------------------------------------------------------------------------------------------------------


def distances(study: Study, settings: Sequence[Setting], method: str, other: str) -> list[float]:
    """Extra loss of one method over another, where both were run."""
    pairs = [(study.loss(method, setting), study.loss(other, setting)) for setting in settings]
    return [own / base - 1 for own, base in pairs if own is not None and base]


def _near(study: Study, settings: Sequence[Setting]) -> Claim:
    found = distances(study, settings, DISTRIBUTED, CENTRALISED)
    return claim(
        "The loss of sites that talk is close to that of one site with all rows most of the time.",
        f"{spread(found)} more.",
        mostly_near(found),
        "Each site has an n-th of the rows and, as the paper sets it, 25 clusters of its own; one site with all rows "
        "has 50 to choose from.",
    )


def _more(study: Study, settings: Sequence[Setting]) -> Claim:
    found = distances(study, settings, ALONE, DISTRIBUTED)
    return claim(
        "Sites that do not talk lose more.",
        f"They lose more at {sum(gain > 0 for gain in found)} of {len(found)} points: {spread(found)}.",
        always([gain > 0 for gain in found]),
        "Sites alone have 50 clusters to choose from, as in the paper; those that talk have 25 of their own.",
    )


def _all(study: Study) -> Result:
    settings = distinct(setting for sweep in study.sweeps.values() for setting in sweep.settings())
    rows = []
    for letter in LETTERS:
        own = study.sweeps[letter].settings()
        cells = [
            _spread(distances(study, own, first, second))
            for method in (DISTRIBUTED, STRICT, STRICT_FEW)
            for central, alone in (_COMPARED.get(method, (CENTRALISED, ALONE)),)
            for first, second in ((method, central), (alone, method))
        ]
        rows.append((f"7{letter}", str(study.sweeps[letter]), *cells))
    return Result(
        figure="7",
        title="loss with and without messages, all points",
        setting=study.about(f"all {len(settings)} points of Figure 7"),
        claims=(
            _near(study, settings),
            _lower_bound(study, settings),
            _more(study, settings),
            _largest_gain(study, settings),
            _closed(study, settings),
            _promise(study, settings),
        ),
        columns=(
            "figure",
            "varied",
            *(
                f"{method}: {words}"
                for method in (DISTRIBUTED, STRICT, STRICT_FEW)
                for words in ("more loss than centralised", "more loss without communication")
            ),
        ),
        rows=tuple(rows),
        notes=(_scale(study), _strict_words(study, settings)),
    )


def _lower_bound(study: Study, settings: Sequence[Setting]) -> Claim:
    found = distances(study, settings, DISTRIBUTED, CENTRALISED)
    return claim(
        "One site with all rows is a lower bound of the loss.",
        f"It loses no more at {sum(more >= 0 for more in found)} of {len(found)} points.",
        always([more >= 0 for more in found]),
        "The delay counts rows of a site, so n sites hold n times as many rows as one when a row has to leave.",
    )


def _largest_gain(study: Study, settings: Sequence[Setting]) -> Claim:
    found = distances(study, settings, ALONE, DISTRIBUTED)
    best = settings[found.index(max(found))]
    return claim(
        f"Sites that do not talk lose up to {MOST_GAIN:.0%} more than those that do.",
        f"{spread(found)}.",
        reaches(found, MOST_GAIN),
        f"Where most is gained ({best}) {_below(study, best)} groups are below k, which the paper does not count.",
    )


def _closed(study: Study, settings: Sequence[Setting]) -> Claim:
    """The paper says that the reduction can reach 100 %, which cannot refer to the loss itself."""
    losses = [
        [study.runs.outcome(method, one).loss for method in (CENTRALISED, DISTRIBUTED, ALONE)] for one in settings
    ]
    closed = [(alone - own) / (alone - central) for central, own, alone in losses if alone > (1 + GAP) * central]
    return claim(
        "The reduction of loss by talking can reach 100 %: read as the gap between no communication and one site.",
        f"There is a gap of more than {GAP:.0%} at {len(closed)} points, and it is closed at "
        f"{sum(share >= 1 for share in closed)}: {_spread(closed)} of it.",
        reaches(closed, 1.0) if closed else "not comparable",
        "Taken literally, a reduction of the loss by 100 % would leave none, against the 35 % of the next sentence.",
    )


def _promise(study: Study, settings: Sequence[Setting]) -> Claim:
    found = [study.runs.outcome(DISTRIBUTED, setting) for setting in settings]
    below = [outcome.groups_below_k for outcome in found]
    kept = [
        study.runs.outcome(method, setting).groups
        for method in sorted(PROMISE_K)
        for setting in settings
        if study.runs.has(method, setting)
    ]
    return claim(
        "A released cluster is guaranteed to have k persons (section 4).",
        f"{sum(below):,} of {sum(outcome.groups for outcome in found):,} groups have fewer, at "
        f"{sum(count > 0 for count in below)} of {len(found)} points; of {sum(kept):,} groups of strict sites none.",
        guaranteed([count == 0 for count in below]),
        "Sites count persons of others towards k who are then published elsewhere, or not at all.",
    )


# -- Words -------------------------------------------------------------------------------------------------------------


def _spread(changes: Sequence[float]) -> str:
    return spread(changes) if changes else "-"


def _scale(study: Study) -> str:
    if study.full:
        return "Every method was run at every point."
    return f"Every method was run at every point, but {STRICT_FEW!r} at the ends and in the middle of each curve only."


def _strict_words(study: Study, settings: Sequence[Setting]) -> str:
    """Results of the strict protocol at the same points."""
    compared = []
    for method, (central, alone) in _COMPARED.items():
        near, more = distances(study, settings, method, central), distances(study, settings, alone, method)
        compared.append(f"{method}: {_spread(near)} against one site, without communication {_spread(more)} more loss")
    return "Strict sites, which the paper does not have: " + "; ".join(compared) + "."
