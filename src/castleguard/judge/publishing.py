"""Policies under judgement: in a few words, and as streams that a judge runs itself (rows and a seed in, tables out).

Attacks are given such a function, or the table with the moments of its rows, and know neither policy nor engine.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.coordination import Alone
from castleguard.judge.attack.membership import Publish
from castleguard.judge.reading.values import Codes, refine
from castleguard.schema.coded import Decisions
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Public
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


@dataclass(frozen=True, eq=False)
class Timed:
    """A stream that a judge has published, with what left when."""

    published: pa.Table
    row: Codes
    """Per published row the number of its original row."""
    release: Codes
    """Per published row the number of its release, in the order of release."""
    arrived: Codes
    """Per release how many rows had been taken in."""
    at_end: NDArray[np.bool_]
    """Per release whether it was the end of the stream that let its rows go."""
    accepted: Codes
    """The numbers of the original rows that were taken in, in the order of arrival."""


def publish_timed(schema: Schema, policy: Policy, rows: pa.Table, *, seed: int, step: int = 1) -> Timed:
    """Publish rows that all arrive at one time of the clock, and note the release of each.

    The rows of one release leave in one call and in one event of the engine. `step` rows are handed to the engine at
    once. The engine says how many of them had arrived at each release; if what it says is impossible, all had.
    """
    number = _free_name("row", (*schema.columns, *(field.name for field in policy.encoder(schema).fields)))
    roles = (*schema.public_roles, Public(number, type="integer"))
    numbered = replace(schema, public=(*schema.public, number), public_roles=roles)
    table = rows.select(list(schema.columns)).append_column(number, pa.array(np.arange(rows.num_rows)))
    watching = _Watching(step)
    stream = Anonymiser(numbered, policy, seed=seed, coordinator=watching)
    stream.push(table, now=0.0)
    rejected = np.array([at for at, _ in stream.rejected()], dtype=np.int64)
    stream.finish(warn=False)
    accepted = np.delete(np.arange(rows.num_rows), rejected)
    return watching.timed(number, accepted)


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


class _Step(NamedTuple):
    """What one call of the engine has decided."""

    before: int
    """Rows that had been taken in before it."""
    arrived: int
    ended: bool
    decisions: Decisions


class _Watching(Alone):
    """A coordinator that publishes nothing together with others, and notes what every step decides and hands out."""

    def __init__(self, step: int) -> None:
        self.step = step
        self._arrived = self._before = 0
        self._ended = False
        self._steps: list[_Step] = []
        self._tables: list[pa.Table] = []

    def turn(self, arriving: int, now: float) -> None:
        """So many rows arrive."""
        self._before, self._arrived = self._arrived, self._arrived + arriving

    def settle(self) -> None:
        """No more rows arrive."""
        self._before, self._ended = self._arrived, True

    def decided(self, decisions: Decisions) -> None:
        """Note the decisions: the table of this step follows."""
        self._steps.append(_Step(self._before, self._arrived, self._ended, decisions))

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Note the tables, one for every step."""
        self._tables += tables
        return super().hand_out(tables)

    def timed(self, number: str, accepted: Codes) -> Timed:
        """All that was handed out; `number` is the column that numbers the rows."""
        schema = self._tables[-1].schema
        published = pa.concat_tables([table.cast(schema) for table in self._tables])
        row = published.column(number).to_numpy().astype(np.int64)
        call = np.repeat(np.arange(len(self._tables)), [table.num_rows for table in self._tables])
        decided, event, moment = self._decided(accepted)
        # A row that was held back after it was decided leaves in no event of its own.
        held = decided[row] != call
        latest = np.array([step.arrived for step in self._steps], dtype=np.int64)
        event, moment = np.where(held, -1, event[row]), np.where(held, latest[call], moment[row])
        release = refine(refine(call, moment), event)
        _, first = np.unique(release, return_index=True)
        ended = np.array([step.ended for step in self._steps], dtype=np.bool_)
        return Timed(
            published=published.drop_columns([number]),
            row=row,
            release=release,
            arrived=moment[first],
            at_end=ended[call[first]],
            accepted=accepted,
        )

    def _decided(self, accepted: Codes) -> tuple[Codes, ...]:
        """Per original row the step in which it was decided, the event, and how many rows had arrived then."""
        found = np.full((3, int(accepted.max(initial=-1)) + 1), -1, dtype=np.int64)
        for at, (before, arrived, _, decisions) in enumerate(self._steps):
            seen = np.where((before <= decisions.seen) & (decisions.seen <= arrived), decisions.seen, arrived)
            rows = accepted[decisions.position]
            found[0, rows] = at
            found[1, rows] = decisions.event[decisions.group]
            found[2, rows] = seen[decisions.group]
        return tuple(found)


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, lengthened until it is not taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def _moments(stream: pa.Table, clock: str | None) -> Iterator[tuple[float, pa.Table]]:
    """The stream in pieces, each with the time at which it arrives."""
    if clock is None:
        yield 0.0, stream
        return
    times = stream.column(clock).to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), stream.num_rows]
    for start, stop in pairwise(edges):
        yield float(times[start]), stream.slice(start, stop - start)
