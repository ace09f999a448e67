"""What Citadel promises, held against its twin and its engine alike.

Each release stands by itself: k persons, at most 1/k of the rows of each, and the criteria, in every group. Every row
leaves once and in time. Sensitive values decide neither who leaves nor when. Over all values that rows could have, what
is published tells of a row no more than how often each value occurs in its group (rule 7); small worlds show that.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.algorithms.citadel.policy import Citadel as Policy
from castleguard.privacy.closeness import Closeness
from castleguard.schema.coded import NEW, NO_PERSON, REUSED, ROOT, CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.citadel_streams import (
    Stream,
    Transcription,
    apart,
    citadel_streams,
    large_citadel_streams,
)
from tests.properties.streams import KEYS, Step, examples, spread_hashes
from tests.properties.test_castle_agreement import outcome_of
from tests.properties.transcription import Group, Outcome, attributes_of, rows_of, shape_of
from tests.reference.citadel_forest import Grown, Published, forest, star, tree
from tests.reference.citadel_space import F
from tests.reference.measure import Domain, Row

ROUNDING = 1e-9  # what is forgiven where distributions are judged


class Player(Protocol):
    """Twin or engine, with the rows of a stream."""

    def step(self, step: Step) -> Outcome: ...

    def end(self) -> Outcome: ...


class EnginePlayer:
    """The engine, which takes steps as the twin does."""

    def __init__(self, stream: Stream) -> None:
        self.engine = CitadelEngine(stream.schema, stream.policy, key=stream.key)
        self.stream = stream
        self.taken = 0

    def step(self, step: Step) -> Outcome:
        if not step.rows:
            return outcome_of(self.engine.tick(step.now))
        cut = slice(self.taken, self.taken + step.rows)
        self.taken += step.rows
        return outcome_of(self.engine.push(self.stream.rows.take(cut), step.now, self.stream.present[cut]))

    def end(self) -> Outcome:
        return outcome_of(self.engine.flush())


NewPlayer = Callable[[Stream], Player]
players = pytest.mark.parametrize("new_player", [Transcription, EnginePlayer], ids=["twin", "engine"])


@dataclass(frozen=True)
class Call:
    """One call, which makes at most one release, and what has arrived by then."""

    step: Step | None  # None: the flush
    arrivals: int
    outcome: Outcome

    @property
    def leaving(self) -> list[int]:
        """All rows that leave, published or dropped."""
        return sorted([*self.outcome.order, *self.outcome.dropped])


def played(new_player: NewPlayer, stream: Stream) -> list[Call]:
    player, arrivals, calls = new_player(stream), 0, []
    for step in apart(stream.steps):
        arrivals += step.rows
        calls.append(Call(step, arrivals, player.step(step)))
    return [*calls, Call(None, arrivals, player.end())]


# -- every release by itself -------------------------------------------------------------------------------------------


def check_share(rows: Sequence[Row], k: int) -> None:
    """Rule 2."""
    counts = Counter(row.person for row in rows)
    assert len(set(counts) - {None}) >= k
    assert len(rows) >= k * max(counts.values())


def check_values(stream: Stream, rows: Sequence[Row], history: Sequence[Row]) -> None:
    """All criteria, by those rows alone."""
    shape = shape_of(stream.schema, stream.policy)
    if shape is not None:
        assert len(history) >= shape.burn_in
    for column in range(len(stream.schema.sensitive)):
        named = {row.sensitive[column] for row in rows if row.person is not None}
        assert len(named) >= stream.policy.l
        if shape is not None:
            assert shape.lack_by_row(rows, column, shape.shares(history, column)) <= ROUNDING


def check_place(stream: Stream, group: Group, rows: Sequence[Row]) -> None:
    """Every row lies in the box; rows for the root are nowhere else."""
    domain = Domain(attributes_of(stream.schema, snap=True))
    assert group.box == domain.root() or group.kind != ROOT
    assert all(domain.holds(group.box, row) for row in rows if not row.to_root)
    assert group.kind == ROOT or not any(row.to_root for row in rows)


def check_releases(new_player: NewPlayer, stream: Stream) -> None:
    """Every group of every release; a reused box must be that of a group which was published before."""
    rows = rows_of(stream.rows)
    boxes: set[object] = set()
    history: list[Row] = []  # rows of earlier releases
    for call in played(new_player, stream):
        groups = [(group, [rows[position] for position in group.positions]) for group in call.outcome.groups]
        assert sorted(p for group, _ in groups for p in group.positions) == sorted(call.outcome.order)
        for group, members in groups:
            check_place(stream, group, members)
            if group.kind == REUSED:
                assert stream.policy.reuse == "narrow"
                assert group.box in boxes
            else:
                check_share(members, stream.policy.k)
                check_values(stream, members, history)
        boxes |= {group.box for group, _ in groups if group.kind == NEW}
        history += [rows[position] for position in call.leaving]


@players
@examples(6)
@given(citadel_streams() | citadel_streams(judged=True))
def test_every_group_of_every_release_stands_by_itself(new_player: NewPlayer, stream: Stream) -> None:
    check_releases(new_player, stream)


@players
@examples(1)
@given(large_citadel_streams())
def test_groups_of_large_releases_stand_by_themselves(new_player: NewPlayer, stream: Stream) -> None:
    check_releases(new_player, stream)


@players
@examples(6)
@given(citadel_streams())
def test_every_row_leaves_once_and_in_time(new_player: NewPlayer, stream: Stream) -> None:
    """After `delay` more arrivals, and when `max_wait` is over at any call; absent rows never do."""
    waiting: dict[int, float] = {}
    arrived = 0
    for call in played(new_player, stream):
        now = np.inf if call.step is None else call.step.now
        overdue = {position for position, since in waiting.items() if since + (stream.policy.max_wait or np.inf) <= now}
        if call.arrivals > arrived and stream.present[arrived]:
            waiting[arrived] = now
        arrived = call.arrivals
        assert len(call.leaving) == len(set(call.leaving))
        for position in call.leaving:
            del waiting[position]
        assert not overdue & set(waiting)
        assert all(position + stream.policy.delay >= call.arrivals for position in waiting)
    assert not waiting


# -- values decide nothing ---------------------------------------------------------------------------------------------


def other_values(stream: Stream, seed: int) -> Stream:
    """The same stream with its values handed out otherwise; of some columns with any values."""
    random = np.random.default_rng(seed)
    values = random.permuted(stream.rows.sensitive, axis=0)
    for column in range(values.shape[1]):
        if random.random() < 0.3:
            values[:, column] = random.integers(0, random.integers(1, 6), len(values))
    return stream.with_values(values)


@players
@examples(6)
@given(citadel_streams(reuse="off", judged=True) | citadel_streams(judged=False), st.integers(0, 2**32 - 1))
def test_who_leaves_and_when_does_not_depend_on_values(new_player: NewPlayer, stream: Stream, seed: int) -> None:
    """With criteria, values decide what is published of those that leave; without, not even that."""
    one, other = played(new_player, stream), played(new_player, other_values(stream, seed))
    assert [call.leaving for call in one] == [call.leaving for call in other]
    if stream.policy.l == 1 and stream.policy.closeness is None:
        assert [call.outcome.groups for call in one] == [call.outcome.groups for call in other]
        assert [call.outcome.dropped for call in one] == [call.outcome.dropped for call in other]


# -- rule 7, exactly ---------------------------------------------------------------------------------------------------

Values = tuple[str, ...]  # of all rows, a letter each
Partition = list[list[int]]  # the rows of each published group
Observation = tuple[tuple[tuple[int, ...], tuple[tuple[str, int], ...]], ...]


def observed(values: Values, partition: Partition) -> Observation:
    """What an observer sees who knows everything but values and draws: each group's rows, and its values by number."""
    groups = [tuple(sorted(rows)) for rows in partition]
    return tuple((rows, tuple(sorted(Counter(values[row] for row in rows).items()))) for rows in sorted(groups))


