"""Delay and throughput of a stream, as distributions, because a mean hides outliers.

A row is published when similar rows have arrived. This delay is counted in arrivals, as in the papers, and is the same
on every machine. Seconds depend on the machine: rows are pushed as fast as possible, so they measure computing time and
not the waiting time in a real stream.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from castleguard.errors import InputError
from castleguard.judge.reading.linked import original_rows
from castleguard.judge.reading.values import Codes, Numbers
from castleguard.privacy.parameters import check_count
from castleguard.runtime.clock import Clock, WallClock


class Stream(Protocol):
    """Interface of a measured stream, such as Anonymiser."""

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        """Accept rows and return the rows published as a result."""

    def flush(self) -> pa.Table:
        """Publish the pending rows."""


class Distribution(NamedTuple):
    """Summary of a set of numbers. Each percentile is one of the numbers."""

    size: int
    mean: float
    smallest: float
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class Tempo:
    """Timing of one run of a stream."""

    rows: int
    """Rows that arrived."""
    published: int
    at_end: int
    """Published rows that were released by the final flush and might otherwise have waited longer."""
    seconds: float
    """Duration of all calls."""
    arrivals: Distribution
    """Delay of published rows, in rows that arrived between their arrival and their release."""
    waiting: Distribution
    """Delay of published rows in seconds, from the start of their push to the end of the call that published them."""
    throughput: Distribution
    """Rows per second of each batch; the smallest number is the slowest batch."""
    delays: Codes = field(repr=False, compare=False)
    """Delays summarised by `arrivals`, in publication order."""

    @property
    def rows_per_second(self) -> float:
        """Throughput of the whole run, including the flush."""
        return self.rows / self.seconds if self.seconds > 0 else float("nan")


def distribution(values: ArrayLike) -> Distribution:
    """Summarise numbers; all statistics are NaN without numbers.

    >>> distribution([5, 1, 2, 4, 3])
    Distribution(size=5, mean=3.0, smallest=1.0, p50=3.0, p90=5.0, p99=5.0, largest=5.0)
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not numbers.size:
        return Distribution(0, *[float("nan")] * 6)
    middle, high, highest = np.percentile(numbers, [50, 90, 99], method="inverted_cdf").tolist()
    return Distribution(
        numbers.size, float(numbers.mean()), float(numbers.min()), middle, high, highest, float(numbers.max())
    )


def measure_tempo(
    stream: Stream, table: pa.Table, *, by: str, batch_rows: int = 1000, clock: Clock | None = None
) -> Tempo:
    """Push a table through a new stream, flush it, and measure the delay of each row.

    `by`: a public column that numbers the rows. Rows published by a push count as published when its last row has
    arrived, so a delay may be overestimated by up to `batch_rows` - 1; with batches of one row it is exact. Rejected
    rows count as arrivals. The first push of a process includes compiling the kernels: to exclude it, push rows through
    another stream first.
    """
    check_count("batch_rows", batch_rows)
    if not table.num_rows:
        raise InputError("the table has no rows to measure a stream with")
    watch = WallClock() if clock is None else clock
    out, pushed, returned, arrived = [], [], [], []
    for start in range(0, table.num_rows, batch_rows):
        batch = table.slice(start, batch_rows)
        pushed.append(watch.elapsed())
        out.append(stream.push(batch, now=pushed[-1]))
        returned.append(watch.elapsed())
        arrived.append(start + batch.num_rows)
    before = watch.elapsed()
    out.append(stream.flush())
    seconds: Numbers = np.array(returned) - np.array(pushed)
    ended = watch.elapsed()
    sizes = np.diff(np.array([0, *arrived]))
    call = np.repeat(np.arange(len(out)), [part.num_rows for part in out])
    row = original_rows(pa.concat_tables([part.cast(out[-1].schema) for part in out]), table, by)
    call, row = call[row >= 0], row[row >= 0]
    delays: Codes = np.array([*arrived, table.num_rows])[call] - 1 - row
    waiting = np.array([*returned, ended])[call] - np.array(pushed)[row // batch_rows]
    timed = seconds > 0  # the clock may be too coarse for a small batch
    return Tempo(
        rows=table.num_rows,
        published=int(row.size),
        at_end=int(np.count_nonzero(call == len(out) - 1)),
        seconds=float(seconds.sum() + ended - before),
        arrivals=distribution(delays),
        waiting=distribution(waiting),
        throughput=distribution(sizes[timed] / seconds[timed]),
        delays=delays,
    )
