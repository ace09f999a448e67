"""What a row costs an engine, by k, delay, columns, open clusters and rows per person; writes docs/results/speed.md.

    python -m benchmarks.curves docs/results            # about twenty minutes
    python -m benchmarks.curves out/curves --quick

The rows are made up: forty clouds of different place, size and direction, in as many numbers as wanted. A figure is the
processor time of one row in the engine, from the moment the delay is full, in one run on one core. The machine is
shared, so single points may be off by a quarter; the shapes are what the page is for.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import make_keys
from castleguard.drawing import LINES, canvas
from castleguard.schema.coded import CodedRows

BATCH = 16_384
CLOUDS = 40
LEAST_ROWS = 150_000
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # microseconds


@dataclass(frozen=True)
class Setting:
    """One stream."""

    k: int = 10
    delay: int = 10_000
    columns: int = 6
    clusters: int = 50
    repeats: int = 1  # rows per person


@dataclass(frozen=True)
class Point:
    """One measured stream."""

    algorithm: str
    setting: Setting
    nanoseconds: float
    loss: float


@dataclass(frozen=True)
class Axis:
    """One picture: what is varied, and over which values."""

    name: str
    title: str
    values: tuple[int, ...]
    quick: int  # how many of the values a quick run measures
    algorithms: tuple[str, ...] = ("Citadel", "CASTLE")


AXES = (
    Axis("delay", "delay, in arrivals", (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), 4),
    Axis("k", "k", (2, 5, 10, 20, 50, 100, 200, 500), 4),
    Axis("columns", "quasi-identifiers", (1, 2, 4, 6, 10, 20, 50), 4),
    Axis("repeats", "rows per person", (1, 2, 5, 10, 20), 2),
    Axis("clusters", "open clusters (max_clusters)", (10, 25, 50, 100, 200, 400), 2, ("CASTLE",)),
)
POLICIES: dict[str, Callable[[Setting], Policy]] = {
    "Citadel": lambda given: cg.Citadel(k=given.k, delay=given.delay),
    "CASTLE": lambda given: cg.Castle(k=given.k, delay=given.delay, max_clusters=given.clusters),
}


def make_rows(count: int, columns: int) -> NDArray[np.float64]:
    """Rows of forty clouds in 0..100, in random order."""
    draw = np.random.default_rng(columns)
    place, size = draw.uniform(10, 90, (CLOUDS, columns)), draw.uniform(1, 8, (CLOUDS, columns))
    cloud = draw.integers(0, CLOUDS, count)
    return np.clip(np.round(place[cloud] + size[cloud] * draw.standard_normal((count, columns)), 1), 0, 100)


def measure(algorithm: str, given: Setting) -> Point:
    """Run the engine of an algorithm over a stream; the cost of a row once the delay is full."""
    count = max(LEAST_ROWS // given.delay, 2) * given.delay
    names = [f"q{number}" for number in range(given.columns)]
    roles = [cg.Numeric(name, lower=0, upper=101, step=1) for name in names]
    schema = cg.Schema(person="person", quasi_identifiers=roles)
    stages = POLICIES[algorithm](given).stages(schema, make_keys(seed=0))
    draw = np.random.default_rng(1)
    rows = CodedRows(
        quasi=make_rows(count, given.columns),
        person=draw.permutation(count).astype(np.uint64) // np.uint64(given.repeats) + np.uint64(1),
        sensitive=np.empty((count, 0), dtype=np.int64),
        to_root=np.zeros(count, dtype=np.bool_),
    )
    batch = min(BATCH, max(given.delay // 4, 64))
    loss, published, measured, seconds = 0.0, 0, 0, 0.0
    for at in range(0, count, batch):
        part = rows.take(slice(at, at + batch))
        start = time.process_time()
        decisions = stages.engine.push(part, 0.0)
        if at >= given.delay:  # whole rounds: clusters that opened together are also released together
            seconds += time.process_time() - start
            measured += part.person.size
        loss += float(np.sum(decisions.loss[decisions.group]))
        published += decisions.position.size
    return Point(algorithm, given, 1e9 * seconds / measured, loss / published)


def measure_axis(axis: Axis, *, quick: bool) -> Iterator[Point]:
    """All points of one picture."""
    for algorithm in axis.algorithms:
        for value in axis.values[: axis.quick] if quick else axis.values:
            point = measure(algorithm, replace(Setting(), **{axis.name: value}))
            print(f"  {algorithm}, {axis.name} {value:,}: {point.nanoseconds:,.0f} ns, loss {point.loss:.3f}")
            yield point


def draw(axis: Axis, points: Sequence[Point], target: Path) -> None:
    """One picture: microseconds per row."""
    with canvas(target, width=5.6, height=3.6) as figure:
        pane = figure.subplots()
        for line, algorithm in zip(LINES, axis.algorithms, strict=False):
            mine = [point for point in points if point.algorithm == algorithm]
            values = [getattr(point.setting, axis.name) for point in mine]
            pane.plot(values, [point.nanoseconds / 1000 for point in mine], label=algorithm, **line)
        pane.set(xscale="log", yscale="log", xlabel=axis.title, ylabel="microseconds per row")
        low, high = pane.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        pane.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        pane.set_yticks([], minor=True)
        pane.set_title(f"Cost of a row by {axis.title}")
        pane.legend(frameon=False)


def write_page(found: dict[str, list[Point]], folder: Path) -> None:
    """The page with pictures and tables."""
    usual = Setting()
    lines = [
        "# What a row costs",
        "",
        "*Written by `python -m benchmarks.curves docs/results`; manual changes are overwritten.*",
        "",
        "The cost of a row in the engine, once the delay is full: processor time of one core, one run on a shared",
        "machine, so single points may be off by a quarter. The rows are made up: forty clouds in as many numbers as",
        f"wanted. What is not varied is k={usual.k}, delay {usual.delay:,}, {usual.columns} quasi-identifiers, one row",
        f"per person and, for CASTLE, {usual.clusters} open clusters. One microsecond per row is a million rows a",
        "second. Reading, checking and writing are not included; the [README](../../README.md#figures) has whole jobs.",
    ]
    for axis in AXES:
        points = found[axis.name]
        draw(axis, points, folder / f"speed-{axis.name}.png")
        lines += ["", f"## By {axis.title}", "", f"![Cost of a row by {axis.title}](speed-{axis.name}.png)", ""]
        head = [f"{name}: {what}" for name in axis.algorithms for what in ("µs/row", "loss")]
        lines += [f"| {axis.title} | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
        for value in dict.fromkeys(getattr(point.setting, axis.name) for point in points):
            mine = [point for point in points if getattr(point.setting, axis.name) == value]
            cells = [cell for point in mine for cell in (f"{point.nanoseconds / 1000:.2f}", f"{point.loss:.3f}")]
            lines.append(f"| {value:,} | " + " | ".join(cells) + " |")
    (folder / "speed.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for algorithm in POLICIES:
        measure(algorithm, Setting())  # loads the kernels
    found = {axis.name: list(measure_axis(axis, quick=options.quick)) for axis in AXES}
    write_page(found, options.folder)
    plain = {name: [asdict(point) for point in points] for name, points in found.items()}
    (options.folder / "speed.json").write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
