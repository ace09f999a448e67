"""All measurements in one run: engine, end to end, long streams, scaling, start-up.

Rates are medians of five runs in process CPU time on one core, because a shared machine is noisy; ratios compare two
measurements of the same run. `--quick` does one run of each on fewer rows, to check that the benchmark works.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import castleguard as cg
from benchmarks import adult, file_copies, jobs, noise
from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import make_keys
from castleguard.schema.coded import CodedRows

BATCH = 16_384
PAPER_SETTINGS = ((10, 1_000), (10, 10_000), (100, 1_000), (100, 10_000))


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    group: str
    name: str
    value: float
    unit: str
    target: float | None = None


class Bench:
    """Collector of figures with the number of repeats and rows."""

    def __init__(self, *, quick: bool) -> None:
        self.repeats = 1 if quick else 5
        self.rows = 30_162 if quick else 301_620
        self.long = 100_000 if quick else 1_000_000
        self.figures: list[Figure] = []

    def add(self, group: str, name: str, value: float, unit: str, target: float | None = None) -> None:
        """Keep and print a figure."""
        self.figures.append(Figure(group, name, value, unit, target))
        print(f"  {group}: {name}: {value:,.4g} {unit}", file=sys.stderr)

    def rate(self, rows: int, work: Callable[[], object]) -> float:
        """Rows per second of process CPU time, median of the repeats."""
        times = []
        for _ in range(self.repeats):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return rows / statistics.median(times)


def coded(table: pa.Table, schema: cg.Schema, policy: cg.Castle) -> CodedRows:
    """Rows in the form that the engine takes under a policy."""
    return policy.stages(schema, make_keys(seed=0)).decoder.decode(table).rows


def run_engine(schema: cg.Schema, policy: cg.Castle, rows: CodedRows) -> float:
    """Run the engine alone, before the gate, to the end of the rows; return the information loss of its decisions."""
    engine = CastleEngine(schema, policy, key=np.arange(8, dtype=np.uint32))
    total, count = 0.0, 0
    parts = [rows.take(slice(at, at + BATCH)) for at in range(0, rows.person.size, BATCH)]
    for part in [*parts, None]:
        decisions = engine.flush() if part is None else engine.push(part, 0.0)
        total += float(np.sum(decisions.loss[decisions.group]))
        count += decisions.position.size
    return total / count


def bench_engine(bench: Bench) -> None:
    """The four settings of the papers' data with 6 quasi-identifiers, and all 10."""
    once = adult.load()
    many = adult.load(bench.rows)
    for categories in (False, True):
        schema = adult.schema(once, categories=categories)
        name = f"{len(schema.quasi_identifiers)} quasi-identifiers"
        for k, delay in PAPER_SETTINGS:
            paper = cg.Castle(k=k, delay=delay, mode="paper")
            strict = cg.Castle(k=k, delay=delay)
            loss = run_engine(schema, paper, coded(once, schema, paper))
            bench.add("information loss, paper mode, 30,162 rows", f"{name}, k={k}, delay={delay}", loss, "")
            loss = run_engine(schema, strict, coded(once, schema, strict))
            bench.add("information loss, strict mode, 30,162 rows", f"{name}, k={k}, delay={delay}", loss, "")
            target = None
            if delay == 10_000:
                target = 250_000.0 if categories else {10: 300_000.0, 100: 500_000.0}[k]
            for policy in (strict, paper):
                rate = bench.rate(bench.rows, partial(run_engine, schema, policy, coded(many, schema, policy)))
                label = f"{name}, k={k}, delay={delay}, {policy.mode}"
                bench.add("engine", label, rate, "rows/s", target if policy.strict else None)


def run_stream(schema: cg.Schema, policy: Policy, table: pa.Table) -> cg.Report:
    """Run the whole stream from input rows to published rows."""
    stream = cg.Anonymiser(schema, policy)
    for at in range(0, table.num_rows, BATCH):
        stream.push(table.slice(at, BATCH), now=0.0)
    stream.flush()
    return stream.report()


