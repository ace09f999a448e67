"""Strict DOCA agrees with its definitions on exact numbers: the same rows and draws publish the same values, in the
same order; in any batches, with absent rows, ticks, a flush in between and a restart.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.doca.window_engine import WindowEngine, WindowKeys
from castleguard.algorithms.engine import Flags
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.doca_steps import FLUSH, feed, steps_with_flushes
from tests.properties.streams import Step, examples, joined, one_by_one
from tests.reference import doca_windows as twin
from tests.reference.chacha import Draws
from tests.reference.noise import Laplace, Sampler

SUMS, COUNTS, ORDER = (tuple(range(first, first + 8)) for first in (1, 20, 300))
Row = tuple[float, ...]  # quasi-identifiers, then sensitive codes
Release = tuple[list[int], list[list[float]], list[int]]  # positions, points, dropped

NUMBERS = (
    Numeric("x0", lower=0, upper=2, step=1),
    Numeric("x1", lower=-5, upper=300, step=5),
    Numeric("x2", lower=0.0, upper=0.5, step=0.1),
    Numeric("x3", lower=7, upper=7),
)


@dataclass(frozen=True, eq=False)
class Stream:
    """Input of both; None is an absent row."""

    schema: Schema
    policy: Doca
    rows: tuple[Row | None, ...]
    steps: tuple[Step, ...]


@st.composite
def window_streams(draw: st.DrawFn) -> Stream:
    """One to four columns of any kind, windows of a few rows."""
    roles: list[QuasiIdentifier] = draw(st.lists(st.sampled_from(NUMBERS), unique=True, max_size=2))
    if draw(st.booleans()) or not roles:
        labels = draw(st.integers(1, 5))
        roles.append(Categorical("c", hierarchy=Hierarchy.flat([f"leaf {number}" for number in range(labels)])))
    sensitive = [Sensitive("s", values=["u", "v"])] if draw(st.booleans()) else []
    schema = Schema(person="p", quasi_identifiers=roles, sensitive=sensitive)
    k = draw(st.integers(1, 5))
    policy = Doca(
        epsilon=draw(st.sampled_from((0.1, 1, 8.0))),
        k=k,
        delay=draw(st.integers(k, 20)),
        max_wait=draw(st.sampled_from((None, None, 1.0, 3.0))),
        rows_per_person=draw(st.sampled_from((None, None, 2))),
        weights=draw(st.sampled_from((None, {schema.described[0]: 2.5}))),
    )
    row = st.tuples(*(_values(role) for role in roles), *(st.integers(0, 2).map(float) for _ in sensitive))
    rows = draw(st.lists(st.one_of(row, row, row, row, st.none()), max_size=60))
    return Stream(schema, policy, tuple(rows), draw(steps_with_flushes(len(rows), rarity=10)))


def _values(role: QuasiIdentifier) -> st.SearchStrategy[float]:
    if isinstance(role, Categorical):
        return st.integers(0, len(role.hierarchy.leaves) - 1).map(float)
    return st.sampled_from(role.edges.tolist())


class Keyed:
    """Draws of successive windows, each under a key derived from the window's content."""

    def __init__(self, key: Sequence[int], mechanisms: Sequence[Laplace]) -> None:
        self._key = b"".join(word.to_bytes(4, "little") for word in key)
        self._mechanisms = mechanisms

    def sampler(self, contents: bytes) -> Sampler:
        """Draws of the next window; its key is derived from the previous one."""
        key = self._derived(contents)
        self._key = self._derived(b"")
        words = [int.from_bytes(key[at : at + 4], "little") for at in range(0, 32, 4)]
        return Sampler(words, self._mechanisms)

    def _derived(self, what: bytes) -> bytes:
        return hashlib.blake2b(what, key=self._key, digest_size=32, person=b"window noise").digest()