def check_posteriors(publish: Callable[[Values], Partition], rows: int, values: str, odds: Sequence[int]) -> int:
    """Check that the posterior of a row's value is its frequency in the row's published group, for every output.

    Enumerates all worlds: every row has any of the values, independently and with these odds (whole numbers, to avoid
    rounding). Returns the number of different outputs.
    """
    total: Counter[Observation] = Counter()
    having: defaultdict[Observation, Counter[tuple[int, str]]] = defaultdict(Counter)
    weight_of = dict(zip(values, odds, strict=True))
    for world in product(values, repeat=rows):
        weight = prod(weight_of[value] for value in world)
        seen = observed(world, publish(world))
        total[seen] += weight
        weight_by_row = having[seen]
        for members, _ in seen:
            for row in members:
                weight_by_row[row, world[row]] += weight
    for seen in total:
        for members, counts in seen:
            for row, (value, count) in product(members, counts):
                assert having[seen][row, value] * len(members) == count * total[seen]
    return len(total)


def grown_groups(sizes: Sequence[int]) -> list[Grown]:
    """Groups of so many rows, side by side."""
    first = np.cumsum([0, *sizes])
    return [
        Grown(number, [Row(int(first[number]) + i, int(first[number]) + i, (0.0,)) for i in range(size)], (F(number),))
        for number, size in enumerate(sizes)
    ]


