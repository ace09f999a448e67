"""Policies under judgement: in a few words, and as streams that a judge runs itself (rows and a seed in, tables out).

Attacks are given such a function and know neither policy nor engine.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa

from castleguard.algorithms.base import Policy
from castleguard.judge.attack.membership import Publish
from castleguard.schema.roles import Schema
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG


def publisher(schema: Schema, policy: Policy, *, clock: str | None = None) -> Publish:
    """Streams under this policy, the rows of each pushed at once; or, with `clock`, a column that holds the seconds of
    their arrival, one push for each moment.
    """

    def publish(stream: pa.Table, seed: int) -> list[pa.Table]:
        anonymiser = Anonymiser(schema, policy, seed=seed)
        out = [anonymiser.push(rows, now=now) for now, rows in _moments(stream, clock)]
        out.append(anonymiser.finish(warn=False))
        return [table.cast(out[-1].schema) for table in out]

    return publish


def in_words(policy: Policy) -> str:
    """The policy in a few words: its name, and what differs from its defaults."""
    given = [
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, field in policy.__dataclass_fields__.items()
        if (value := getattr(policy, name)) != field.default and isinstance(value, int | float | str)
    ]
    closeness = getattr(policy, "closeness", None)
    if closeness is not None:
        given.append(f"t={closeness.t:g}")
    return f"{type(policy).__name__.lower()}({', '.join(given)})"


@contextmanager
def quiet() -> Iterator[None]:
    """Log errors only: every run of many would repeat the same warnings, and none of them is released."""
    before = LOG.level
    LOG.setLevel(max(before, logging.ERROR))
    try:
        yield
    finally:
        LOG.setLevel(before)


def _moments(stream: pa.Table, clock: str | None) -> Iterator[tuple[float, pa.Table]]:
    """The stream in pieces, each with the time at which it arrives."""
    if clock is None:
        yield 0.0, stream
        return
    times = stream.column(clock).to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), stream.num_rows]
    for start, stop in pairwise(edges):
        yield float(times[start]), stream.slice(start, stop - start)
