"""Cost of checkpoints: a job from CSV to Parquet with one every five seconds, beside the same job without.

    python -m benchmarks.jobs

Wall time, because waiting for the disk is part of it; both alternate in one run.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

import castleguard as cg
from benchmarks import adult
from castleguard.checkpoint.store import Store
from castleguard.connectors import registry
from castleguard.connectors.files import FileSinkOptions, FileSourceOptions
from castleguard.job import Job, Pace, Parts

EVERY = 5.0
POLICY = cg.Castle(k=100, delay=10_000)


def prepare(folder: Path, rows: int) -> cg.Schema:
    """Write the Adult data, repeated as often as needed, to one CSV file."""
    table = adult.load(rows).select(["pid", *adult.NUMERIC])
    csv.write_csv(table, folder / "in.csv")
    return adult.schema(table)


def run_job(folder: Path, schema: cg.Schema, *, checkpoint: bool, every: float = EVERY) -> float:
    """Seconds of one run from start to end."""
    source, sink = registry.find("csv"), registry.find("parquet")
    assert source.open_source is not None
    assert sink.open_sink is not None
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "state.db").unlink(missing_ok=True)
    start = time.perf_counter()
    job = Job(
        Parts(
            open_source=partial(source.open_source, FileSourceOptions(path=folder / "in.csv"), schema.columns),
            make_stream=lambda snapshot: cg.Anonymiser(schema, POLICY),
            sink=sink.open_sink(FileSinkOptions(path=folder / "out")),
            store=Store(folder / "state.db") if checkpoint else None,
        ),
        pace=Pace(every=every),
    )
    assert job.run() == "finished"
    return time.perf_counter() - start


def compare(*, rows: int, repeats: int, every: float = EVERY) -> tuple[float, float]:
    """Rows per second without and with checkpoints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = prepare(folder, rows)
        run_job(folder, schema, checkpoint=False)  # warms the caches of disk and compiler for both
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for checkpoint in (False, True):
                times[checkpoint].append(run_job(folder, schema, checkpoint=checkpoint, every=every))
        return rows / statistics.median(times[False]), rows / statistics.median(times[True])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=float, default=EVERY)
    asked = parser.parse_args()
    pa.set_cpu_count(1)
    without, with_it = compare(rows=asked.rows, repeats=asked.repeats, every=asked.every)
    print(f"without checkpoints  {without:,.0f} rows/s")
    print(f"one every {asked.every:g} s     {with_it:,.0f} rows/s, {with_it / without:.3f} of that")


if __name__ == "__main__":
    main()
