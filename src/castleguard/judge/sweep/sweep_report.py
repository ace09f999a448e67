"""Results of a sweep as files: a table with all figures, and a report with the recommendation."""

import csv
import io
from collections.abc import Mapping
from dataclasses import fields

from castleguard.judge.report import markdown
from castleguard.judge.sweep.advice import Advice, number
from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.folder import PICTURE
from castleguard.judge.sweep.parameter_grid import Grid, in_words, shown
from castleguard.judge.sweep.weighing import Weighed

_COLUMNS = {
    "loss": "loss",
    "information_loss": "of published rows",
    "published": "published",
    "suppressed": "suppressed",
    "sampled_out": "sampled out",
    "over_budget": "over budget",
    "untrue": "untrue values",
    "groups": "groups",
    "smallest_group": "smallest",
    "mean_risk": "mean risk",
    "highest_risk": "highest risk",
    "largest_share": "largest share",
    "epsilon": "epsilon stated",
    "delta": "delta",
    "delay": "waits at most",
    "longest_wait": "longest wait",
    "rows_per_second": "rows/s",
}
_SHARES = ("published", "suppressed", "sampled_out", "over_budget", "untrue")
_WHOLE = ("groups", "smallest_group", "delay", "longest_wait", "rows_per_second")
_ALWAYS = ("loss", "published", "suppressed", "rows_per_second")


def as_csv(weighed: Weighed, grid: Grid) -> bytes:
    """All figures, one line per setting, with its number in the Pareto set."""
    ranks = pareto_numbers(weighed)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Figures)]
    # A parameter may have the name of a figure, so rename it.
    parameters = [name if name not in names else f"{name}_given" for name in grid.lists]
    writer.writerow([*parameters, "pareto", *names])
    for at, outcome in enumerate(weighed.outcomes):
        given = [value for _, value in outcome.setting.parameters]
        writer.writerow([*given, ranks.get(at, ""), *(getattr(outcome.figures, name) for name in names)])
    return text.getvalue().encode()


def as_report(about: Mapping[str, str], weighed: Weighed, grid: Grid, advice: Advice, *, picture: bool) -> bytes:
    """Input, recommendation and table in Markdown."""
    titles, *rows = rows_of(weighed, grid, advice.chosen)
    lines = ["# Parameters", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["## Recommendation", "", advice.sentences[0], ""]
    lines += [*(f"- {sentence}" for sentence in advice.sentences[1:]), ""]
    lines += [*(f"**Note:** {warning}\n" for warning in advice.warnings)]
    if picture:
        lines += [f"![Loss against risk]({PICTURE})", ""]
    lines += ["## Settings", "", *markdown.table(titles, rows, right=True), ""]
    if grid.refused:
        lines += ["## Refused", "", "These combinations are refused:", ""]
        lines += [f"- {in_words(each.parameters, grid.varied)}: {each.reason}" for each in grid.refused]
        lines.append("")
    lines += ["## How to read it", "", *(f"- {sentence}" for sentence in reading(weighed)), ""]
    return "\n".join(lines).encode()


def reading(weighed: Weighed) -> tuple[str, ...]:
    """Explanation of the figures."""
    risk = (
        f"The risk is the epsilon of the policy's guarantee, for {'; or for '.join(weighed.claims)}. "
        "Its delta has a separate column; below 1e-9 it counts as 0. k is not part of this risk."
        if weighed.by_epsilon
        else "The risk is the probability of identifying the person of a published row within its group: 1 divided by "
        "the persons of the group, as the mean over all published rows. The highest risk is that of the smallest group."
    )
    return (
        "A number in the first column marks a setting of the Pareto set: no other setting is at least as good in loss, "
        "risk, delay and delta, and better in one of them. The picture shows the same numbers. The recommended setting "
        "has a star.",
        "The loss is 0 for a row with exact values and 1 for a row with whole domains. A row that is suppressed, "
        "sampled out or over budget counts as 1, and so does a quasi-identifier whose true value lies outside its "
        "published range.",
        risk,
        "Largest share: the largest share of a group's rows with the same sensitive value. At 1, a group reveals its "
        "value.",
        "The figures depend on rows that were not published, so they are for the operator only. The runs were seeded, "
        "and their output was not kept.",
    )


def pareto_numbers(weighed: Weighed) -> dict[int, int]:
    """Numbers of the settings in the Pareto set, from 1, in the order of their risk."""
    return {at: rank for rank, at in enumerate(weighed.best, start=1)}


def rows_of(weighed: Weighed, grid: Grid, chosen: int, *, only_best: bool = False) -> list[list[str]]:
    """Table as text, titles first, without empty columns and without parameters that have a single value."""
    ranks = pareto_numbers(weighed)
    names = [name for name in _COLUMNS if name in _ALWAYS or _has_values(weighed, name)]
    if "delay" in grid.varied and all(
        outcome.figures.delay == outcome.setting.value("delay") for outcome in weighed.outcomes
    ):
        names.remove("delay")
    if "epsilon" in grid.varied and all(
        outcome.figures.epsilon == outcome.setting.value("epsilon") for outcome in weighed.outcomes
    ):
        names.remove("epsilon")
    table = [["", *grid.varied, *(_COLUMNS[name] for name in names)]]
    for at in weighed.best if only_best else range(len(weighed.outcomes)):
        outcome = weighed.outcomes[at]
        mark = f"{ranks.get(at, '')}{'*' if at == chosen else ''}"
        given = [shown(outcome.setting.value(name)) for name in grid.varied]
        table.append([mark, *given, *(_shown(name, getattr(outcome.figures, name)) for name in names)])
    return table


def _has_values(weighed: Weighed, name: str) -> bool:
    return any(getattr(outcome.figures, name) for outcome in weighed.outcomes)


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name in _SHARES:
        return f"{value:.1%}"
    return f"{value:,.0f}" if name in _WHOLE else number(value)
