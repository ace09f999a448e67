"""Draw the figures: curves over the varied parameter, and bars of contributions. Both are readable in grey."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from castleguard.drawing import BLUE, GREY, INK, LINES
from castleguard.lab.dcastle import contenders

_CENTRAL, _TALKING, _SILENT = INK, "#d9822b", "#8d99a6"
LOOKS: dict[str, dict[str, Any]] = {
    # Dashes and markers show the method, hollow or filled markers the mode.
    contenders.CENTRALISED: {"color": _CENTRAL, "linestyle": "-", "marker": "s", "markerfacecolor": "white"},
    contenders.DISTRIBUTED: {"color": _TALKING, "linestyle": "--", "marker": "o", "markerfacecolor": "white"},
    contenders.ALONE: {"color": _SILENT, "linestyle": ":", "marker": "^", "markerfacecolor": "white"},
    contenders.CENTRALISED_STRICT: {"color": _CENTRAL, "linestyle": "-", "marker": "s"},
    contenders.STRICT: {"color": _TALKING, "linestyle": "--", "marker": "o"},
    contenders.STRICT_FEW: {"color": BLUE, "linestyle": "-.", "marker": "D"},
    contenders.ALONE_STRICT: {"color": _SILENT, "linestyle": ":", "marker": "^"},
}


@dataclass(frozen=True)
class Line:
    """One curve; None where it was not measured."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves over the same points."""

    ticks: tuple[str, ...]
    across: str
    """The varied parameter, with its unit."""
    up: str
    """The measurement, with its unit."""
    lines: tuple[Line, ...]
    level: tuple[float, str] | None = None
    """A level stated in the paper, and its name."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Shares side by side: the paper's and ours."""

    names: tuple[str, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]


def draw_panel(panel: Panel, figure: Any) -> None:
    """Draw the curves and their legend."""
    axes = figure.add_subplot()
    for number, line in enumerate(panel.lines):
        found = [(place, value) for place, value in enumerate(line.values) if value is not None]
        look = {"linewidth": 1.6, "markersize": 5.5, **LOOKS.get(line.name, LINES[number % len(LINES)])}
        # Evenly spaced: the values of k and of the delay are too uneven for labels.
        axes.plot([place for place, _ in found], [value for _, value in found], label=line.name, **look)
    if panel.level is not None:
        height, name = panel.level
        axes.axhline(height, color=INK, linewidth=1, linestyle=(0, (1, 2)), label=name)
    highest = max(value for line in panel.lines for value in line.values if value is not None)
    # Leave room above: a curve at the very edge would be cut.
    axes.set(xlabel=panel.across, ylabel=panel.up, ylim=(0, 1.06 * max(highest, panel.level[0] if panel.level else 0)))
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.yaxis.set_major_formatter(_tick_label)
    axes.grid(axis="y", color=GREY, alpha=0.35, linewidth=0.7)
    axes.set_axisbelow(True)
    modes = any(line.name in LOOKS for line in panel.lines)
    figure.legend(
        loc="outside right upper",
        frameon=False,
        handlelength=3.4,
        fontsize=9,
        title="hollow: as printed; filled: strict" if modes else None,
        title_fontsize=8,
        alignment="left",
    )


def draw_bars(bars: Bars, figure: Any) -> None:
    """A bar per share, hatched by its origin; no bar where none is stated."""
    axes = figure.add_subplot()
    width = 0.8 / len(bars.series)
    looks = (("white", "////"), (BLUE, ""), ("#d9dee3", "...."))
    for number, ((label, shares), (colour, hatch)) in enumerate(zip(bars.series, looks, strict=False)):
        places = [place - 0.4 + (number + 0.5) * width for place in range(len(shares))]
        heights = [100 * (share or 0.0) for share in shares]
        drawn = axes.bar(places, heights, width * 0.92, label=label, facecolor=colour, hatch=hatch, edgecolor=INK)
        axes.bar_label(drawn, ["" if share is None else _percent(share) for share in shares], fontsize=8, padding=2)
    axes.set(xlabel="factor, or factors together", ylabel="share of the variation of the loss, %")
    axes.set_xticks(range(len(bars.names)), bars.names)
    axes.margins(y=0.12)
    axes.legend(frameon=False, loc="upper right")


def ticks(values: Sequence[int]) -> tuple[str, ...]:
    """The values as labels below a curve."""
    return tuple(f"{value:,}" for value in values)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.095 else f"{100 * share:.0f}"


def _tick_label(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2f}".rstrip("0").rstrip(".")