class Definitions:
    """Strict DOCA from its definitions: windows of rows, one list of published values per column."""

    def __init__(self, stream: Stream) -> None:
        self.schema, self.policy = stream.schema, stream.policy
        self.k, self.c = self.policy.run, self.policy.contributions
        shares = self.policy.shares(self.schema)
        roles = list(self.schema.quasi_identifiers)
        self.tops = {at: role.edges.size - 1 for at, role in enumerate(roles) if isinstance(role, Numeric)}
        self.labels = {at: len(role.hierarchy.leaves) for at, role in enumerate(roles) if isinstance(role, Categorical)}
        self.labels |= {len(roles) + at: len(role.labels or ()) + 1 for at, role in enumerate(self.schema.sensitive)}
        names, most = self.schema.described, 2 * self.k - 1
        self.sums = Keyed(
            SUMS,
            [
                Laplace(most * top, shares[names[at]] * most / self.c if top else Fraction(1))
                for at, top in self.tops.items()
            ],
        )
        self.counts = Keyed(
            COUNTS,
            [Laplace(self.policy.delay, shares[names[at]] * self.policy.delay / (2 * self.c)) for at in self.labels],
        )
        self.order = Draws(ORDER)
        self.arrivals = 0
        self.window: list[tuple[int, Row]] = []
        self.since = 0.0

    def push(self, row: Row | None, now: float) -> Iterator[Release]:
        yield from self.tick(now)
        if row is not None:
            self.since = self.since if self.window else now
            self.window.append((self.arrivals, row))
        self.arrivals += 1
        if self.arrivals % self.policy.delay == 0:
            yield from self.close()

    def tick(self, now: float) -> Iterator[Release]:
        if self.policy.max_wait is not None and self.window and self.since + self.policy.max_wait <= now:
            yield from self.close()

    def close(self) -> Iterator[Release]:
        positions = [position for position, _ in self.window]
        rows = [row for _, row in self.window]
        self.window = []
        if len(rows) < self.k:
            if rows:
                yield [], [], positions
            return
        self.noisy: list[int] = []
        columns = {**self.numbers(positions, rows), **self.labelled(positions, rows)}
        published = [columns[at] for at in range(len(columns))]
        contents = struct.pack(f"<{len(self.noisy)}q", *self.noisy)
        for column in published:
            for last in range(len(column) - 1, 0, -1):
                other = self.order.pick("shuffle", positions[0], last + 1, contents)
                column[last], column[other] = column[other], column[last]
        yield positions, [list(point) for point in zip(*published, strict=True)], []

    def contents(self, positions: Sequence[int], rows: Sequence[Row]) -> bytes:
        """Positions and content of a window's rows."""
        levels = [self.level(at, value) for row in rows for at, value in enumerate(row)]
        return hashlib.blake2b(b"".join(number.to_bytes(8, "little") for number in (*positions, *levels))).digest()

    def level(self, at: int, value: float) -> int:
        if at not in self.tops:
            return int(value)
        role = self.schema.quasi_identifiers[at]
        assert isinstance(role, Numeric)
        return int(role.edges.tolist().index(value))

    def numbers(self, positions: Sequence[int], rows: Sequence[Row]) -> dict[int, list[float]]:
        roles, sampler = self.schema.quasi_identifiers, self.sums.sampler(self.contents(positions, rows))
        levels = {at: [self.level(at, row[at]) for row in rows] for at in self.tops}
        sizes = twin.run_sizes(len(rows), self.k)
        true = [twin.sums(column, self.k) for column in levels.values()]
        noisy = [sampler.randomise(run, [sums[run] for sums in true]) for run in range(len(sizes))]
        self.noisy += [number for numbers in noisy for number in numbers]
        found = {}
        for number, (at, top) in enumerate(self.tops.items()):
            role = roles[at]
            assert isinstance(role, Numeric)
            assert role.grid is not None
            shifts = [noisy[run][number] - true[number][run] for run in range(len(sizes))]
            means = twin.noisy_means(levels[at], k=self.k, cells=top, noise=shifts.__getitem__)
            units = [float(role.grid.lower + role.grid.step * mean) for mean in means]
            found[at] = [unit for unit, size in zip(units, sizes, strict=True) for _ in range(size)]
        return found

    def labelled(self, positions: Sequence[int], rows: Sequence[Row]) -> dict[int, list[float]]:
        height = max(self.labels.values(), default=0)
        codes = {at: [int(row[at]) for row in rows] for at in self.labels}
        true = {at: [*twin.counts(codes[at], labels), *[0] * height] for at, labels in self.labels.items()}
        sampler = self.counts.sampler(self.contents(positions, rows))
        noisy = [sampler.randomise(label, [t[label] for t in true.values()]) for label in range(height)]
        self.noisy += [number for numbers in noisy for number in numbers]
        found = {}
        for number, (at, labels) in enumerate(self.labels.items()):
            shifts = [noisy[label][number] - true[at][label] for label in range(labels)]
            told = twin.noisy_labels(codes[at], labels=labels, most=self.policy.delay, noise=shifts.__getitem__)
            found[at] = [float(label) for label, rows_of_it in enumerate(told) for _ in range(rows_of_it)]
        return found


