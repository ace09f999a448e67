"""Cost of SDGS: surviving rows and their coarseness, on the made-up stream of hospital visits.

`python -m benchmarks.sdgs` prints the tables of docs/concepts/sdgs.md. One year in weeks; the grid starts as one box.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.release.cell_gate import CellGate
from castleguard.schema.coded import CodedRows
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.testing.streams import CLINICS, DIAGNOSES, START, visits, visits_schema

WEEK = 7 * 86_400.0
SETTLED = 26  # weeks after which the grid is judged
SETTINGS = ((10, 0.25, 1.0), (20, 0.25, 1.0), (50, 0.25, 1.0), (10, 0.1, 1.0), (20, 0.5, 1.0), (50, 0.5, 1.0))
SENSITIVE = {
    "diagnosis (24)": Sensitive("diagnosis", values=DIAGNOSES),
    "clinic (4)": Sensitive("clinic", values=CLINICS),
}


@dataclass(frozen=True)
class Week:
    """One window in numbers."""

    arrived: int
    capped: int
    """Rows left after one row per person."""
    sampled: int
    published: int
    loss: float
    boxes: int


def schema_for(sensitive: Sensitive) -> Schema:
    """The visits without columns that SDGS cannot publish; the window gives the time of arrival."""
    roles = [role for role in visits_schema().quasi_identifiers if role.name != "arrived"]
    return Schema(person="patient", quasi_identifiers=roles, sensitive=[sensitive])


def weeks_of(rows: int, schema: Schema, seed: int) -> list[CodedRows]:
    """Decoded rows of every week."""
    decoder = Decoder(schema, key=np.arange(2, dtype=np.uint64))
    return [decoder.decode(week).rows for week in _weeks(visits(rows, seed=seed, batch_rows=rows))]


def run(weeks: list[CodedRows], schema: Schema, policy: Sdgs, seed: int) -> list[Week]:
    """One stream: cap, coin, engine, gate. numpy's coin is good enough to measure."""
    draw = np.random.default_rng(seed)
    engine, gate = SdgsEngine(schema, policy), CellGate(schema, policy.criteria)
    found = []
    for number, rows in enumerate(weeks):
        first = engine.arrivals
        present = np.zeros(rows.person.size, dtype=np.bool_)
        present[np.unique(rows.person, return_index=True)[1]] = True
        capped = int(present.sum())
        present &= draw.random(present.size) < policy.sample_rate
        boxes = engine.open_clusters
        engine.push(rows, number * WEEK, present)
        decisions = engine.tick((number + 1) * WEEK)
        if not gate.check(decisions, rows.take(decisions.position - first)).all():
            raise AssertionError("the gate refused a group")
        loss: NDArray[np.float64] = decisions.loss[decisions.group]
        found.append(
            Week(present.size, capped, int(present.sum()), loss.size, float(loss.mean()) if loss.size else 1.0, boxes)
        )
    return found


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Visits of the year.")
@click.option("--seed", default=0, show_default=True)
def main(rows: int, seed: int) -> None:
    """Print the tables."""
    for name, sensitive in SENSITIVE.items():
        schema = schema_for(sensitive)
        weeks = weeks_of(rows, schema, seed)
        print(f"\n{name}: {rows:,} visits, {len(weeks)} weeks\n")
        print("| k | rate | epsilon | delta | of the sampled rows published | of all rows | loss | boxes |")
        print("|---|---|---|---|---|---|---|---|")
        for k, rate, epsilon in SETTINGS:
            policy = Sdgs(k=k, sample_rate=rate, epsilon=epsilon, window=WEEK)
            late = run(weeks, schema, policy, seed)[SETTLED:-1]
            published = sum(week.published for week in late)
            share = published / sum(week.sampled for week in late)
            of_all = published / sum(week.arrived for week in late)
            loss = sum(week.loss * week.published for week in late) / published
            print(
                f"| {k} | {rate:g} | {epsilon:g} | {policy.dp_delta:.2g} | {share:.1%} | {of_all:.1%} | {loss:.2f} "
                f"| {late[-1].boxes} |"
            )
        policy = Sdgs(k=10, sample_rate=0.25, epsilon=1.0, window=WEEK)
        print(f"\n{name}, k=10, rate 0.25, week by week: boxes, share of the sampled rows published, loss\n")
        for number, week in enumerate(run(weeks, schema, policy, seed)):
            if number in (0, 1, 2, 3, 4, 6, 8, 12, 16, 26, 39, 51):
                print(f"| {number + 1} | {week.boxes} | {week.published / week.sampled:.1%} | {week.loss:.2f} |")


def _weeks(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        moments = table.column("arrived").to_numpy()
        number = (moments - START) // np.timedelta64(7, "D")
        for _, rows in groupby(range(len(number)), key=number.__getitem__):
            first, *rest = rows
            yield table.slice(first, len(rest) + 1)


if __name__ == "__main__":
    main()
