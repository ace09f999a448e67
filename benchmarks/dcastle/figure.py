"""The paper's figures 5 and 7 as one picture: per sweep the losses of all methods, and below them the bytes sent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.dcastle.experiment import Experiment
from benchmarks.dcastle.methods import (
    ALONE,
    ALONE_STRICT,
    CENTRALISED,
    CENTRALISED_STRICT,
    DISTRIBUTED,
    STRICT,
    STRICT_FEW,
)
from benchmarks.dcastle.report import PAPER_BYTES, sharing
from benchmarks.dcastle.settings import Sweep
from castleguard.cli.picture import STYLE

ACROSS = 5


class Look(NamedTuple):
    """A line that is told from the others without colours: by its marker, its strokes and how dark it is."""

    colour: str
    line: str
    marker: str


DARK, LIGHT = "#1b2a41", "#a3adb8"
LOOKS = {
    CENTRALISED: Look(DARK, "-", "s"),
    CENTRALISED_STRICT: Look(DARK, "--", "s"),
    ALONE: Look(LIGHT, "-", "^"),
    ALONE_STRICT: Look(LIGHT, "--", "^"),
    DISTRIBUTED: Look("#d9822b", "-", "o"),
    STRICT: Look("#2f6f9f", "--", "D"),
    STRICT_FEW: Look("#3f8f5b", "-.", "v"),
}


def draw(path: Path, experiment: Experiment, sweeps: Sequence[Sweep]) -> None:
    """Write the picture. Raises ModuleNotFoundError without matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    across = min(len(sweeps), ACROSS)
    lines = -(-len(sweeps) // across)
    with mpl.rc_context({**STYLE, "axes.titlesize": 10, "axes.titleweight": "normal", "lines.markersize": 4.5}):
        figure, panels = plt.subplots(
            2 * lines, across, figsize=(max(3.6 * across, 8), 6 * lines + 1), squeeze=False, layout="constrained"
        )
        for number, sweep in enumerate(sweeps):
            line, column = divmod(number, across)
            _draw_losses(panels[2 * line, column], experiment, sweep)
            _draw_bytes(panels[2 * line + 1, column], experiment, sweep)
        for number in range(len(sweeps), lines * across):
            panels[-2, number % across].axis("off")
            panels[-1, number % across].axis("off")
        _add_legend(figure, panels[0, 0], panels[1, 0])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, facecolor="white")
        plt.close(figure)


def _draw_losses(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    for name in experiment.methods:
        _draw_line(axes, name, [experiment.outcome(name, setting).loss for setting in sweep.settings()])
    axes.set(title=_title(sweep), ylabel="information loss", ylim=(0, None))
    _set_values(axes, sweep)


def _draw_bytes(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    for each in sharing(experiment):
        _draw_line(axes, each.name, [experiment.outcome(each.name, setting).bytes for setting in sweep.settings()])
    axes.axhline(experiment.data_bytes, color=DARK, linewidth=0.9, linestyle=(0, (1, 1)), label="size of the data")
    axes.axhline(PAPER_BYTES, color=LIGHT, linewidth=1.2, linestyle=(0, (6, 2)), label="most bytes in the paper")
    # Strict sites send rows, not only boxes: a hundred times as much.
    axes.set(xlabel=sweep.sign, ylabel="bytes of messages", yscale="log")
    _set_values(axes, sweep)


def _draw_line(axes: Any, name: str, values: Sequence[float]) -> None:
    look = LOOKS[name]
    filled = look.colour if "strict" in name else "white"
    axes.plot(
        range(len(values)),  # evenly, as in the paper: the values of k and of the delay are no even steps
        values,
        look.line,
        marker=look.marker,
        markerfacecolor=filled,
        color=look.colour,
        linewidth=1.4,
        label=name,
    )


def _set_values(axes: Any, sweep: Sweep) -> None:
    axes.set_xticks(range(len(sweep.values)), [f"{value:,}" for value in sweep.values])
    axes.grid(axis="y", color="#e6e9ec", linewidth=0.7)
    axes.set_axisbelow(True)


def _title(sweep: Sweep) -> str:
    first, rest = str(sweep).split(", ", 1)
    middle = rest.index("|QI|") if sweep.varied != "columns" else rest.index("l=")
    return f"{first}:\n{rest[:middle].rstrip(', ')},\n{rest[middle:]}"


def _add_legend(figure: Any, losses: Any, sent: Any) -> None:
    """One for all panels, above them: every method once, then the lines that only the bytes have."""
    handles, names = losses.get_legend_handles_labels()
    for handle, name in zip(*sent.get_legend_handles_labels(), strict=True):
        if name not in names:
            handles.append(handle)
            names.append(name)
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 5), frameon=False, handlelength=3.2)
