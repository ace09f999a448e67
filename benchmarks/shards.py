"""Cost of cutting a stream into shards: information loss of N engines beside that of one.

    python -m benchmarks.shards --rows 2000000 --output out/shards.json

The shards run one after the other in one process, each an `Anonymiser` over the rows that its route sends it. Three
routes: by the hash of the person; by locality between cut points of the domain; by locality between cut points learnt
from the output of one engine for an earlier part of the stream, which is not measured. Each with three policies: the
policy unchanged in every shard; with `delay / N`, which keeps as many rows in flight as one engine does; and with
`max_clusters / N` as well, which keeps as many clusters open as one engine does.

The loss is the mean over published rows; suppressed rows are counted beside it. The wait is the longest that the delay
allows, in arrivals of the whole stream: the delay of a shard divided by the smallest share of rows that a shard has (an
empty one counts as one row).

The large stream is made up: 40 kinds of persons of unequal frequency, each a cloud with its own place, size and
direction in six numbers from 0 to 1000, so that numbers are correlated within a kind; one row in a hundred lies
anywhere. A person occurs four times on average, with numbers that vary a little.
"""

import argparse
import json
import logging
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import castleguard as cg
from benchmarks import adult
from castleguard.lab import adult as adult_data
from castleguard.shards.cuts import cut_domain, cut_published
from castleguard.shards.plan import Route, Shards
from castleguard.shards.routing import HashRoute, LocalityRoute