def bench_policies(bench: Bench) -> None:
    """Every policy on the same rows, from input rows to published rows, beside CASTLE."""
    table = adult.load(bench.rows)
    values = sorted(set(table.column("occupation").to_pylist()))
    schema = cg.Schema(
        person="pid",
        quasi_identifiers=adult.schema(table).quasi_identifiers,
        sensitive=[cg.Sensitive("occupation", values=values)],
    )
    table = table.select(schema.columns)
    for k in (10, 100):
        castle, guard = partial(cg.Castle, k=k, delay=10_000), partial(cg.Castleguard, k=k, delay=10_000)
        policies: dict[str, Policy] = {
            "CASTLE": castle(),
            "CASTLEGUARD strict, epsilon 8": guard(epsilon=8.0),
            "CASTLEGUARD strict, epsilon 8, ledger": guard(
                epsilon=8.0, rows_per_person=3, window=100_000, window_unit="rows"
            ),
            "CASTLEGUARD paper, phi 100, rate 0.5": guard(mode="paper", phi=100.0, sample_rate=0.5),
            "SDGS, rate 0.5, windows of 10,000 rows": cg.Sdgs(
                k=k, sample_rate=0.5, epsilon=1.0, window=10_000, window_unit="rows"
            ),
            "CASTLE, entropy l=3": castle(l=3, diversity="entropy"),
            "CASTLE, t=0.3": castle(closeness=cg.Closeness(t=0.3)),
        }
        plain = 0.0
        for name, policy in policies.items():
            rate = bench.rate(bench.rows, partial(run_stream, schema, policy, table))
            plain = plain or rate
            bench.add("policies, whole stream", f"{name}, k={k}", rate, "rows/s")
            if name.startswith("CASTLEGUARD strict"):
                bench.add("policies, whole stream", f"{name}, k={k}, against CASTLE", rate / plain, "", 0.5)


def bench_doca(bench: Bench) -> None:
    """DOCA with the paper's settings, from input rows to published rows: one number, then more columns.

    The values are made up (the rate does not depend on them), as many as the drive data have.
    """
    random = np.random.default_rng(1)
    values, jobs = random.gamma(2.0, 7_000.0, bench.long), random.choice(["cook", "clerk", "nurse"], bench.long)
    table = pa.table({"hours": values, "age": random.integers(0, 100, bench.long), "job": jobs})
    hours = cg.Numeric("hours", lower=0, upper=50_000, step=1)
    job = cg.Categorical("job", hierarchy=cg.Hierarchy.flat(["cook", "clerk", "nurse"]))
    one = cg.Schema(person=None, quasi_identifiers=[hours])
    three = cg.Schema(person=None, quasi_identifiers=[hours, cg.Numeric("age", lower=0, upper=100), job])
    paper = cg.Doca(epsilon=1.0, delay=1000, max_clusters=50, loss_window=100, mode="paper")
    strict = cg.Doca(epsilon=1.0, delay=1000, k=50)
    for name, schema in (("1 attribute", one), ("2 attributes and a label", three)):
        for label, policy in (("paper, 50 clusters", paper), ("strict, k=50", strict)):
            rate = bench.rate(bench.long, partial(run_stream, schema, policy, table.select(schema.columns)))
            bench.add("DOCA, whole stream", f"{name}, {label}", rate, "values/s", 500_000 if schema is one else None)


