"""How long rows are held back and how fast a stream runs: distributions, since a mean hides what matters.

A row is published when others that resemble it have arrived. That delay is counted in arrivals, as the papers do, and
is the same on every machine. The seconds are those of the machine it was measured on: rows are pushed as fast as they
are taken, so they say how long the computing takes and not how long a real stream would keep a row waiting.
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
    """What is measured; an Anonymiser is one."""

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        """Take in rows, and return what is published by that."""

    def flush(self) -> pa.Table:
        """Publish the rest."""


class Distribution(NamedTuple):
    """Some numbers in short. A percentile is one of the numbers: the smallest that so many percent do not exceed."""

    size: int
    mean: float
    smallest: float
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class Tempo:
    """One run of a stream."""

    rows: int
    """That arrived."""
    published: int
    at_end: int
    """Of those published, the ones that left because the stream ended: it might have held them longer."""
    seconds: float
    """All calls together."""
    arrivals: Distribution
    """Per published row: rows that arrived after it and before it left."""
    waiting: Distribution
    """Per published row: seconds from the push that brought it to the end of the one that published it."""
    throughput: Distribution
    """Per batch: rows per second. Here the smallest number is the slowest batch."""
    delays: Codes = field(repr=False, compare=False)
    """What `arrivals` sums up, in the order of publication."""

    @property
    def rows_per_second(self) -> float:
        """Over the whole run, the end included."""
        return self.rows / self.seconds if self.seconds > 0 else float("nan")


def distribution(values: ArrayLike) -> Distribution:
    """Sum up some numbers; all of it is NaN if there are none.

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
    """Push a table through a new stream, end it, and see when each row came out.

    `by` is a public column that numbers the rows. What a push publishes counts as published when its last row has
    arrived, so a delay may be found up to `batch_rows` - 1 too large; with batches of one row it is exact. All rows
    count as arrivals, also those that are refused. Compiling the kernels is part of the first push of a process:
    push something through another stream before, unless that is to be measured.
    """
    check_count("batch_rows", batch_rows)
    if not table.num_rows:
        raise InputError("there are no rows to measure a stream with")
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
    timed = seconds > 0  # a clock may be too coarse to see a small batch
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
