"""Files through a whole conversion, beside pyarrow copying the same file in the same run."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import pyarrow as pa
from pyarrow import csv, parquet

import castleguard as cg
from benchmarks import adult
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.conversion import convert

FORMATS = ("csv", "parquet", "arrow")
_BATCH = 65_536
_ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def prepare(rows: int, folder: Path) -> cg.Schema:
    """Write the rows to a file of each format, and return their schema."""
    table = adult.load(rows).select(["pid", *adult.NUMERIC])
    csv.write_csv(table, folder / "in.csv")
    parquet.write_table(table, folder / "in.parquet")
    with pa.ipc.new_file(folder / "in.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    return adult.schema(table)


def copy(format: str, folder: Path) -> None:
    """Read and write every row, as pyarrow does it on one core."""
    source, target = folder / f"in.{format}", folder / f"copy.{format}"
    if format == "csv":
        with csv.open_csv(source, read_options=csv.ReadOptions(use_threads=False)) as lines:
            _write(lines, csv.CSVWriter(target, lines.schema))
    elif format == "parquet":
        file = parquet.ParquetFile(source)
        _write(file.iter_batches(_BATCH, use_threads=False), parquet.ParquetWriter(target, file.schema_arrow))
    else:
        with pa.OSFile(str(source)) as opened, pa.ipc.open_file(opened) as reader:
            _write(map(reader.get_batch, range(reader.num_record_batches)), pa.ipc.new_file(target, reader.schema))


def anonymise(format: str, folder: Path, schema: cg.Schema) -> None:
    """Convert the file under CASTLE with k=100 and a delay of 10,000 rows."""
    stream = cg.Anonymiser(schema, cg.Castle(k=100, delay=10_000))
    target = folder / f"out.{format}"
    convert(open_reader(folder / f"in.{format}", schema.columns), stream, open_writer(target))
    target.unlink()


def compare(format: str, folder: Path, schema: cg.Schema, repeats: int) -> tuple[float, float]:
    """Seconds of process CPU time of a copy and of a conversion: the best of runs that take turns."""
    copies, conversions = partial(copy, format, folder), partial(anonymise, format, folder, schema)
    conversions()
    times = [(_seconds(copies, time.process_time), _seconds(conversions, time.process_time)) for _ in range(repeats)]
    return min(one for one, _ in times), min(other for _, other in times)


def speedup(format: str, folder: Path, schema: cg.Schema, repeats: int) -> float | None:
    """How many times as fast a conversion is on two cores, in wall time; None on a machine with one core.

    Without waiting for the disk to store the file. A lower bound if the machine is not idle.
    """
    if len(_ALL_CORES) < 2:
        return None
    work = partial(anonymise, format, folder, schema)
    one, two = [], []
    with mock.patch("os.fsync"):
        for _ in range(repeats):
            one.append(_seconds(work, time.perf_counter))
            with _two_cores():
                two.append(_seconds(work, time.perf_counter))
    return min(one) / min(two)


@contextmanager
def _two_cores() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(_ALL_CORES)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _seconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def _write(batches: Iterator[pa.RecordBatch], writer: pa.ipc.RecordBatchFileWriter) -> None:
    with writer:
        for batch in batches:
            writer.write_batch(batch)