def bench_scaling(bench: Bench) -> None:
    """Cost per row by number of clusters, attributes and delay."""
    table = adult.load(bench.rows)
    full = adult.schema(table)
    rows = coded(table, full, cg.Castle(k=100, delay=10_000))
    for clusters in (10, 25, 50, 100, 200):
        policy = cg.Castle(k=100, delay=10_000, max_clusters=clusters)
        rate = bench.rate(bench.rows, partial(run_engine, full, policy, rows))
        bench.add("cost per row", f"{clusters} clusters", 1e9 / rate, "ns")
    for columns in (1, 2, 4, 6):
        schema = cg.Schema(person="pid", quasi_identifiers=full.quasi_identifiers[:columns])
        part = rows._replace(quasi=np.ascontiguousarray(rows.quasi[:, :columns]))
        policy = cg.Castle(k=100, delay=10_000)
        rate = bench.rate(bench.rows, partial(run_engine, schema, policy, part))
        bench.add("cost per row", f"{columns} attributes", 1e9 / rate, "ns")
    for delay in (300, 1_000, 3_000, 10_000, 30_000):
        policy = cg.Castle(k=100, delay=delay)
        rate = bench.rate(bench.rows, partial(run_engine, full, policy, rows))
        bench.add("cost per row", f"delay {delay}", 1e9 / rate, "ns")


def bench_files(bench: Bench, folder: Path) -> None:
    """File to file, everything included, beside pyarrow copying the same file; and how much a second core gains."""
    schema = file_copies.prepare(bench.rows, folder)
    for format in file_copies.FORMATS:
        group = f"{format} to {format}"
        copying, whole = file_copies.compare(format, folder, schema, bench.repeats)
        bench.add(group, "pyarrow copies", bench.rows / copying, "rows/s")
        bench.add(group, "castleguard, k=100, delay=10000", bench.rows / whole, "rows/s")
        bench.add(group, "castleguard against the copy", copying / whole, "", 0.4 if format == "csv" else None)
        gain = file_copies.speedup(format, folder, schema, bench.repeats)
        if gain is not None:
            bench.add(group, "wall time on one core against two", gain, "", 1 / 0.65 if format == "csv" else None)


def bench_jobs(bench: Bench) -> None:
    """Cost of a checkpoint every five seconds for a job from CSV to Parquet. Wall time: the disk counts."""
    without, with_it = jobs.compare(rows=bench.long if bench.long < 1_000_000 else 4_000_000, repeats=bench.repeats)
    bench.add("jobs, CSV to Parquet", "without checkpoints", without, "rows/s")
    bench.add("jobs, CSV to Parquet", "a checkpoint every 5 s", with_it, "rows/s")
    bench.add("jobs, CSV to Parquet", "with against without", with_it / without, "", 0.8)


