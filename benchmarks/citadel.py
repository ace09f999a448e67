"""Rate, information loss and memory of Citadel's engine on Adult, beside CASTLE's, with the targets.

    python -m benchmarks.citadel rate loss reuse values long
    python -m benchmarks.citadel rate --quick

Rates are rows per second of process CPU time on one core, the median of three runs. Losses are means over the published
rows, on half-open cells of a public grid of a hundredth of each domain. Needs the folder of data sets
(docs/reference/data.md); without it the rows are made up and the targets mean nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import castleguard as cg
from benchmarks import adult
from benchmarks.run import BATCH, resident_mb
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import make_keys
from castleguard.schema.coded import CodedRows

SETTINGS = ((10, 1_000), (100, 1_000), (10, 10_000), (100, 10_000))
REUSE_TARGETS = {30_162: (0.105, 0.275, 0.072, 0.173), 300_000: (0.090, 0.190, 0.060, 0.130)}
SKEWED = (0.9, 0.07, 0.03)


class Line(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    target: float | None = None
    least: bool = False  # the target is a lower bound
    note: str = ""


class Decided(NamedTuple):
    """What an engine made of a stream."""

    loss: float  # mean of the published rows
    suppressed: float  # share of all rows
    rate: float  # rows per second of CPU time


def decide(schema: cg.Schema, policy: Policy, table: pa.Table) -> Decided:
    """Run the engine of a policy over a table."""
    stages = policy.stages(schema, make_keys(seed=0))
    rows = stages.decoder.decode(table.select(schema.columns)).rows
    parts: list[CodedRows | None] = [rows.take(slice(at, at + BATCH)) for at in range(0, rows.person.size, BATCH)]
    total, published = 0.0, 0
    start = time.process_time()
    for part in [*parts, None]:
        decisions = stages.engine.flush() if part is None else stages.engine.push(part, 0.0)
        total += float(np.sum(decisions.loss[decisions.group]))
        published += decisions.position.size
    seconds = time.process_time() - start
    return Decided(total / published, 1 - published / rows.person.size, rows.person.size / seconds)


def with_values(schema: cg.Schema, name: str) -> cg.Schema:
    """The schema with a sensitive column."""
    return cg.Schema(person="pid", quasi_identifiers=schema.quasi_identifiers, sensitive=[cg.Sensitive(name)])


def with_skew(table: pa.Table) -> pa.Table:
    """The table with two columns in which 90 % of the rows, drawn at random, have one value.

    `skewed`: 7 and 3 % have two others. `dominated`: the others keep their occupation.
    """
    drawn = np.random.default_rng(0).choice(["a", "b", "c"], table.num_rows, p=SKEWED)
    dominated = np.where(drawn == "a", "a", table["occupation"].to_numpy())
    return table.append_column("skewed", pa.array(drawn)).append_column("dominated", pa.array(dominated))


def measure_rates(quick: bool) -> Iterator[Line]:
    """Rows per second."""

    def median(schema: cg.Schema, policy: Policy, table: pa.Table, repeats: int = 3) -> float:
        return statistics.median(decide(schema, policy, table).rate for _ in range(1 if quick else repeats))

    table = with_skew(adult.load(60_000 if quick else 300_000))
    numbers, everything = adult.schema(table), adult.schema(table, categories=True)
    for k, delay in SETTINGS:
        name = f"k={k}, delay {delay:,}"
        yield Line(f"6 numbers, {name}", median(numbers, cg.Citadel(k=k, delay=delay), table), 500_000, True)
        yield Line(f"10 columns, {name}", median(everything, cg.Citadel(k=k, delay=delay), table), 250_000, True)
        for column in ("occupation", "skewed"):
            rate = median(with_values(numbers, column), cg.Citadel(k=k, delay=delay, l=3), table)
            yield Line(f"6 numbers, l=3 ({column}), {name}", rate, 400_000, True)
    for delay in () if quick else (100_000, 1_000_000):
        table = adult.load(3 * delay)
        rate = median(numbers, cg.Citadel(k=10, delay=delay), table, repeats=1)
        yield Line(f"6 numbers, k=10, delay {delay:,}", rate, 150_000, True)


def measure_loss(quick: bool) -> Iterator[Line]:
    """Fresh groups beside CASTLE."""
    table = adult.load()
    for categories in (False, True):
        schema = adult.schema(table, categories=categories)
        for k, delay in SETTINGS:
            castle = decide(schema, cg.Castle(k=k, delay=delay), table)
            fresh = decide(schema, cg.Citadel(k=k, delay=delay), table)
            name = f"{len(schema.quasi_identifiers)} columns, k={k}, delay {delay:,}"
            yield Line(name, fresh.loss, castle.loss, note="target: CASTLE")


def measure_reuse(quick: bool) -> Iterator[Line]:
    """Narrow reuse, on Adult once and ten times."""
    for rows, targets in REUSE_TARGETS.items():
        table = adult.load(rows)
        for (k, delay), target in zip(SETTINGS, targets, strict=True):
            if quick and rows > 100_000:
                continue
            found = decide(adult.schema(table), cg.Citadel(k=k, delay=delay, reuse="narrow"), table)
            yield Line(f"narrow reuse, {rows:,} rows, k={k}, delay {delay:,}", found.loss, target)


def measure_values(quick: bool) -> Iterator[Line]:
    """Criteria: l = 3 beside CASTLE, rare values, and persons who come again."""
    table = with_skew(adult.load())
    plain = adult.schema(table)
    schema = with_values(plain, "occupation")
    for k, delay in SETTINGS:
        castle = decide(schema, cg.Castle(k=k, delay=delay, l=3), table)
        found = decide(schema, cg.Citadel(k=k, delay=delay, l=3), table)
        below = f"CASTLE {castle.loss:.3f}, {100 * (1 - found.loss / castle.loss):.0f} % below"
        yield Line(f"l=3 (occupation), k={k}, delay {delay:,}", found.loss, 0.65 * castle.loss, note=below)
    for name, column in (("90, 7 and 3 %", "skewed"), ("90 % and occupations", "dominated")):
        for delay in (1_000, 10_000):
            castle = decide(with_values(plain, column), cg.Castle(k=10, delay=delay, l=3), table)
            found = decide(with_values(plain, column), cg.Citadel(k=10, delay=delay, l=3), table)
            note = f"suppressed {found.suppressed:.2%}; CASTLE {castle.loss:.3f}, suppressed {castle.suppressed:.2%}"
            yield Line(f"{name}, l=3, k=10, delay {delay:,}", found.loss, castle.loss, note=note)
    persons = pa.array(np.random.default_rng(1).integers(0, 1_000, table.num_rows))
    again = table.set_column(table.column_names.index("pid"), "pid", persons)
    one, two = (decide(schema, cg.Citadel(k=10, l=l, delay=5_000), again).loss for l in (1, 2))
    yield Line("1,000 persons, loss of l=2 / l=1", two / one, 1.25, note=f"{one:.3f}, {two:.3f}")


def measure_long(quick: bool) -> Iterator[Line]:
    """Rate and memory of a long stream, between marks."""
    million = 100_000 if quick else 1_000_000
    table = adult.load(30 * BATCH)
    schema = adult.schema(table)
    for delay in (1_000, 10_000):
        policy = cg.Citadel(k=10, delay=delay)
        stages = policy.stages(schema, make_keys(seed=0))
        rows = stages.decoder.decode(table.select(schema.columns)).rows
        done = 0
        for mark in (million, 10 * million):
            first, start = done, time.process_time()
            while done < mark:
                at = done % rows.person.size
                stages.engine.push(rows.take(slice(at, at + BATCH)), 0.0)
                done += BATCH
            rate = (done - first) / (time.process_time() - start)
            yield Line(f"delay {delay:,}, up to {mark:,} rows", rate, note=f"{resident_mb():,.0f} MB")


SECTIONS: dict[str, Callable[[bool], Iterator[Line]]] = {
    "rate": measure_rates,
    "loss": measure_loss,
    "reuse": measure_reuse,
    "values": measure_values,
    "long": measure_long,
}


def show(line: Line) -> None:
    """Print a line; a target that is missed is marked."""
    form = ",.0f" if line.value > 100 else ".3f"
    target = ""
    if line.target is not None:
        reached = line.value >= line.target if line.least else line.value <= line.target
        target = f"{'at least' if line.least else 'at most'} {line.target:{form}}{'' if reached else '  MISSED'}"
    print(f"{line.name:<48}{format(line.value, form):>12}  {target:<28}{line.note}", flush=True)


def main() -> None:
    """Measure the chosen sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=f"any of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rows, one run of each")
    given = parser.parse_args()
    for name in given.sections:
        for line in SECTIONS[name](given.quick):
            show(line)


if __name__ == "__main__":
    main()
