"""The ways to publish power-on hours that DOCA's paper compares, and its strict counterpart; and how they are measured.

As in the paper, the domain is the range of the data and every row counts as a person, though a drive has one per day.
Whoever publishes such data would have to know the domain beforehand, and to say how many rows a person may have.
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
    """Original values and what was published for them, one for one."""

    original: Values
    published: Values


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to publish a stream of values."""

    name: str
    publish: Callable[[Values, int], pa.Table]
    """A stream and a seed in, all that is published in return."""
    pair: Callable[[Values, pa.Table], Pairs]
    """Which original a published value is compared with."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one method did in one run, or in the mean of several."""

    error: float
    error_by_rank: float
    common: float
    """Share that the histograms over the domain have in common."""
    common_wide: float
    """The same, over the range of both."""
    rows: float
    seconds: float


def methods(*, epsilon: float = EPSILON, delay: int = DELAY) -> list[Method]:
    """Everything that is compared: naive noise, with which the others are compared, DOCA as printed, and strict."""
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
    """What the policy makes of the stream; as printed it publishes rows, and so their numbers can come along."""
    table = pa.table({COLUMN: stream, ROW: np.arange(stream.size)})
    return anonymise(table, schema(numbered=policy.mode == "paper"), policy, seed=seed)


def pair_rows(stream: Values, table: pa.Table) -> Pairs:
    """Every value with that of its own row."""
    return Pairs(stream[table.column(ROW).to_numpy()], table.column(COLUMN).to_numpy())


def pair_windows(delay: int, stream: Values, table: pa.Table) -> Pairs:
    """By rank within each window: a window is published as a multiset."""
    return Pairs(*paired_by_rank(stream, table.column(COLUMN).to_numpy(), window=delay))


def run(method: Method, stream: Values, seed: int) -> tuple[Figures, Values]:
    """One method once: how it did, and what it published."""
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
    """Every method on every stream: its figures run by run, and what it published of the first stream."""
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
    """The mean of every figure."""
    return Figures(**{name: statistics.fmean(getattr(found, name) for found in runs) for name in vars(runs[0])})