def bench_kafka(bench: Bench) -> None:
    """Kafka to Kafka, if `make kafka` has fetched a broker: CPU time of the job beside that of the bare client."""
    import pytest

    from benchmarks import kafka

    try:
        found = kafka.measure(bench.long // 5, bench.repeats)
    except pytest.skip.Exception as exc:
        print(f"  jobs, Kafka to Kafka: {exc}", file=sys.stderr)
        return
    for format, figures in found.items():
        for name, value in figures.items():
            unit = "" if name.startswith("ratio") else "ns/row"
            target = 0.5 if (format, name) == ("json", "ratio") else None
            bench.add("jobs, Kafka to Kafka", f"{format} messages, {name}", value, unit, target)


def bench_long(bench: Bench) -> None:
    """Whether rate and memory stay constant over a long stream."""
    table = adult.load(BATCH * 4)
    schema = adult.schema(table)
    stream = cg.Anonymiser(schema, cg.Castle(k=100, delay=10_000))
    stream.push(table)
    batch, done = table.slice(0, BATCH), 0
    marks = (bench.long, 10 * bench.long)
    mark_rows, mark_time = 0, time.process_time()
    for mark in marks:
        while done < mark:
            stream.push(batch.set_column(batch.num_columns - 1, "pid", pa.array(np.arange(done, done + BATCH))))
            done += BATCH
        now = time.process_time()
        bench.add("long stream", f"rate up to {mark:,} rows", (done - mark_rows) / (now - mark_time), "rows/s")
        bench.add("long stream", f"resident memory after {mark:,} rows", resident_mb(), "MB")
        mark_rows, mark_time = done, now


def resident_mb() -> float:
    """Current memory of this process; the peak so far if the system does not report it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bench_start(bench: Bench, folder: Path) -> None:
    """Start-up of the command line on a small file: the very first start, which compiles, and later ones."""
    (folder / "small.csv").write_text("pid,age\n" + "".join(f"{n},{20 + n % 50}\n" for n in range(200)))
    (folder / "schema.yaml").write_text("person: pid\nquasi_identifiers:\n  - {name: age, lower: 0, upper: 100}\n")
    command = [sys.executable, "-m", "castleguard", "anonymise", "small.csv", "-o", "small-out.csv"]
    command += ["--schema", "schema.yaml", "--k", "5", "--delay", "50", "--overwrite"]
    environment = {**os.environ, "CASTLEGUARD_CACHE": str(folder / "cache")}
    times = []
    for _ in range(1 + bench.repeats):
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    bench.add("start", "first start, compiling", times[0], "s")
    bench.add("start", "second start", statistics.median(times[1:]), "s", 2.0)


def current_commit() -> str:
    """The short name of the commit, with a mark if files have changed since."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def newest(folder: Path, but: Path) -> Path | None:
    """The figures that were written last, other than those of the same commit."""
    others = [path for path in folder.glob("*.json") if path != but]
    return max(others, key=lambda path: path.stat().st_mtime, default=None)


def load_figures(path: Path | None) -> dict[tuple[str, str], float]:
    """Figures of an earlier run, by group and name."""
    if path is None:
        return {}
    print(f"compared with {path}", file=sys.stderr)
    return {(each["group"], each["name"]): each["value"] for each in json.loads(path.read_text())["figures"]}


def show(figures: list[Figure], before: dict[tuple[str, str], float]) -> None:
    """The table, with the ratio to an earlier run; missed targets are marked."""
    table = Table("what", "", "measured", "to before", "target")
    group = ""
    for figure in figures:
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.4g}"
        target = "" if figure.target is None else f"{figure.target:,.4g}"
        if figure.target is not None:
            reached = figure.value <= figure.target if figure.unit == "s" else figure.value >= figure.target
            target += "" if reached else "  MISSED"
        earlier = before.get((figure.group, figure.name))
        ratio = f"{figure.value / earlier:.2f}" if earlier else ""
        place = figure.group if figure.group != group else ""
        table.add_row(place, figure.name, f"{value} {figure.unit}", ratio, target)
        group = figure.group
    Console(width=140).print(table)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, help="default: out/bench/COMMIT.json")
    parser.add_argument("--against", type=Path, help="figures to compare with; default: the newest in out/bench")
    options = parser.parse_args()
    output = options.output or Path("out/bench") / f"{current_commit()}.json"
    before = load_figures(options.against or newest(output.parent, output))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    bench = Bench(quick=options.quick)
    if adult.data_folder() is None:
        print("CASTLEGUARD_DATA is not set: synthetic rows instead of Adult", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        bench_start(bench, Path(folder))
        bench_engine(bench)
        bench_policies(bench)
        bench_doca(bench)
        for name, value in noise.measure(repeats=bench.repeats).items():
            bench.add("samplers", name, value, "/s", 4e6 if name.startswith("discrete Laplace") else None)
        bench_files(bench, Path(folder))
        bench_jobs(bench)
        bench_kafka(bench)
        bench_scaling(bench)
        bench_long(bench)
    show(bench.figures, before)
    output.parent.mkdir(parents=True, exist_ok=True)
    context = {"python": platform.python_version(), "machine": platform.machine(), "castleguard": cg.__version__}
    context["data"] = "synthetic" if adult.data_folder() is None else "adult"
    output.write_text(json.dumps({**context, "figures": [asdict(figure) for figure in bench.figures]}, indent=1))
    print(f"written to {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
