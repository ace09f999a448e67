"""The picture of DOCA's Figure 2: histograms of the original and of the published values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from castleguard.drawing import BLUE, GREY
from castleguard.judge.measure.error import histogram_intersection
from castleguard.lab.backblaze import DOMAIN, LOWER, UPPER, Values
from castleguard.lab.doca.publishers import BINS


def draw(stream: Values, published: Sequence[tuple[str, Values]], figure: Any) -> None:
    """A panel per method."""
    lines = -(-len(published) // 2)
    panels = figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False)
    for axes, (name, values) in zip(panels.flat, published, strict=False):
        _draw_histograms(axes, name, stream, values)
        axes.label_outer()
    for axes in panels.flat[len(published) :]:
        axes.axis("off")
    panels[0, 0].legend(frameon=False, loc="upper right")


def _draw_histograms(axes: Any, name: str, stream: Values, values: Values) -> None:
    """Both in one panel, scaled to the original; a bin that exceeds it has its height written beside it."""
    edges = np.linspace(*DOMAIN, BINS + 1)
    before, after = (100 * np.histogram(part, edges)[0] / part.size for part in (stream, values))
    axes.stairs(before, edges, fill=True, color=GREY, alpha=0.6, label="original")
    axes.stairs(after, edges, color=BLUE, linewidth=1.4, label="published")
    top = 1.8 * before.max()
    for at in np.flatnonzero(after > top):
        axes.annotate(f" {after[at]:.1f}", (edges[at + 1], top), color=BLUE, va="top")
    common = histogram_intersection(stream, values, bins=BINS, range=DOMAIN)
    outside = np.count_nonzero((values < LOWER) | (values > UPPER)) / values.size
    axes.set_title(f"{name}: {common:.2%} in common" + (f", {outside:.1%} outside" if outside else ""), fontsize=10)
    axes.set(xlabel="power-on hours", ylabel="% of values", xlim=DOMAIN, ylim=(0, top))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
