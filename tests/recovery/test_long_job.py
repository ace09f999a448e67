"""Ten minutes of a job on a manual clock: files, silence, a burst. Memory stays flat, and no row waits too long."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import castleguard as cg
from castleguard.checkpoint.store import Store
from castleguard.connectors.base import Position
from castleguard.connectors.file_sink import FileSink
from castleguard.connectors.file_source import Clock, FileSource
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.connectors.listing import list_files
from castleguard.job import Job, Pace, Parts
from castleguard.runtime.stopping import Stop
from castleguard.testing.manual_clock import ManualClock

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)], public=["row"])
POLICY = cg.Castle(k=3, delay=5_000, max_wait=20.0)
MINUTES = 10


class Street:
    """A folder that receives files as the clock runs: every two seconds, none for two minutes, then a burst."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self._folder, self._clock = folder, clock
        self._start, self._next = clock.now(), clock.now()
        self.rows = 0
        self.arrived: list[tuple[int, float]] = []
        folder.mkdir()

    def now(self) -> float:
        """Return the time, after adding the files due by then."""
        while self._next <= self._clock.now():
            elapsed = self._next - self._start
            if not 200 <= elapsed < 320 and elapsed < 60 * MINUTES:
                self._drop(20_000 if 320 <= elapsed < 322 else 200)
            self._next += 2.0
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def _drop(self, count: int) -> None:
        row = np.arange(self.rows, self.rows + count)
        self.arrived.append((self.rows, self._next))
        self.rows += count
        table = pa.table({"pid": row % 997, "age": row * 7 % 100, "row": row})
        pq.write_table(table, self._folder / f".{self._next:.0f}.parquet")
        (self._folder / f".{self._next:.0f}.parquet").rename(self._folder / f"{self._next:.0f}.parquet")


class Watched:
    """A sink that records how long rows have waited when they are committed."""

    exactly_once = True
    longest_row = None

    def __init__(self, sink: FileSink, street: Street) -> None:
        self._sink, self._street = sink, street
        self.last, self.close = sink.last, sink.close
        self.longest = 0.0
        self.memory: list[float] = []

    def check(self, columns: pa.Schema) -> None:
        """Accept any columns."""

    def deliver(self, number: int, table: pa.Table) -> None:
        self._sink.deliver(number, table)
        firsts = np.array([first for first, _ in self._street.arrived])
        fell = np.array([when for _, when in self._street.arrived])
        when = fell[np.searchsorted(firsts, table["row"].to_numpy(), side="right") - 1]
        self.longest = max(self.longest, float(self._street.now() - when.min()))
        self.memory.append(resident_mb())


class Watch(NamedTuple):
    """Clock of the job."""

    now: Callable[[], float]
    elapsed: Callable[[], float]
    sleep: Callable[[float], None]


def resident_mb() -> float:
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.compiled
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not report the memory of a process")
def test_followed_folder_runs_for_ten_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    street = Street(tmp_path / "in", clock)
    sink = Watched(FileSink(tmp_path / "out", "parquet", lambda path: open_writer(path, format="parquet")), street)
    stop = Stop()

    def open_source(position: Position | None) -> FileSource:
        reader = partial(open_reader, columns=SCHEMA.columns, format="parquet")
        return FileSource(list_files(tmp_path / "in"), reader, position, follow=True, clock=Clock(now, street.sleep))

    def now() -> float:
        """Return the time; after ten minutes and some, stop the job."""
        clock.advance(0.01)
        if clock.now() > start + 60 * MINUTES + 30:
            stop.ask()
        return street.now()

    start = clock.now()
    parts = Parts(
        open_source=open_source,
        make_stream=lambda snapshot: cg.Anonymiser(SCHEMA, POLICY),
        sink=sink,
        store=Store(tmp_path / "state.db"),
    )
    job = Job(parts, clock=Watch(now, clock.elapsed, street.sleep), pace=Pace(every=5.0), stop=stop)
    assert job.run() == "stopped"
    out = pa.concat_tables(pq.read_table(part) for part in sorted((tmp_path / "out").iterdir()))
    report = job.stream.report()
    assert report.rows_in == street.rows > 60_000
    assert report.pending == 0
    assert report.published + report.suppressed == street.rows
    rows = out["row"].to_numpy()
    assert rows.size == np.unique(rows).size == report.published
    # max_wait, plus the intervals of listing the folder, checking the clock and committing.
    assert sink.longest <= 20.0 + 2.0 + 5.0 + 1.0
    third = len(sink.memory) // 3
    assert max(sink.memory[2 * third :]) - max(sink.memory[:third]) < 40
