"""split and split^l make the same sub-clusters as their transcriptions, which measure every distance exactly.

Values are chosen to provoke ties and distances that differ by less than single precision can tell. Clusters are large
enough to be scanned, and shrink until they are not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.algorithms import domain as domains
from castleguard.algorithms.castle.engine import make_state, make_work
from castleguard.algorithms.castle.policy import Castle
from castleguard.kernels.chacha import begin_event
from castleguard.kernels.compile import COMPILED, Int, entry_kernel
from castleguard.kernels.split import split
from castleguard.kernels.split_diverse import split_diverse
from castleguard.kernels.state import State, Work
from castleguard.kernels.views import cluster_of, draws_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from tests.properties.streams import examples, spread_hashes
from tests.properties.transcription import attributes_of
from tests.reference.chacha import Draws
from tests.reference.measure import Cluster, Domain, Row
from tests.reference.split import Event
from tests.reference.split import split as literal_split
from tests.reference.split import split_diverse as literal_split_diverse

EVENT = 7
MOST = 400 if COMPILED else 90
TREE = Hierarchy.from_mapping({"*": {"a": [1, 2, 3], "b": {"c": [4, 5], "d": [6]}, "e": [7]}})
WIDE = Hierarchy.flat([str(leaf) for leaf in range(60)])
Values = NDArray[np.float64]
Numbers = Callable[[np.random.Generator, int], Values]


@entry_kernel
def make_parts(state: State, work: Work, goal: tuple[Int, Int, bool], count: Int) -> Int:
    """Split the rows laid out in `work`, by split^l if l is above 1; return the number of sub-clusters."""
    begin_event(draws_of(state))
    cluster = cluster_of(work)
    for row in range(count):
        cluster.part[row] = -1
    if goal[1] > 1:
        return split_diverse(state.domain, draws_of(state), work, EVENT, goal, count)
    return split(state.domain, draws_of(state), work, EVENT, goal[0], count)


@dataclass(frozen=True)
class World:
    """A cluster and how it is to be split."""

    roles: tuple[QuasiIdentifier, ...]
    bounds: tuple[tuple[float, float], ...]
    quasi: Values  # (rows, columns)
    person: NDArray[np.int64]
    value: NDArray[np.int64]
    k: int
    l: int
    balanced: bool
    key: NDArray[np.uint32]


def equal(random: np.random.Generator, count: int) -> Values:
    return np.full(count, 5.0)


def few(random: np.random.Generator, count: int) -> Values:
    return random.integers(0, 4, count).astype(np.float64)


def lopsided(random: np.random.Generator, count: int) -> Values:
    return np.where(random.random(count) < 0.9, 0.0, random.exponential(1e4, count))


def spread(random: np.random.Generator, count: int) -> Values:
    scale, offset = random.choice([1e-300, 1e-3, 1.0, 1e12]), random.choice([0.0, -7.0, 1e12])
    return random.random(count) * float(scale) + float(offset)


def close(random: np.random.Generator, count: int) -> Values:
    """Values around 1 that single precision takes for equal or for neighbours."""
    step = 2.0 ** -int(random.integers(20, 53))
    return np.asarray(1.0 + step * random.integers(-40, 40, count))


NUMBERS: tuple[Numbers, ...] = (equal, few, lopsided, spread, close)


@st.composite
def worlds(draw: st.DrawFn, *, l: int) -> World:
    """Rows from a seeded generator: they do not shrink, but the choices around them do."""
    choices: tuple[Hierarchy | Numbers, ...] = (*NUMBERS, TREE, WIDE)
    kinds = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=7))
    k = draw(st.integers(max(2, l), 12))
    persons = draw(st.sampled_from(("one row each", "one row each", "few rows each", "many rows each")))
    values = draw(st.sampled_from((2, 3, 12)))
    outside = draw(st.sampled_from((False, False, False, True)))
    balanced = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = int(random.integers(2 * k, MOST))
    roles: list[QuasiIdentifier] = []
    bounds: list[tuple[float, float]] = []
    columns: list[Values] = []
    for number, kind in enumerate(kinds):
        if isinstance(kind, Hierarchy):
            roles.append(Categorical(f"q{number}", hierarchy=kind))
            columns.append(random.integers(0, len(kind.leaves), count).astype(np.float64))
            bounds.append((0.0, 0.0))
            continue
        column = kind(random, count)
        roles.append(Numeric(f"q{number}"))
        columns.append(column)
        low, high = float(column.min()), float(column.max())
        if outside:
            low = low + (high - low) / 4
        elif random.random() < 0.5:
            high = high + 3 * (high - low)
        bounds.append((low, high))
    of = {"one row each": 10**9, "few rows each": max(1, count // 2), "many rows each": 2 * k}[persons]
    person = random.permutation(count) if of == 10**9 else random.integers(0, of, count)
    person[: 2 * k] = np.arange(2 * k)
    copies = random.integers(0, count, count // 3)
    quasi = np.stack(columns, axis=1)
    quasi[random.integers(0, count, copies.size)] = quasi[copies]  # equal rows
    return World(
        roles=tuple(roles),
        bounds=tuple(bounds),
        quasi=quasi,
        person=person,
        value=random.integers(0, values, count),
        k=k,
        l=l,
        balanced=balanced,
        key=random.integers(0, 2**32, 8, dtype=np.uint32),
    )


def compiled_parts(world: World) -> list[list[int]]:
    """Rows of the sub-clusters that the kernels make, in the order they were made."""
    schema = Schema(person="p", quasi_identifiers=world.roles)
    count = world.person.size
    policy = Castle(k=world.k, delay=count, mode="paper")
    state, work = make_state(schema, policy, world.key), make_work(schema, policy, values=0)
    state.domain.bounds[:] = np.array(world.bounds).T
    work.point[:count] = world.quasi
    work.keys[0, :count] = spread_hashes(world.person)
    work.keys[1, :count] = spread_hashes(world.value)
    parts = int(make_parts(state, work, (world.k, world.l, not world.balanced), count))
    part = work.ints[1, :count]
    return [np.nonzero(part == number)[0].tolist() for number in range(parts)]


def literal_parts(world: World) -> list[list[int]]:
    """The same by the transcription; a single sub-cluster is not a split."""
    schema = Schema(person="p", quasi_identifiers=world.roles)
    space = Domain(attributes_of(schema, snap=False))
    for corner in zip(*world.bounds, strict=True):
        space.observe(Row(0, 0, corner))
    rows = [
        Row(at, int(world.person[at]), tuple(world.quasi[at].tolist()), (int(world.value[at]),))
        for at in range(world.person.size)
    ]
    event = Event(EVENT, Draws([int(word) for word in world.key]), space)
    made: list[Cluster]
    if world.l > 1:
        made = literal_split_diverse(rows, 0, world.k, world.l, "balanced" if world.balanced else "random", event)
    else:
        made = literal_split(rows, world.k, event)
    return [sorted(row.position for row in part.rows) for part in made]


@examples(4)
@given(worlds(l=1))
def test_split_makes_the_parts_of_an_exact_search(world: World) -> None:
    assert compiled_parts(world) == literal_parts(world)


@examples(4)
@given(worlds(l=2) | worlds(l=3))
def test_split_l_makes_the_parts_of_an_exact_search(world: World) -> None:
    expected = literal_parts(world)
    assert (compiled_parts(world) or [list(range(world.person.size))]) == expected


@examples(1)
@given(worlds(l=1) | worlds(l=2))
def test_climbing_a_hierarchy_makes_the_same_parts(world: World) -> None:
    with patch.object(domains, "_TABLE_LEAVES", 1):
        assert (compiled_parts(world) or [list(range(world.person.size))]) == literal_parts(world)