def by_definition(stream: Stream) -> list[Release]:
    """Releases by the definitions."""
    doca, left = Definitions(stream), list(stream.rows)
    found: list[Release] = []
    for step in stream.steps:
        if step == FLUSH:
            found += doca.close()
            continue
        found += doca.tick(step.now)
        for _ in range(step.rows):
            found += doca.push(left.pop(0), step.now)
    return found


def by_engine(stream: Stream, *, restart: bool = False) -> list[Release]:
    """Releases of the engine."""
    as_coded = partial(coded, schema=stream.schema)
    decided = feed(partial(new_engine, stream), stream.steps, stream.rows, coded=as_coded, restart=restart)
    return [release for decisions in decided for release in releases_of(decisions)]


def new_engine(stream: Stream) -> WindowEngine:
    keys = WindowKeys(*(np.array(key, dtype=np.uint32) for key in (SUMS, COUNTS, ORDER)))
    return WindowEngine(stream.schema, stream.policy, keys=keys)


def coded(rows: Sequence[Row | None], schema: Schema) -> tuple[CodedRows, Flags]:
    """Rows in the engine's form."""
    quasi, count = len(schema.quasi_identifiers), len(rows)
    width = quasi + len(schema.sensitive)
    values = np.array([[0.0] * width if row is None else row for row in rows]).reshape(-1, width)
    nobody, root = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.bool_)
    whole = CodedRows(values[:, :quasi].copy(), nobody, values[:, quasi:].astype(np.int64), root)
    return whole, np.array([row is not None for row in rows], dtype=np.bool_)


def releases_of(decisions: Decisions) -> list[Release]:
    """One release per group, and one for the rows of each dropped window, in any place among them."""
    found: list[Release] = []
    for number in range(decisions.loss.size):
        members = decisions.group == number
        found.append((decisions.position[members].tolist(), decisions.points[members].tolist(), []))
    dropped = decisions.dropped.tolist()
    return [*found, ([], [], dropped)] if dropped else found


def summed_up(releases: list[Release]) -> tuple[list[list[int]], list[list[float]], list[int]]:
    """Published windows, their points concatenated, and all dropped rows."""
    positions = [release[0] for release in releases if release[0]]
    points = [point for release in releases for point in release[1]]
    return positions, points, sorted(position for release in releases for position in release[2])


@examples(6)
@given(window_streams())
def test_engine_and_definitions_publish_the_same_values_in_the_same_order(stream: Stream) -> None:
    mine, theirs = summed_up(by_engine(stream)), summed_up(by_definition(stream))
    assert mine[0] == theirs[0]
    assert mine[2] == theirs[2]
    assert len(mine[1]) == len(theirs[1])
    for point, expected in zip(mine[1], theirs[1], strict=True):
        assert point == pytest.approx(expected, rel=1e-12, abs=1e-12)


@examples(2)
@given(window_streams())
def test_batches_and_restarts_change_nothing(stream: Stream) -> None:
    assert summed_up(by_engine(stream, restart=True)) == summed_up(by_engine(stream))
    kept = [step for step in stream.steps if step != FLUSH]
    whole = summed_up(by_engine(replace(stream, steps=(*kept, FLUSH))))
    assert summed_up(by_engine(replace(stream, steps=(*one_by_one(kept), FLUSH)))) == whole
    assert summed_up(by_engine(replace(stream, steps=(*joined(kept), FLUSH)))) == whole


@examples(2)
@given(window_streams())
def test_every_row_leaves_once_and_in_its_window(stream: Stream) -> None:
    positions, points, dropped = summed_up(by_engine(stream))
    gone = sorted([*(position for window in positions for position in window), *dropped])
    assert gone == [at for at, row in enumerate(stream.rows) if row is not None]
    assert len(points) == len(gone) - len(dropped)
    for window in positions:
        assert len(window) >= stream.policy.run
        assert len({position // stream.policy.delay for position in window}) == 1
