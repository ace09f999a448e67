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
from castleguard.drawing import STYLE

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
    DISTRIBUTED: Look("#c4601a", "-", "o"),
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
    with mpl.rc_context(
        {**STYLE, "axes.titlesize": 10, "axes.titleweight": "normal", "xtick.labelsize": 9, "lines.markersize": 4.5}
    ):
        size = max(3.3 * across, 9), 6 * lines + 1
        figure, panels = plt.subplots(2 * lines, across, figsize=size, squeeze=False, layout="constrained")
        losses, sent = list(panels[::2].flat), list(panels[1::2].flat)
        for above, below, sweep in zip(losses, sent, sweeps, strict=False):
            _draw_losses(above, experiment, sweep)
            _draw_bytes(below, experiment, sweep)
        for unused in (*losses[len(sweeps) :], *sent[len(sweeps) :]):
            unused.axis("off")
        _share_scale(losses[: len(sweeps)], across, "information loss")
        _share_scale(sent[: len(sweeps)], across, "bytes of messages")
        _add_legend(figure, losses[0], sent[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, facecolor="white")
        plt.close(figure)


def _draw_losses(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    for name in experiment.methods:
        _draw_line(axes, name, [experiment.outcome(name, setting).loss for setting in sweep.settings()])
    axes.set(title=_title(sweep), ylim=(0, None))
    _set_values(axes, sweep)


def _draw_bytes(axes: Any, experiment: Experiment, sweep: Sweep) -> None:
    for each in sharing(experiment):
        _draw_line(axes, each.name, [experiment.outcome(each.name, setting).bytes for setting in sweep.settings()])
    axes.axhline(experiment.data_bytes, color=DARK, linewidth=1.2, linestyle=":", label="size of the data")
    axes.axhline(PAPER_BYTES, color=LIGHT, linewidth=1.2, linestyle=(0, (8, 3)), label="most bytes in the paper")
    # Strict sites send each other rows as well, the paper's only boxes: they are powers of ten apart.
    axes.set(xlabel=sweep.sign, yscale="log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_minor_formatter("")
    _set_values(axes, sweep)


def _share_scale(panels: Sequence[Any], across: int, label: str) -> None:
    """The same scale everywhere, so that sweeps can be compared; it is written beside the first panel of a line."""
    low, high = (choose(panel.get_ylim()[end] for panel in panels) for end, choose in ((0, min), (1, max)))
    for number, panel in enumerate(panels):
        panel.set_ylim(low, high)
        if number % across:
            panel.tick_params(labelleft=False)
        else:
            panel.set_ylabel(label)


def _draw_line(axes: Any, name: str, values: Sequence[float]) -> None:
    look = LOOKS[name]
    filled = look.colour if "strict" in name else "white"
    axes.plot(
        range(len(values)),  # evenly: the values of k and of the delay lie too unevenly to be written
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
    return f"{first}\n{rest[:middle].rstrip(', ')}\n{rest[middle:]}"


def _add_legend(figure: Any, losses: Any, sent: Any) -> None:
    """One for all panels, above them: every method once, modes side by side, then the lines that only bytes have."""
    handles = {
        name: handle for axes in (sent, losses) for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    names = sorted(handles, key=lambda name: list(LOOKS).index(name) if name in LOOKS else len(LOOKS))
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside upper center",
        ncols=5 if losses.get_subplotspec().get_gridspec().ncols > 2 else 3,
        title="hollow marks, solid lines: as the paper prints it; filled marks, broken lines: strict",
        frameon=False,
        handlelength=3.5,
    )