BATCH = 16_384
SHARDS = (1, 2, 4, 8, 16)
TARGET = 0.10  # more loss than one engine, at 8 shards by locality
KINDS, COLUMNS, WIDEST = 40, 6, 1000
OUTLIERS = 0.01
VISITS = 4  # rows of a person


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """Rows to measure, and earlier rows from which cut points are learnt."""

    name: str
    schema: cg.Schema
    earlier: pa.Table
    rows: pa.Table
    policy: cg.Castle

    @property
    def title(self) -> str:
        """Heading of the table."""
        return f"{self.name}, {self.rows.num_rows:,} rows, k={self.policy.k}, delay={self.policy.delay:,}"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of N shards."""

    stream: str
    route: str
    shards: int
    delay: int
    """Rows of each shard."""
    clusters: int
    """Open clusters of each shard."""
    loss: float
    against_one: float
    """Extra loss over one engine, as a share of its loss."""
    suppressed: int
    largest: float
    """Share of the rows in the fullest shard."""
    wait: float
    """Longest wait that the delay allows, in arrivals of the whole stream."""
    seconds: float


class Books:
    """Sums over shards."""

    def __init__(self) -> None:
        self.loss, self.published, self.suppressed = 0.0, 0, 0

    def add(self, report: cg.Report) -> None:
        """Add a shard."""
        self.loss += (report.information_loss or 0.0) * report.published
        self.published += report.published
        self.suppressed += report.suppressed


def made_up(rows: int, *, seed: int) -> pa.Table:
    """Rows of the large stream. Other seeds give other persons of the same kinds."""
    shape, draw = np.random.default_rng(7), np.random.default_rng(seed)
    frequency = shape.dirichlet(np.full(KINDS, 0.7))
    centre = shape.beta(1.5, 2.5, (KINDS, COLUMNS))
    size = shape.uniform(0.02, 0.10, KINDS)
    direction = np.eye(COLUMNS) + 0.5 * shape.normal(size=(KINDS, COLUMNS, COLUMNS))
    persons = max(rows // VISITS, 1)
    kind = draw.choice(KINDS, persons, p=frequency)
    usual = np.empty((persons, COLUMNS))
    for each in range(KINDS):
        mine = np.flatnonzero(kind == each)
        usual[mine] = centre[each] + size[each] * draw.normal(size=(mine.size, COLUMNS)) @ direction[each]
    person = draw.integers(0, persons, rows)
    values = usual[person] + 0.005 * draw.normal(size=(rows, COLUMNS))
    anywhere = np.flatnonzero(draw.random(rows) < OUTLIERS)
    values[anywhere] = draw.random((anywhere.size, COLUMNS))
    whole = np.rint(np.clip(values, 0.0, 1.0) * WIDEST).astype(np.int64)
    columns = {f"q{at}": pa.array(whole[:, at]) for at in range(COLUMNS)}
    return pa.table({**columns, "pid": pa.array(person)})


def streams(rows: int) -> Iterator[Stream]:
    """All streams to measure."""
    small = cg.Castle(k=10, delay=1_000)
    large = cg.Castle(k=100, delay=10_000)
    if adult.data_folder() is None:
        print("CASTLEGUARD_DATA is not set: Adult is left out", file=sys.stderr)
    else:
        everything = adult_data.sfu()
        order = np.random.default_rng(0).permutation(everything.num_rows)
        everything = everything.take(pa.array(order))
        domains = adult_data.observed(everything)
        for names in (adult.NUMERIC, (*adult.NUMERIC, *adult.CATEGORICAL)):
            schema = adult_data.schema(domains, names=names)
            chosen = everything.select(schema.columns)
            name = f"Adult, {len(names)} quasi-identifiers"
            earlier, later = chosen.slice(0, 15_060), chosen.slice(15_060)
            yield Stream(name=name, schema=schema, earlier=earlier, rows=later, policy=small)
    numbers = [cg.Numeric(f"q{at}", lower=0, upper=WIDEST) for at in range(COLUMNS)]
    schema = cg.Schema(person="pid", quasi_identifiers=numbers)
    earlier, later = made_up(rows // 10, seed=1), made_up(rows, seed=2)
    for policy in (large, cg.Castle(k=10, delay=10_000)):
        yield Stream(name="made up, 6 quasi-identifiers", schema=schema, earlier=earlier, rows=later, policy=policy)


def publish(stream: Stream, rows: pa.Table, policy: cg.Castle, books: Books, *, seed: int = 0) -> Iterator[pa.Table]:
    """Run one shard from its first row to its last; yield its output piece by piece."""
    engine = cg.Anonymiser(stream.schema, policy, seed=seed)
    for at in range(0, rows.num_rows, BATCH):
        yield engine.push(rows.slice(at, BATCH))
    yield engine.flush()
    books.add(engine.report())


def run(stream: Stream, policy: cg.Castle, shards: int, place: Shards) -> tuple[Books, float]:
    """All shards, and the seconds they took together."""
    books, start = Books(), time.perf_counter()
    for shard in range(shards):
        rows = stream.rows if shards == 1 else stream.rows.filter(pa.array(place == shard))
        for _ in publish(stream, rows, policy, books, seed=shard):
            pass
    return books, time.perf_counter() - start


def routes(stream: Stream, published: pa.Table, shards: int) -> dict[str, Route]:
    """The three ways."""
    schema = stream.schema
    return {
        "hash": HashRoute(schema, shards),
        "locality, domain": LocalityRoute(schema, cut_domain(schema, shards)),
        "locality, published": LocalityRoute(schema, cut_published(published, schema, shards)),
    }


def measure(stream: Stream, counts: Sequence[int]) -> Iterator[Measured]:
    """One engine first; then every route with both delays."""
    policy, rows = stream.policy, stream.rows.num_rows
    nowhere: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
    alone, seconds = run(stream, policy, 1, nowhere)
    one = alone.loss / alone.published

    def measured(books: Books, seconds: float, *, route: str, each: cg.Castle, counted: NDArray[np.int64]) -> Measured:
        loss = books.loss / books.published
        smallest = max(int(counted.min()), 1) / rows
        return Measured(
            stream=stream.title,
            route=route,
            shards=counted.size,
            delay=each.delay,
            clusters=each.max_clusters,
            loss=loss,
            against_one=loss / one - 1,
            suppressed=books.suppressed,
            largest=int(counted.max()) / rows,
            wait=each.delay / smallest,
            seconds=seconds,
        )

    whole = np.array([rows])
    yield measured(alone, seconds, route="one engine", each=policy, counted=whole)
    # Each shard has its own open clusters: the same total number for one engine.
    most = replace(policy, max_clusters=8 * policy.max_clusters)
    books, seconds = run(stream, most, 1, nowhere)
    yield measured(books, seconds, route="one engine", each=most, counted=whole)
    published = pa.concat_tables(publish(stream, stream.earlier, policy, Books()))
    for shards in counts:
        if shards == 1:
            continue
        for route, way in routes(stream, published, shards).items():
            place = way.shard_of(stream.rows)
            counted = np.bincount(place, minlength=shards)
            for each in policies(policy, shards):
                books, seconds = run(stream, each, shards, place)
                yield measured(books, seconds, route=route, each=each, counted=counted)


def policies(policy: cg.Castle, shards: int) -> tuple[cg.Castle, ...]:
    """Unchanged; with the rows in flight of one engine; and with its open clusters too."""
    shorter = replace(policy, delay=max(policy.delay // shards, policy.k - 1))
    return policy, shorter, replace(shorter, max_clusters=max(policy.max_clusters // shards, 1))


def routing_times(stream: Stream) -> dict[str, float]:
    """Milliseconds to route a million rows to eight shards, best of five."""
    rows = stream.rows.slice(0, 1_000_000)
    published = pa.concat_tables(publish(stream, stream.earlier, stream.policy, Books()))
    found = {}
    for name, route in routes(stream, published, 8).items():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            route.shard_of(rows)
            times.append(time.perf_counter() - start)
        found[name] = 1000 * min(times) * 1_000_000 / rows.num_rows
    return found


def show(figures: Sequence[Measured], console: Console) -> None:
    """A table per stream."""
    for title in dict.fromkeys(figure.stream for figure in figures):
        table = Table(title=title)
        for heading in (
            "route",
            "shards",
            "delay\neach",
            "clusters\neach",
            "loss",
            "against\none",
            "suppressed",
            "largest",
            "wait",
        ):
            table.add_column(heading, justify="left" if heading == "route" else "right")
        for figure in (figure for figure in figures if figure.stream == title):
            table.add_row(
                figure.route,
                str(figure.shards),
                f"{figure.delay:,}",
                str(figure.clusters),
                f"{figure.loss:.4f}",
                f"{figure.against_one:+.1%}",
                f"{figure.suppressed:,}",
                f"{figure.largest:.1%}",
                f"{figure.wait:,.0f}",
            )
        console.print(table)


def verdict(figures: Sequence[Measured]) -> Iterator[str]:
    """Whether locality at eight shards meets the target, with each of the policies."""
    for figure in figures:
        if figure.shards == 8 and figure.route == "locality, published":
            reached = "reached" if figure.against_one <= TARGET else "MISSED"
            each = f"delay {figure.delay:,} and {figure.clusters} clusters each"
            yield f"{figure.stream}: 8 shards, {each}: {figure.against_one:+.1%} ({reached})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the large stream")
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS)
    parser.add_argument("--output", type=Path, default=Path("out/shards.json"))
    asked = parser.parse_args(arguments)
    # Grids as fine as the data follow from the papers' domains; every engine warns of that, which is expected here.
    logging.getLogger("castleguard").setLevel(logging.ERROR)
    figures: list[Measured] = []
    times: dict[str, float] = {}
    for stream in streams(asked.rows):
        for figure in measure(stream, asked.shards):
            figures.append(figure)
            done = f"{figure.route}, {figure.shards} x {figure.delay:,}, {figure.clusters}: {figure.loss:.4f}"
            print(f"  {figure.stream}: {done} ({figure.seconds:.1f} s)", file=sys.stderr, flush=True)
        times = times or ({} if stream.rows.num_rows < 1_000_000 else routing_times(stream))
    console = Console(width=120)
    show(figures, console)
    for line in verdict(figures):
        console.print(line)
    for name, milliseconds in times.items():
        console.print(f"{name}: a million rows find one of 8 shards in {milliseconds:.0f} ms")
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    context = {"python": platform.python_version(), "machine": platform.machine(), "castleguard": cg.__version__}
    found = {**context, "routing_ms_per_million": times, "figures": [asdict(figure) for figure in figures]}
    asked.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"written to {asked.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
