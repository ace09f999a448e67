"""Chart of the demo: loss over time, group sizes, and a few groups before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.cli.demo_live import Moment
from castleguard.drawing import BLUE, COLOURS, ORANGE, STYLE
from castleguard.judge.verify.structure import Verification

LAYOUT = "AAA\nBCD"
LINK = "record"


def draw(
    path: Path,
    original: pa.Table,
    published: pa.Table,
    losses: Mapping[str, Sequence[Moment]],
    verdict: Verification,
) -> None:
    """Write the chart. Raises ModuleNotFoundError without matplotlib.

    `losses` holds the moments of each algorithm; the published one comes first.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 8), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        top, left, middle, right = (axes for _, axes in sorted(figure.subplot_mosaic(LAYOUT).items()))
        _draw_loss(top, losses)
        _draw_groups(left, verdict)
        _draw_before_and_after(middle, right, original, published)
        figure.savefig(path, dpi=130, facecolor="white")
        plt.close(figure)


def _draw_loss(axes: Any, losses: Mapping[str, Sequence[Moment]]) -> None:
    """Draw the information loss of each algorithm per batch, smoothed."""
    last = 1.0
    for (name, moments), colour in zip(losses.items(), (BLUE, ORANGE), strict=False):
        rows = np.array([moment.rows for moment in moments], dtype=np.float64)
        loss = np.array([moment.loss for moment in moments], dtype=np.float64)
        known = ~np.isnan(loss)
        axes.plot(rows[known], loss[known], color=colour, alpha=0.3, linewidth=0.8)
        axes.plot(rows[known], _smooth(loss[known]), color=colour, linewidth=2, label=name)
        last = max([last, *rows.tolist()])
    axes.set(title="Detail lost over time (0 = nothing, 1 = everything)", xlabel="rows in")
    axes.set_ylim(0, None)
    axes.set_xlim(0, last)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False, loc="upper right")


def _smooth(values: Any, window: int = 15) -> Any:
    """Running mean without a pull towards zero at the ends."""
    if not values.size:
        return values
    kernel = np.ones(min(window, values.size))
    return np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")


def _draw_groups(axes: Any, verdict: Verification) -> None:
    """Draw the number of persons per group."""
    persons = np.array(verdict.persons_per_group)
    if persons.size:
        upper = max(int(np.percentile(persons, 98)), verdict.k + 1)
        axes.hist(np.minimum(persons, upper), bins=np.arange(-0.5, upper + 1.5), color=BLUE)
    axes.axvline(verdict.k - 0.5, color=ORANGE, linewidth=1.5)
    axes.annotate(
        f"k = {verdict.k}", (verdict.k - 0.5, 0.97), xycoords=("data", "axes fraction"), xytext=(-4, 0),
        textcoords="offset points", ha="right", va="top", color=ORANGE,
    )  # fmt: skip
    below = int(np.count_nonzero(persons < verdict.k))
    title = f"{verdict.groups:,} groups, {below or 'none'} below k"
    axes.set(title=title, xlabel="persons in the group", ylabel="groups")
    axes.set_xlim(0, None)


def _draw_before_and_after(before: Any, after: Any, original: pa.Table, published: pa.Table) -> None:
    """Draw the members of a few groups, and their published boxes."""
    from matplotlib.patches import Rectangle

    members, boxes = _some_groups(original, published)
    for (ages, distances), (left, right, low, high), colour in zip(members, boxes, COLOURS, strict=False):
        before.scatter(ages, distances, s=18, color=colour, linewidths=0)
        after.add_patch(Rectangle((left, low), right - left, high - low, color=colour, alpha=0.4, linewidth=1.5))
    for axes, title in ((before, "What arrived: members of a few groups"), (after, "What was published for them")):
        axes.set(title=title, xlabel="age", ylabel="distance in km")
        axes.set_xlim(-3, 113)
        axes.set_ylim(-1.5, 1.05 * max((box[3] for box in boxes), default=1.0))


def _some_groups(original: pa.Table, published: pa.Table) -> tuple[list[tuple[Any, Any]], list[tuple[float, ...]]]:
    """Members (ages, distances) and published boxes of a few groups that do not overlap."""
    names = ["age_min", "age_max", "distance_km_min", "distance_km_max"]
    every_box = [name for name in published.column_names if name.endswith(("_min", "_max"))]
    groups = published.group_by([*every_box, "district", "occupation"]).aggregate([(LINK, "list")])
    middle = original.num_rows / 2
    near = sorted(
        (row for row in groups.to_pylist() if row["distance_km_max"] < 60),
        key=lambda row: abs(row[f"{LINK}_list"][0] - middle),
    )
    members: list[tuple[Any, Any]] = []
    boxes: list[tuple[float, ...]] = []
    for row in near:
        box = tuple(float(row[name]) for name in names)
        if len(boxes) == len(COLOURS) or any(_overlap(box, other) for other in boxes):
            continue
        rows = original.filter(pc.is_in(original[LINK], pa.array(row[f"{LINK}_list"])))
        members.append((rows["age"].to_numpy(), rows["distance_km"].to_numpy()))
        boxes.append(box)
    return members, boxes


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
