"""Run the policy under judgement as a function: rows and a seed in, published tables out.

Attacks receive this function, or its table with the release of each row. They know neither policy nor engine.
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

from castleguard.algorithms.policy import Policy
from castleguard.coordination import Alone
from castleguard.judge.attack.membership_game import Publish
from castleguard.judge.reading.values import Codes, refine
from castleguard.schema.coded import Decisions
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Public
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG


def publisher(schema: Schema, policy: Policy, *, clock: str | None = None) -> Publish:
    """Return a function that publishes a stream under this policy in one push.

    `clock`: a column with arrival times in seconds; the stream is then pushed once per distinct time.
    """

    def publish(stream: pa.Table, seed: int) -> list[pa.Table]:
        anonymiser = Anonymiser(schema, policy, seed=seed)
        out = [anonymiser.push(rows, now=now) for now, rows in _split_by_arrival(stream, clock)]
        out.append(anonymiser.finish(warn=False))
        return [table.cast(out[-1].schema) for table in out]

    return publish


@dataclass(frozen=True, eq=False)
class Timed:
    """A published stream with the release of every row."""

    published: pa.Table
    row: Codes
    """Original row number of each published row."""
    release: Codes
    """Release number of each published row, in release order."""
    arrived: Codes
    """Rows accepted so far, at each release."""
    at_end: NDArray[np.bool_]
    """Whether each release was triggered by the end of the stream."""
    accepted: Codes
    """Numbers of the accepted original rows, in arrival order."""


def publish_timed(schema: Schema, policy: Policy, rows: pa.Table, *, seed: int, step: int = 1) -> Timed:
    """Publish rows that all arrive at the same clock time, and record the release of each.

    The rows of a release leave in one call and in one engine event. The engine receives `step` rows at a time and
    reports how many had arrived at each release; if the reported number is impossible, all of them are assumed.
    """
    number = _free_name("row", (*schema.columns, *(field.name for field in policy.encoder(schema).fields)))
    roles = (*schema.public_roles, Public(number, type="integer"))
    numbered = replace(schema, public=(*schema.public, number), public_roles=roles)
    table = rows.select(list(schema.columns)).append_column(number, pa.array(np.arange(rows.num_rows)))
    recorder = _ReleaseRecorder(step)
    stream = Anonymiser(numbered, policy, seed=seed, coordinator=recorder)
    stream.push(table, now=0.0)
    rejected = np.array([at for at, _ in stream.rejected()], dtype=np.int64)
    stream.finish(warn=False)
    accepted = np.delete(np.arange(rows.num_rows), rejected)
    return recorder.timed(number, accepted)


def in_words(policy: Policy) -> str:
    """Short description of a policy: its name and the parameters that differ from their defaults."""
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
    """Log errors only: each of many runs would repeat the same warnings, and no run is a real release."""
    before = LOG.level
    LOG.setLevel(max(before, logging.ERROR))
    try:
        yield
    finally:
        LOG.setLevel(before)


class _Step(NamedTuple):
    """Decisions of one engine call."""

    before: int
    """Rows accepted before the call."""
    arrived: int
    ended: bool
    decisions: Decisions


class _ReleaseRecorder(Alone):
    """Coordinator of a single stream that records the decisions and the table of every step."""

    def __init__(self, step: int) -> None:
        self.step = step
        self._arrived = self._before = 0
        self._ended = False
        self._steps: list[_Step] = []
        self._tables: list[pa.Table] = []

    def turn(self, arriving: int, now: float) -> None:
        """Count the arriving rows."""
        self._before, self._arrived = self._arrived, self._arrived + arriving

    def settle(self) -> None:
        """Mark the end of arrivals."""
        self._before, self._ended = self._arrived, True

    def decided(self, decisions: Decisions) -> None:
        """Record the decisions of a step; its table follows."""
        self._steps.append(_Step(self._before, self._arrived, self._ended, decisions))

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Record the tables, one per step."""
        self._tables += tables
        return super().hand_out(tables)

    def timed(self, number: str, accepted: Codes) -> Timed:
        """All published rows with their releases; column `number` holds the row numbers."""
        schema = self._tables[-1].schema
        published = pa.concat_tables([table.cast(schema) for table in self._tables])
        row = published.column(number).to_numpy().astype(np.int64)
        call = np.repeat(np.arange(len(self._tables)), [table.num_rows for table in self._tables])
        decided, event, moment = self._decided(accepted)
        # A row held back after its decision does not leave with its own event.
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
        """Step and event that decided each original row, and the number of rows that had arrived by then."""
        found = np.full((3, int(accepted.max(initial=-1)) + 1), -1, dtype=np.int64)
        for at, (before, arrived, _, decisions) in enumerate(self._steps):
            seen = np.where((before <= decisions.seen) & (decisions.seen <= arrived), decisions.seen, arrived)
            rows = accepted[decisions.position]
            found[0, rows] = at
            found[1, rows] = decisions.event[decisions.group]
            found[2, rows] = seen[decisions.group]
        return tuple(found)


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    """The wanted name, with underscores appended until it is free."""
    while wanted in taken:
        wanted += "_"
    return wanted


def _split_by_arrival(stream: pa.Table, clock: str | None) -> Iterator[tuple[float, pa.Table]]:
    """Split the stream at changes of the arrival time; yield each time with its rows."""
    if clock is None:
        yield 0.0, stream
        return
    times = stream.column(clock).to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), stream.num_rows]
    for start, stop in pairwise(edges):
        yield float(times[start]), stream.slice(start, stop - start)