def publishing(
    groups: Sequence[Grown], l: int, arrange: Callable[[Sequence[Grown], Any], Iterable[Published] | None]
) -> Callable[[Values], Partition]:
    """What an arrangement publishes of these groups, by the values of all rows."""

    def publish(world: Values) -> Partition:
        found = arrange(groups, lambda rows: len({world[row.position] for row in rows}) >= l)
        return [[row.position for row in group.rows] for group in found or ()]

    return publish


@pytest.mark.parametrize("odds", [(1, 1), (1, 4)])
@pytest.mark.parametrize("sizes", [[2], [2, 2], [2, 2, 2, 2], [3, 3, 3, 3], [1] * 8])
def test_a_tree_tells_no_more_of_a_row_than_the_values_of_its_group(sizes: list[int], odds: tuple[int, int]) -> None:
    assert check_posteriors(publishing(grown_groups(sizes), 2, tree), sum(sizes), "ab", odds) > 1


@pytest.mark.parametrize("sizes", [[2, 2, 2], [2] * 5, [3, 3, 3]])
def test_a_star_tells_no_more_of_a_row_than_the_values_of_its_group(sizes: list[int]) -> None:
    assert check_posteriors(publishing(grown_groups(sizes), 2, star), sum(sizes), "ab", (1, 3)) > 1


def test_three_values_tell_no_more() -> None:
    assert check_posteriors(publishing(grown_groups([3, 3]), 3, tree), 6, "abc", (1, 2, 3)) > 1
    assert check_posteriors(publishing(grown_groups([2, 2, 2, 2]), 2, tree), 8, "abc", (1, 1, 1)) > 1
    assert check_posteriors(publishing(grown_groups([3, 3, 3]), 3, star), 9, "abc", (1, 1, 1)) > 1


def test_the_smallest_block_tells_no_more() -> None:
    """Eight groups of two rows: 65,536 worlds."""
    publish = publishing(grown_groups([2] * 8), 2, lambda groups, judge: forest(groups, 2, judge))
    assert check_posteriors(publish, 16, "ab", (1, 1)) > 1


def test_a_tree_of_unequal_children_would_tell_rows_apart() -> None:
    """Three groups: the first one is merged sooner or later than the two others, and that tells of its values."""
    with pytest.raises(AssertionError):
        check_posteriors(publishing(grown_groups([2, 2, 2]), 2, tree), 6, "ab", (1, 1))


# -- rule 7 from outside -----------------------------------------------------------------------------------------------

