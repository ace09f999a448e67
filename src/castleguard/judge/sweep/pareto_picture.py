"""Picture of a sweep: loss against risk, with the Pareto set marked. Needs matplotlib, the extra `plot`."""

import io
from typing import Any

import numpy as np

from castleguard.drawing import COLOURS, INK, LINES, canvas
from castleguard.judge.sweep.parameter_grid import Grid, Value, shown
from castleguard.judge.sweep.sweep_report import pareto_numbers
from castleguard.judge.sweep.weighing import Weighed

_FILLS = ("full", "none", "left", "top")
_LOG_FROM = 20.0
_KEY_LINES = 26
_AROUND = tuple((12 * np.cos(angle), 12 * np.sin(angle)) for angle in np.radians([40, 0, -40, 140, 180, 220, 90, 270]))
_ENOUGH = 11.0  # sufficient distance in points between a number and its neighbours


def draw(weighed: Weighed, grid: Grid, chosen: int, *, title: str) -> bytes:
    """Draw the picture as PNG. Raises ModuleNotFoundError without matplotlib."""
    target = io.BytesIO()
    columns = -(-len(weighed.best) // _KEY_LINES)
    with canvas(target, width=9.5 + 2.2 * (columns - 1), height=6.2) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[3.0, 1.0 * columns])
        _lines(left, weighed, grid)
        _rings(left, weighed, chosen)
        _axes(left, weighed, title)
        _key(right, weighed, grid, chosen)
        figure.draw_without_rendering()
        _numbers(left, weighed)
    return target.getvalue()


def roles(grid: Grid) -> tuple[str, str | None, str | None]:
    """Parameters that are shown along lines, by line style, and by marker filling."""
    names = list(grid.varied)
    along = next((name for name in ("epsilon", "phi", "k") if name in names), names[0])
    names.remove(along)
    style = "delay" if "delay" in names else next(iter(names), None)
    if style is not None:
        names.remove(style)
    return along, style, next(iter(names), None)


def _lines(axes: Any, weighed: Weighed, grid: Grid) -> None:
    """Draw one line for every combination of all parameters but one."""
    along, style, filling = roles(grid)
    lines: dict[tuple[tuple[str, Value], ...], list[int]] = {}
    for at, outcome in enumerate(weighed.outcomes):
        rest = tuple(pair for pair in outcome.setting.parameters if pair[0] != along)
        lines.setdefault(rest, []).append(at)
    for rest, members in lines.items():
        given = dict(rest)
        look = dict(LINES[_place(grid, style, given) % len(LINES)])
        fill = _FILLS[_place(grid, filling, given) % len(_FILLS)]
        axes.plot(
            [weighed.risk(at) for at in members], [weighed.loss(at) for at in members],
            **look, fillstyle=fill, markerfacecoloralt="white", zorder=2,
        )  # fmt: skip
    _legend(axes, grid, style, filling)


def _place(grid: Grid, name: str | None, given: dict[str, Value]) -> int:
    return 0 if name is None else grid.lists[name].index(given[name])


def _legend(axes: Any, grid: Grid, style: str | None, filling: str | None) -> None:
    handles = []
    for name, looks in ((style, LINES), (filling, _FILLS)):
        if name is None:
            continue
        for at, value in enumerate(grid.lists[name]):
            look = looks[at % len(looks)]
            if isinstance(look, dict):
                handles += axes.plot([], [], **look, label=f"{name} = {shown(value)}")
            else:
                handles += axes.plot(
                    [], [], color=INK, linestyle="none", marker="o", fillstyle=look, markerfacecoloralt="white",
                    label=f"{name} = {shown(value)}",
                )  # fmt: skip
    if handles:
        axes.legend(handles=handles, frameon=False, fontsize=8.5)


def _rings(axes: Any, weighed: Weighed, chosen: int) -> None:
    """Draw a ring around every setting of the Pareto set, and two around the recommended one."""
    for at in weighed.best:
        place = (weighed.risk(at), weighed.loss(at))
        axes.plot(*place, marker="o", markersize=11, fillstyle="none", color=INK, markeredgewidth=1.0, zorder=3)
    place = (weighed.risk(chosen), weighed.loss(chosen))
    axes.plot(*place, marker="o", markersize=16, fillstyle="none", color=COLOURS[3], markeredgewidth=2.0, zorder=3)


def _numbers(axes: Any, weighed: Weighed) -> None:
    """Place the number of every ring next to it without covering others. Needs the final layout."""
    numbers: dict[tuple[float, float], list[str]] = {}
    for at, rank in pareto_numbers(weighed).items():
        numbers.setdefault((weighed.risk(at), weighed.loss(at)), []).append(str(rank))
    points_per_pixel = 72 / axes.figure.dpi
    rings = axes.transData.transform(list(numbers)) * points_per_pixel
    taken = list(rings)
    for place, ring in zip(numbers, rings, strict=True):
        offset = max(_AROUND, key=lambda each: min(_ENOUGH, _nearest(ring + each, taken, ring)))
        taken.append(ring + offset)
        axes.annotate(
            ", ".join(numbers[place]), place, xytext=offset, textcoords="offset points", fontsize=8, zorder=4,
            ha="center", va="center",
        )  # fmt: skip


def _nearest(spot: Any, taken: list[Any], own: Any) -> float:
    """Distance to the nearest other ring or number."""
    return min((float(np.hypot(*(spot - other))) for other in taken if other is not own), default=_ENOUGH)


def _axes(axes: Any, weighed: Weighed, title: str) -> None:
    risks = weighed.points[:, 1]
    if risks.min() > 0 and risks.max() / risks.min() > _LOG_FROM:
        axes.set_xscale("log")
        if weighed.by_epsilon:
            axes.set_xticks(np.unique(risks), minor=False)
            axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif risks.max() > risks.min():
        axes.set_xlim(left=0)
    label = "epsilon of the policy's guarantee" if weighed.by_epsilon else "mean re-identification risk (1/persons)"
    axes.set(title=title, xlabel=f"{label}; lower is safer", ylabel="loss (0: exact values, 1: whole domains)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)


def _key(axes: Any, weighed: Weighed, grid: Grid, chosen: int) -> None:
    """List the parameters of the numbered settings."""
    axes.axis("off")
    axes.set(title="Pareto set\n(bold: recommended)", xlim=(0, 1), ylim=(0, 1))
    columns = -(-len(weighed.best) // _KEY_LINES)
    for at, rank in pareto_numbers(weighed).items():
        column, line = divmod(rank - 1, _KEY_LINES)
        words = weighed.outcomes[at].setting.words(grid.varied)
        axes.text(
            column / columns, 0.98 - line / _KEY_LINES, f"{rank:>2}  {words}", fontsize=8, va="top",
            fontweight="bold" if at == chosen else "normal",
        )  # fmt: skip
