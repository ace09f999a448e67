"""Draw the figures: lines over the varied parameter, one or several panels with one scale, spreads as bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from castleguard.drawing import INK, LINES
from castleguard.lab.castle.rules import Curve


@dataclass(frozen=True)
class Panel:
    """Lines by name."""

    title: str
    lines: Mapping[str, Curve]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Panels side by side. Call it with an empty matplotlib figure."""

    panels: Sequence[Panel]
    across: str
    """Label of the x axis."""
    up: str = "average information loss"
    levels: Mapping[str, float] | None = None
    """Levels: lines without points, at a fixed height."""
    ticks: Sequence[float] | None = None
    from_zero: bool = True
    shared: bool = True
    """Whether all panels share a scale; else each has its own, from 0."""
    bars: bool = True
    """Whether every point has an error bar; else one bar in a corner stands for all."""

    @property
    def size(self) -> tuple[float, float]:
        """In inches."""
        return (6.4, 4.2) if len(self.panels) == 1 else (4.4 * len(self.panels) + 0.6, 4.4)

    def __call__(self, figure: Any) -> None:
        """Draw."""
        every = figure.subplots(1, len(self.panels), sharey=self.shared, squeeze=False)[0]
        for axes, panel in zip(every, self.panels, strict=True):
            for (name, curve), look in zip(panel.lines.items(), _looks(len(panel.lines)), strict=True):
                _draw_line(axes, name, curve, look, bars=self.bars)
            for (name, height), dash in zip((self.levels or {}).items(), (":", "--", "-."), strict=False):
                axes.axhline(height, color=INK, linestyle=dash, linewidth=1.2, label=name)
            axes.set(title=panel.title, xlabel=self.across)
            axes.grid(axis="y", color="#e3e7eb", linewidth=0.8)
            axes.set_axisbelow(True)
            values = self.ticks if self.ticks is not None else _values(panel)
            axes.set_xticks(values, [f"{value:,.10g}" for value in values])
            if len(values) > 6 and max(values) >= 1_000:
                axes.tick_params(axis="x", rotation=40)
        for axes in every if self.from_zero else ():
            axes.set_ylim(bottom=0)
        if not self.bars:
            _draw_typical(every, self.panels)
        every[0].set_ylabel(self.up)
        _add_legend(figure, every[0])


def _draw_line(axes: Any, name: str, curve: Curve, look: Mapping[str, Any], *, bars: bool) -> None:
    axes.errorbar(
        list(curve),
        [sample.mean for sample in curve.values()],
        yerr=[sample.spread for sample in curve.values()] if bars else None,
        label=name,
        capsize=2.5,
        elinewidth=0.9,
        **look,
    )


def _draw_typical(every: Sequence[Any], panels: Sequence[Panel]) -> None:
    """A bar as long as the mean spread of a panel's points, low on the right, where these lines leave room."""
    for axes, panel in zip(every, panels, strict=True):
        spread: float = fmean(sample.spread for curve in panel.lines.values() for sample in curve.values())
        if not spread:
            continue
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        at, middle = left + 0.93 * (right - left), low + 0.04 * (high - low) + spread
        axes.errorbar([at], [middle], yerr=[spread], color=INK, capsize=4, linewidth=1.2)
        axes.annotate(
            "spread of the runs\nat one point",
            (at, middle),
            (-8, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            multialignment="right",
            fontsize=8.5,
        )
        axes.set(xlim=(left, right), ylim=(low, high))


def _looks(number: int) -> list[Mapping[str, Any]]:
    """One style per line; after six they repeat with hollow markers."""
    return [{**LINES[at % len(LINES)], **({"fillstyle": "none"} if at >= len(LINES) else {})} for at in range(number)]


def _values(panel: Panel) -> list[float]:
    return sorted({value for curve in panel.lines.values() for value in curve})


def _add_legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    # Show the line without its error bar: a bar in the legend would not belong to any point.
    handles = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
    columns = min(len(labels), 5) if max(map(len, labels)) < 16 else 2 if len(labels) == 4 else min(len(labels), 3)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