WORLD = Schema(
    person="p",
    quasi_identifiers=[Numeric("q", lower=0, upper=20, step=2)],
    sensitive=[Sensitive("s", hierarchy=Hierarchy.from_mapping({"*": ["a", "b", "c"]}))],
)
PUBLIC = {"s": {"a": 0.5, "b": 0.25, "c": 0.25, None: 0.0}}
SHAPES: list[dict[str, Any]] = [
    {"l": 2, "diversity": "entropy"},
    {"l": 2, "diversity": "recursive", "c": 1.5},
    {"closeness": Closeness(t=0.3, reference="public", public=PUBLIC)},
    {"closeness": Closeness(t=0.2, burn_in=0)},
    {"l": 2, "closeness": Closeness(t=0.4, burn_in=5, distance="ordered")},
]


@st.composite
def small_worlds(draw: st.DrawFn, *, shaped: bool) -> Stream:
    """Up to seven rows that leave by arrival or at the flush; persons come back. `shaped`: distributions are judged."""
    count = draw(st.integers(4, 7))
    bytes_of = st.binary(min_size=count, max_size=count)
    place, person, root = (np.frombuffer(draw(bytes_of), dtype=np.uint8) for _ in range(3))
    people = draw(st.integers(5, 9))
    named = (np.arange(count) + person) % people  # all zeros are several persons
    hashes = spread_hashes(named.astype(np.int64))
    to_root = root >= draw(st.sampled_from((200, 256)))
    rows = CodedRows(
        quasi=np.where(to_root, 0.0, place % 10 * 2.0)[:, None],
        person=np.where(named == people - 1, NO_PERSON, hashes),
        sensitive=np.zeros((count, 1), dtype=np.int64),
        to_root=to_root,
    )
    asked: dict[str, Any] = draw(st.sampled_from(SHAPES)) if shaped else {"l": 2}
    policy = Policy(
        k=2,
        delay=draw(st.sampled_from((3, 20))),
        suppression=draw(st.sampled_from(("root", "drop"))),
        **asked,
    )
    return Stream(WORLD, policy, draw(KEYS), rows, np.ones(count, dtype=np.bool_), (Step(count, 0.0),))


def check_world(new_player: NewPlayer, stream: Stream) -> None:
    """Play the stream once for each way in which its rows can have two values."""
    left: set[tuple[tuple[int, ...], ...]] = set()

    def publish(world: Values) -> Partition:
        codes = np.array([["ab".index(value)] for value in world], dtype=np.int64)
        calls = played(new_player, stream.with_values(codes))
        left.add(tuple(tuple(call.leaving) for call in calls))
        return [group.positions for call in calls for group in call.outcome.groups]

    check_posteriors(publish, stream.rows.person.size, "ab", (1, 3))
    assert len(left) == 1


@players
@examples(2)
@given(small_worlds(shaped=False))
def test_a_stream_tells_no_more_of_a_row_than_the_values_of_its_group(new_player: NewPlayer, stream: Stream) -> None:
    """With l distinct values; persons come back, NO_PERSON is among them, and some rows are for the root."""
    check_world(new_player, stream)


@players
@examples(2)
@given(small_worlds(shaped=True))
def test_judged_distributions_tell_no_more_with_repeated_persons(new_player: NewPlayer, stream: Stream) -> None:
    """Entropy, recursive diversity and closeness, also over several releases with a running reference."""
    check_world(new_player, stream)


@pytest.mark.parametrize("asked", SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize("delay", [3, 20])
def test_repeated_and_missing_persons_have_the_posterior_of_their_group(asked: dict[str, Any], delay: int) -> None:
    """Persons 0 and 1 have two rows each, one row has no person; all worlds are gone through."""
    rows = CodedRows(
        quasi=np.array([[2.0], [4.0], [4.0], [2.0], [12.0], [14.0], [12.0]]),
        person=np.array([*spread_hashes(np.array([0, 1, 2, 0, 1, 3])), NO_PERSON], dtype=np.uint64),
        sensitive=np.zeros((7, 1), dtype=np.int64),
        to_root=np.zeros(7, dtype=np.bool_),
    )
    key = np.arange(8, dtype=np.uint32)
    stream = Stream(WORLD, Policy(k=2, delay=delay, **asked), key, rows, np.ones(7, dtype=np.bool_), (Step(7, 0.0),))
    check_world(EnginePlayer, stream)
