"""The methods that DOCA's paper compares for power-on hours, strict DOCA beside them, and their measurements.

As in the paper, the domain is the range of the data and every row counts as a person, although a drive has one row per
day. A real publisher would have to know the domain beforehand and bound the rows per person.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.algorithms.doca.policy import Doca
from castleguard.conversion import anonymise
from castleguard.judge.measure.error import histogram_intersection, mean_squared_error, paired_by_rank
from castleguard.lab.backblaze import COLUMN, DOMAIN, LOWER, ROW, UPPER, Values, schema
from castleguard.lab.baselines.naive import naive_laplace

EPSILON, DELAY = 1.0, 1000
SENSITIVITY = 1.5 * (UPPER - LOWER)
CLUSTERS, LOSS_WINDOW, BINS = 50, 100, 100
KS = (10, 20, 50, 100)


class Pairs(NamedTuple):
    """Original values, each with its published value."""

    original: Values
    published: Values


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method that publishes a stream of values."""

    name: str
    publish: Callable[[Values, int], pa.Table]
    """From a stream and a seed to everything that is published."""
    pair: Callable[[Values, pa.Table], Pairs]
    """The original that a published value is compared with."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one method in one run, or means of several."""

    error: float
    error_by_rank: float
    common: float
    """Overlap of the histograms over the domain, as a share."""
    common_wide: float
    """The same over the range of both."""
    rows: float
    seconds: float


def methods(*, epsilon: float = EPSILON, delay: int = DELAY) -> list[Method]:
    """All methods: naive noise as the baseline, DOCA as printed, and strict DOCA."""
    printed = Doca(epsilon=epsilon, delay=delay, mode="paper", max_clusters=CLUSTERS, loss_window=LOSS_WINDOW)
    found = [
        Method(name="naive", publish=partial(publish_naive, epsilon), pair=pair_rows),
        Method(name="DOCA, paper", publish=partial(publish_doca, printed), pair=pair_rows),
    ]
    for k in KS:
        if k <= delay:
            strict = partial(publish_doca, Doca(epsilon=epsilon, delay=delay, k=k))
            found.append(Method(name=f"DOCA, strict, k={k}", publish=strict, pair=partial(pair_windows, delay)))
    return found


def publish_naive(epsilon: float, stream: Values, seed: int) -> pa.Table:
    """Noise on every value by itself."""
    values = naive_laplace(stream, epsilon=epsilon, sensitivity=SENSITIVITY, seed=seed)
    return pa.table({COLUMN: values, ROW: np.arange(stream.size)})


def publish_doca(policy: Doca, stream: Values, seed: int) -> pa.Table:
    """Output of the policy for the stream; as printed it publishes rows, so their numbers can be included."""
    table = pa.table({COLUMN: stream, ROW: np.arange(stream.size)})
    return anonymise(table, schema(numbered=policy.mode == "paper"), policy, seed=seed)


def pair_rows(stream: Values, table: pa.Table) -> Pairs:
    """Pair every value with that of its own row."""
    return Pairs(stream[table.column(ROW).to_numpy()], table.column(COLUMN).to_numpy())


def pair_windows(delay: int, stream: Values, table: pa.Table) -> Pairs:
    """Pair values by rank within each window: a window is published as a multiset."""
    return Pairs(*paired_by_rank(stream, table.column(COLUMN).to_numpy(), window=delay))


def run(method: Method, stream: Values, seed: int) -> tuple[Figures, Values]:
    """Run one method once: its figures and its output."""
    start = time.process_time()
    table = method.publish(stream, seed)
    seconds = time.process_time() - start
    pairs = method.pair(stream, table)
    values = pairs.published
    found = Figures(
        error=mean_squared_error(*pairs),
        error_by_rank=mean_squared_error(*paired_by_rank(*pairs, window=values.size)),
        common=histogram_intersection(stream, values, bins=BINS, range=DOMAIN),
        common_wide=histogram_intersection(stream, values, bins=BINS),
        rows=values.size,
        seconds=seconds,
    )
    return found, values


def compare(
    compared: Sequence[Method], streams: Sequence[Values], seeds: Sequence[int]
) -> tuple[list[list[Figures]], list[Values]]:
    """Run every method on every stream: figures per run, and the output for the first stream."""
    found: list[list[Figures]] = [[] for _ in compared]
    firsts: list[Values] = []
    for stream, seed in zip(streams, seeds, strict=True):
        for method, runs in zip(compared, found, strict=True):
            figures, published = run(method, stream, seed)
            runs.append(figures)
            if len(firsts) < len(compared):
                firsts.append(published)
    return found, firsts


def mean(runs: Sequence[Figures]) -> Figures:
    """Mean of every figure."""
    return Figures(**{name: statistics.fmean(getattr(found, name) for found in runs) for name in vars(runs[0])})
