"""The picture of docs/concepts/citadel.md: the same rows as Citadel and as CASTLE publish them.

python -m benchmarks.citadel_picture docs/concepts/citadel.png
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import castleguard as cg
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.policy import Policy
from castleguard.drawing import BLUE, INK, ORANGE, canvas
from castleguard.judge.publishing import Timed, publish_timed

K, DELAY, ROWS = 5, 400, 4_000
SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric(name, lower=0, upper=100, step=1) for name in ("age", "distance")],
    sensitive=["diagnosis"],
)


def rows() -> pa.Table:
    """Persons of three towns, in random order."""
    draw = np.random.default_rng(3)
    town = draw.integers(0, 3, ROWS)
    age = draw.normal(np.array([30, 45, 70])[town], np.array([9, 14, 8])[town])
    distance = draw.normal(np.array([20, 60, 35])[town], np.array([8, 15, 12])[town])
    return pa.table(
        {
            "pid": np.arange(ROWS),
            "age": np.clip(age, 0, 99.9),
            "distance": np.clip(distance, 0, 99.9),
            "diagnosis": np.array(["flu", "cold", "asthma"])[draw.integers(0, 3, ROWS)],
        }
    )


def published(policy: Policy, table: pa.Table) -> Timed:
    """Publish the rows under this policy, with their releases."""
    return publish_timed(SCHEMA, policy, table, seed=1)


def boxes_of(timed: Timed, wanted: np.ndarray) -> np.ndarray:
    """(boxes, 4) distinct boxes of the wanted rows: two lower bounds, two upper ones."""
    names = ("age_min", "distance_min", "age_max", "distance_max")
    bounds = np.column_stack([timed.published.column(name).to_numpy() for name in names])
    return np.unique(bounds[np.isin(timed.row, wanted)], axis=0)


def loss_of(timed: Timed, wanted: np.ndarray) -> float:
    """Mean width of the boxes of the wanted rows, as a share of the domain."""
    names = (("age_min", "age_max"), ("distance_min", "distance_max"))
    mine = np.isin(timed.row, wanted)
    widths = [timed.published.column(high).to_numpy() - timed.published.column(low).to_numpy() for low, high in names]
    return float(np.mean([width[mine] for width in widths])) / 100


def draw(target: Path) -> None:
    """Draw one release of Citadel, and the boxes in which CASTLE publishes the same rows."""
    table = rows()
    citadel = published(Citadel(k=K, delay=DELAY), table)
    castle = published(cg.Castle(k=K, delay=DELAY), table)
    release = int(np.searchsorted(citadel.arrived, ROWS // 2))
    wanted = citadel.row[citadel.release == release]
    with canvas(target, width=9, height=4.6) as figure:
        panes = figure.subplots(1, 2, sharex=True, sharey=True)
        for pane, name, timed, colour in zip(
            panes, ("Citadel", "CASTLE"), (citadel, castle), (BLUE, ORANGE), strict=True
        ):
            for left, bottom, right, top in boxes_of(timed, wanted):
                pane.fill([left, right, right, left], [bottom, bottom, top, top], facecolor=colour, alpha=0.12)
                pane.plot([left, right, right, left, left], [bottom, bottom, top, top, bottom], color=colour, lw=0.8)
            ages, distances = (table.column(column).to_numpy()[wanted] for column in ("age", "distance"))
            pane.plot(ages, distances, ".", color=INK, markersize=3)
            pane.set_title(f"{name}: information loss {loss_of(timed, wanted):.3f}")
            pane.set(xlim=(0, 100), ylim=(0, 100), xlabel="age")
        panes[0].set_ylabel("distance")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
