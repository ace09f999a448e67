"""CASTLEGUARD's information loss on the authors' taxi rows, beside the value in their paper (section VI-B).

The paper gives 0.0178 to 0.0182, whatever phi and the sampling rate. `floor` shows that a mean over published rows
cannot be that low: however rows are grouped, a row shares its box with rows of k - 1 others, so the box is at least as
wide as the way to the (k-1)-th nearest of them.
"""

import argparse
import logging
import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from rich.console import Console
from rich.table import Table

import castleguard as cg

PAPER = (0.0178, 0.0182)
PHIS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
RATES = (0.25, 0.5, 0.75, 1.0)
K, DELAY = 10, 200
COLUMNS = ("PickupLocationID", "TripDistance")


@dataclass(frozen=True)
class Cell:
    """One setting, over all runs."""

    published: float
    """Mean loss of the published rows."""
    spread: float
    """Its standard deviation over the runs."""
    open_clusters: float
    """Mean loss of the clusters that are still open when the stream ends, none of them published."""
    rows: float
    """Published rows."""


def load() -> pa.Table | None:
    """The 1,000 rows, or None where the data folder is missing."""
    folder = os.environ.get("CASTLEGUARD_DATA")
    path = Path(folder or "") / "nyc_taxi" / "castleguard_example_1000.csv"
    return csv.read_csv(path) if folder and path.exists() else None


def make_schema(table: pa.Table) -> cg.Schema:
    """The paper's roles, with the range of the data as the domain."""
    roles = []
    for name in COLUMNS:
        values = table.column(name).to_numpy()
        roles.append(cg.Numeric(name, lower=values.min().item(), upper=values.max().item()))
    return cg.Schema(person="pid", quasi_identifiers=roles, sensitive=["FareAmount"])


def make_policy(phi: float, rate: float) -> cg.Castleguard:
    """The paper's setting."""
    return cg.Castleguard(
        k=K, l=1, delay=DELAY, loss_window=100, max_clusters=25, phi=phi, sample_rate=rate, mode="paper"
    )


def measure(table: pa.Table, schema: cg.Schema, policy: cg.Castleguard, runs: int) -> Cell:
    """Run the stream several times."""
    losses, opened, rows = [], [], []
    for seed in range(runs):
        stream = cg.Anonymiser(schema, policy, seed=seed)
        stream.push(table)
        opened.append(_open_loss(stream, schema))
        stream.flush()
        report = stream.report()
        losses.append(report.information_loss or 0.0)
        rows.append(report.published)
    return Cell(statistics.mean(losses), statistics.pstdev(losses), statistics.mean(opened), statistics.mean(rows))


def _open_loss(stream: cg.Anonymiser, schema: cg.Schema) -> float:
    """The mean loss of the clusters that are open now."""
    arrays = stream._engine.snapshot()
    born, bounds = arrays["book"][0, :-1], arrays["bounds"]
    domains = [role.domain for role in schema.quasi_identifiers if isinstance(role, cg.Numeric) and role.domain]
    widths = [upper - lower for lower, upper in domains]
    shares = (bounds[1] - bounds[0])[:, born >= 0] / np.array(widths)[:, None]
    return float(shares.mean()) if shares.size else 0.0


def floor(table: pa.Table, rate: float, runs: int) -> float:
    """What no grouping of the sampled rows can go below, even one that sees all of them at once."""
    points = _scaled(table)
    person = table.column("pid").to_numpy()
    found = []
    for seed in range(runs):
        kept = np.random.default_rng(seed).random(len(points)) < rate
        found.append(_nearest(points[kept], person[kept]))
    return statistics.mean(found)


def _scaled(table: pa.Table) -> NDArray[np.float64]:
    columns = [table.column(name).to_numpy().astype(np.float64) for name in COLUMNS]
    return np.stack([(column - column.min()) / (column.max() - column.min()) for column in columns], axis=1)


def _nearest(points: NDArray[np.float64], person: NDArray[np.int64]) -> float:
    """Mean over rows of the distance to the (k-1)-th nearest other person; a box of both is at least as wide."""
    total = 0.0
    for row in range(len(points)):
        far = np.abs(points - points[row]).mean(axis=1)
        others = person != person[row]
        nearest: dict[int, float] = {}
        for who, distance in zip(person[others].tolist(), far[others].tolist(), strict=True):
            nearest[who] = min(distance, nearest.get(who, np.inf))
        total += sorted(nearest.values())[K - 2]
    return total / len(points)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    logging.getLogger("castleguard").setLevel(logging.ERROR)
    rows = load()
    if rows is None:
        raise SystemExit("CASTLEGUARD_DATA must name the folder with nyc_taxi/castleguard_example_1000.csv")
    schema = make_schema(rows)
    table = Table(
        "phi", *(f"sample rate {rate}" for rate in RATES), title="information loss: published (open clusters)"
    )
    for phi in PHIS:
        cells = [measure(rows, schema, make_policy(phi, rate), runs) for rate in RATES]
        table.add_row(
            f"{phi:g}",
            *(f"{cell.published:.4f} ± {cell.spread:.4f} ({cell.open_clusters:.4f}) {cell.rows:.0f}" for cell in cells),
        )
    table.add_row("floor", *(f"{floor(rows, rate, runs):.4f}" for rate in RATES))
    table.add_row("paper", *([f"{PAPER[0]} to {PAPER[1]}"] * len(RATES)))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
