"""The examples of docs/proofs/citadel.md, in small worlds: where Citadel promises nothing, and attacks that fail.

All worlds are gone through: every row has any of two values. An observer sees the rows of each published group, unless
a test says otherwise, and its values by number.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from math import log

import numpy as np

import castleguard as cg
from castleguard.algorithms.citadel.policy import Citadel as Policy
from castleguard.privacy.closeness import Closeness
from castleguard.schema.coded import CodedRows
from tests.properties.citadel_streams import Stream
from tests.properties.streams import Step, spread_hashes
from tests.properties.test_citadel_promise import (
    WORLD,
    EnginePlayer,
    Partition,
    Values,
    check_posteriors,
    grown_groups,
    observed,
    played,
    publishing,
)
from tests.reference.citadel_forest import Grown, star, tree
from tests.reference.measure import Row

Key = tuple[object, ...]
Worlds = dict[Key, list[Values]]


def worlds(see: Callable[[Values], Key], rows: int) -> Worlds:
    """The worlds behind everything that can be seen."""
    found: Worlds = defaultdict(list)
    for world in product("ab", repeat=rows):
        found[see(world)].append(world)
    return found


def share(possible: Sequence[Values], row: int, value: str) -> float:
    """The posterior of a value, if all worlds are equally probable."""
    return sum(world[row] == value for world in possible) / len(possible)


def seen_by_groups(publish: Callable[[Values], Partition]) -> Callable[[Values], Key]:
    return lambda world: observed(world, publish(world))


def group_of(rows: Sequence[int], values: str) -> Key:
    """What is seen if these rows are published as the only group, with these values."""
    return ((tuple(rows), tuple(sorted(Counter(values).items()))),)


def test_suppressed_rows_have_one_value_where_two_are_asked() -> None:
    """Which one is not told, but the prior of the whole stream often suffices."""
    found = worlds(seen_by_groups(publishing(grown_groups([3, 3]), 2, star)), 6)
    assert found[()] == [tuple("aaaaaa"), tuple("bbbbbb")]


def test_groups_that_share_a_box_do_not_have_the_frequency_of_their_sum() -> None:
    """A group of three rows and one of two, each a block of its own, both published in one box as a a a b b."""
    groups = grown_groups([3, 2])

    def see(world: Values) -> Key:
        parts = [publishing([group], 2, star)(world) for group in groups]
        rows = [row for part in parts for members in part for row in members]
        return tuple(sorted(rows)), tuple(sorted(Counter(world[row] for row in rows).items()))

    possible = worlds(see, 5)[tuple(range(5)), (("a", 3), ("b", 2))]
    assert [share(possible, row, "b") for row in range(5)] == [1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2]


def test_entropy_over_pairs_would_tell_every_value_and_over_rows_does_not() -> None:
    """Two groups of three rows, k = 3. Persons 0 and 1 are in both. Published as one group a a a a b b."""
    persons = [0, 1, 2, 0, 1, 3]
    groups = [
        Grown(group.number, [Row(row.position, persons[row.position], (0.0,)) for row in group.rows], group.centre)
        for group in grown_groups([3, 3])
    ]

    def see(world: Values, *, by_row: bool, l: float) -> Key:
        def has_entropy(rows: Sequence[Row]) -> bool:
            pairs = [(row.person, world[row.position]) for row in rows]
            counts = Counter(value for _, value in (pairs if by_row else set(pairs))).values()
            total = sum(counts)
            return -sum(count / total * log(count / total) for count in counts) >= log(l) - 1e-9

        return observed(world, [[row.position for row in group.rows] for group in tree(groups, has_entropy) or ()])

    seen = group_of(range(6), "aaaabb")
    assert worlds(lambda world: see(world, by_row=False, l=2), 6)[seen] == [tuple("aabaab")]
    possible = worlds(lambda world: see(world, by_row=True, l=1.8), 6)[seen]
    assert {share(possible, row, "b") for row in range(6)} == {1 / 3}


def test_closeness_tells_nothing_about_rows_of_another_release() -> None:
    """Rows 0 and 2 leave first, rows 1, 3 and 4 later. A reference with pending rows told here which of these has b."""
    rows = CodedRows(
        quasi=np.array([[14.0], [8.0], [16.0], [6.0], [6.0]]),
        person=spread_hashes(np.arange(5)),
        sensitive=np.zeros((5, 1), dtype=np.int64),
        to_root=np.zeros(5, dtype=np.bool_),
    )
    policy = Policy(k=2, delay=3, closeness=Closeness(t=0.4, burn_in=0, alpha=1))
    stream = Stream(WORLD, policy, np.arange(8, dtype=np.uint32), rows, np.ones(5, dtype=np.bool_), (Step(5, 0.0),))

    def publish(world: Values) -> Partition:
        calls = played(EnginePlayer, stream.with_values(np.array([["ab".index(value)] for value in world])))
        return [group.positions for call in calls for group in call.outcome.groups]

    assert check_posteriors(publish, 5, "ab", (1, 1)) > 1


def test_groups_that_share_a_box_keep_the_criteria_together() -> None:
    """Two pairs with the entropy of two values each. A person who is in both counts in both: so does the cell."""
    schema = cg.Schema(
        person="p",
        quasi_identifiers=[cg.Numeric("q", lower=0, upper=100, step=10)],
        sensitive=[cg.Sensitive("s", values=["a", "b"])],
    )
    stream = cg.Anonymiser(schema, Policy(k=2, l=2, delay=20, diversity="entropy"), seed=1)
    stream.push(
        [{"p": person, "q": 42, "s": value} for person, value in (("1", "a"), ("2", "b"), ("1", "a"), ("3", "b"))]
    )
    published = stream.flush().to_pylist()
    assert stream.report().groups == 2
    assert {(row["q_min"], row["q_max"]) for row in published} == {(40, 50)}  # one cell
    assert sorted(row["s"] for row in published) == ["a", "a", "b", "b"]
