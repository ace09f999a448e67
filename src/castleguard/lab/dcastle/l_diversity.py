"""Figure 6 and section 6.3: the cost of l-diversity on top of k-anonymity."""

from collections.abc import Sequence
from functools import partial

from castleguard.lab.dcastle.charts import Line, Panel, draw_panel, ticks
from castleguard.lab.dcastle.contenders import DISTRIBUTED, STRICT, STRICT_FEW
from castleguard.lab.dcastle.design import UNITS, Setting, Sweep, Varied, distinct
from castleguard.lab.dcastle.judging import always, claim, combined, in_range, insignificant, spread, trend
from castleguard.lab.dcastle.runs import Point
from castleguard.lab.dcastle.study import Study
from castleguard.lab.result import Claim, Result

LETTERS = "abcdefgh"
FIGURES = (*(f"6{letter}" for letter in LETTERS), "6")
L = 2
COST = 0.20, 0.27
STATED: dict[Varied, bool | None] = {"columns": True, "k": True, "delay": False, "sites": None, "l": None}
"""Varied parameter, and whether the loss is said to grow with it; None: insignificantly."""


def points(study: Study) -> list[Point]:
    """Every point with and without l, for sites that talk."""
    return [
        (method, point)
        for method in _methods(study)
        for sweep in _sweeps(study)
        for setting in study.settings(method, sweep)
        for point in (setting, setting.without_l)
    ]


def results(study: Study) -> list[Result]:
    """One result per sub-figure, then the statements about all of them."""
    return [*(_result(study, letter) for letter in LETTERS), _all(study)]


def _methods(study: Study) -> tuple[str, ...]:
    return (DISTRIBUTED, STRICT, STRICT_FEW) if study.full else (DISTRIBUTED, STRICT)


def _sweeps(study: Study) -> list[Sweep]:
    return [study.sweeps[letter].of_l(L) for letter in LETTERS]


def _pair(study: Study, method: str, setting: Setting) -> tuple[float, float]:
    """Losses of k-anonymity, and with l."""
    return study.runs.outcome(method, setting.without_l).loss, study.runs.outcome(method, setting).loss


def _costs(study: Study, method: str, settings: Sequence[Setting]) -> list[float]:
    """Extra loss with l, per point."""
    return [diverse / plain - 1 for plain, diverse in (_pair(study, method, setting) for setting in settings)]


def _result(study: Study, letter: str) -> Result:
    sweep = study.sweeps[letter].of_l(L)
    label = "l as below" if sweep.varied == "l" else f"l={L}"
    lines, columns = [], [UNITS[sweep.varied]]
    for method in _methods(study):
        name = "as printed" if method == DISTRIBUTED else method.removeprefix("distributed, ")
        for way, point in (("k-anonymity", 0), (f"l-diversity, {label}", 1)):
            lines.append(
                Line(
                    f"{way},\n{name}",
                    tuple(_pair(study, method, one)[point] for one in study.settings(method, sweep)),
                )
            )
            columns.append(f"loss, {way}, {name}")
        columns.append(f"more, {name}")
    return Result(
        figure=f"6{letter}",
        title=f"loss of k-anonymity and l-diversity, {sweep}",
        setting=study.about(f"dCASTLE, {sweep}; k-anonymity has the same quasi-identifiers and no l"),
        claims=(_trend(study, sweep), _more(study, sweep)),
        columns=tuple(columns),
        rows=tuple(
            _row(study, sweep, setting, value) for value, setting in zip(sweep.values, sweep.settings(), strict=True)
        ),
        draw=partial(
            draw_panel,
            Panel(
                ticks=ticks(sweep.values), across=UNITS[sweep.varied], up="information loss, 0 to 1", lines=tuple(lines)
            ),
        ),
    )


def _row(study: Study, sweep: Sweep, setting: Setting, value: int) -> tuple[str, ...]:
    cells = [f"{value:,}"]
    for method in _methods(study):
        if setting not in study.settings(method, sweep):
            cells += ["-"] * 3
            continue
        plain, diverse = _pair(study, method, setting)
        cells += [f"{plain:.4f}", f"{diverse:.4f}", f"{diverse / plain - 1:+.1%}"]
    return tuple(cells)


def _trend(study: Study, sweep: Sweep) -> Claim:
    pairs = [_pair(study, DISTRIBUTED, setting) for setting in sweep.settings()]
    plain, diverse = ([pair[number] for pair in pairs] for number in (0, 1))
    rising, what = STATED[sweep.varied], UNITS[sweep.varied]
    if sweep.varied == "l":
        found, curves = f"From {diverse[0]:.3f} to {diverse[-1]:.3f}.", [diverse]
    else:
        found = (
            f"From {plain[0]:.3f} to {plain[-1]:.3f} without l, from {diverse[0]:.3f} to {diverse[-1]:.3f} with l={L}."
        )
        curves = [plain, diverse]
    if rising is None:
        stated = f"The loss grows insignificantly with {what}."
        verdict = combined([insignificant(curve) for curve in curves])
    else:
        stated = f"The loss {'grows' if rising else 'falls'} with {what}."
        verdict = combined([trend(curve, rising=rising) for curve in curves])
    return claim(stated, found, verdict, _uneven(study, sweep))


def _more(study: Study, sweep: Sweep) -> Claim:
    costs = _costs(study, DISTRIBUTED, sweep.settings())
    return claim(
        "l-diversity always loses more than k-anonymity.",
        f"More at {sum(cost > 0 for cost in costs)} of {len(costs)} points: {spread(costs)}.",
        always([cost > 0 for cost in costs]),
        _reason(study),
    )


def _reason(study: Study) -> str:
    share = study.runs.data.commonest(Setting().sensitive)
    return (
        f"The most common workclass has {share:.0%} of the rows, so few clusters of k persons lack a second value; the "
        "remaining effect is that with l clusters are split by values, not by distance alone."
    )


def _uneven(study: Study, sweep: Sweep) -> str:
    if sweep.varied == "delay":
        rows = study.runs.data.table.num_rows // sweep.base.sites
        return f"A site has {rows:,} rows: a longer delay changes nothing."
    if sweep.varied == "sites":
        return "With more sites, each has fewer rows to form clusters from, and sharing boxes does not compensate."
    return "One run per point, and the sites' choices are drawn: curves are uneven."


def _all(study: Study) -> Result:
    low, high = COST
    sweeps = [sweep for sweep in _sweeps(study) if sweep.varied != "l"]
    own = _costs(study, DISTRIBUTED, distinct(setting for sweep in sweeps for setting in sweep.settings()))
    rows = [
        (
            f"6{letter}",
            str(sweep),
            *(spread(_costs(study, method, study.settings(method, sweep))) for method in _methods(study)),
        )
        for letter, sweep in zip(LETTERS, _sweeps(study), strict=True)
    ]
    return Result(
        figure="6",
        title="what l-diversity costs, all points",
        setting=study.about(f"dCASTLE, all points of Figure 6 but 6h, l={L} of workclass against no l"),
        claims=(
            claim(
                f"l={L} costs {low:.0%} to {high:.0%} more loss.",
                f"{spread(own)}; {sum(low <= cost <= high for cost in own)} of {len(own)} points in that range.",
                in_range(own, low, high),
                _reason(study),
            ),
        ),
        columns=("figure", "varied", *(f"more loss with l, {method}" for method in _methods(study))),
        rows=tuple(rows),
    )
