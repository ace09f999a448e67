"""A stream cut into shards: the output of each shard is judged, and that of all shards together.

The judge is `castleguard.judge`, which shares no code with engine or gate. That a secret order keeps epsilon is
computed exactly on a stream of three rows, over all orders and all noise. See docs/proofs/shards.md.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import log
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.judge.verify.structure import verify
from castleguard.privacy.closeness import distance_equal, distance_hierarchical, distance_ordered, tree_with_missing
from castleguard.privacy.diversity import is_entropy_diverse, is_recursive_diverse
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.shards.cuts import cut_domain
from castleguard.shards.order import fixed_order
from castleguard.shards.plan import Plan, Route
from castleguard.shards.promises import check
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.shards.shard import Outcome, Shard
from castleguard.stream import Anonymiser
from tests.properties.sdgs_streams import Front
from tests.properties.streams import examples
from tests.properties.test_sdgs_neighbours import POLICY as SDGS
from tests.properties.test_sdgs_neighbours import SCHEMA as SDGS_SCHEMA
from tests.properties.test_sdgs_neighbours import TIGHT, A, B, Kind, distance, rows_of
from tests.properties.test_sdgs_neighbours import Law as SampledLaw

ZIPS = Hierarchy.from_mapping({"*": {"north": ["n1", "n2"], "south": ["s1", "s2"]}})
SCHEMA = Schema(
    person="id",
    quasi_identifiers=[Numeric("age", lower=0, upper=80, step=10), Categorical("zip", hierarchy=ZIPS)],
    sensitive=[Sensitive("ill", values=["a", "b", "c"])],
    public=["row"],
)
POLICY = Castle(k=2, delay=6, l=2, max_wait=30)


@dataclass(frozen=True)
class Cut:
    """A stream in micro-batches, and its route to shards."""

    table: pa.Table
    sizes: tuple[int, ...]
    policy: Castle
    route: Route

    @property
    def plan(self) -> Plan:
        return Plan(schema=SCHEMA, policy=self.policy, route=self.route)

    def run(self) -> tuple[list[tuple[int, pa.Table]], int]:
        """Published tables with the number of their shard, in order of time; and the number of rows not published."""
        check(self.plan, streaming=True)
        shards: dict[int, Shard] = {}
        out: list[tuple[int, pa.Table]] = []
        lost, start, now = 0, 0, 0.0

        def enter(number: int, outcome: Outcome) -> None:
            out.extend((number, table) for table in outcome.published)

        for size in self.sizes:
            batch, now = self.table.slice(start, size), now + 10.0
            start += size
            to = self.route.shard_of(batch)
            for number in range(self.route.shards):
                rows = batch.filter(pa.array(to == number))
                if rows.num_rows:
                    enter(number, shards.setdefault(number, Shard(self.plan, number)).take(rows, now))
                elif number in shards:
                    enter(number, shards[number].tick(now))
        for number, shard in shards.items():
            last = shard.flush(now + 10.0)
            enter(number, last)
            lost += json.loads(last.counts)["suppressed"]
        return out, lost


@st.composite
def cuts(draw: st.DrawFn, policy: Castle = POLICY) -> Cut:
    """Streams in which persons return with other values, and are few enough that groups are hard to form."""
    rows = draw(st.integers(min_value=1, max_value=40))
    random = np.random.default_rng(draw(st.integers(min_value=0, max_value=2**32)))
    persons = draw(st.sampled_from([3, 10, 1000]))
    table = pa.table(
        {
            "id": random.integers(0, persons, rows),
            "age": random.integers(0, draw(st.sampled_from([20, 80])), rows),
            "zip": random.choice(["n1", "n2", "s1", "s2"], rows),
            "ill": random.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]),
            "row": np.arange(rows),
        }
    )
    ends = sorted({rows, *draw(st.lists(st.integers(min_value=1, max_value=rows), max_size=5))})
    shards = draw(st.sampled_from([1, 2, 3]))
    route = draw(st.sampled_from(["hash", "locality"]))
    return Cut(
        table=table,
        sizes=tuple(np.diff([0, *ends]).tolist()),
        policy=replace(policy, k=draw(st.sampled_from([2, 3])), max_wait=draw(st.sampled_from([5.0, 15.0, 1000.0]))),
        route=HashRoute(SCHEMA, shards) if route == "hash" else LocalityRoute(SCHEMA, cut_domain(SCHEMA, shards)),
    )


@examples(1)
@given(cuts())
def test_every_shard_keeps_the_promise_and_so_do_all_together(cut: Cut) -> None:
    """k persons and l values in every group from its first table on, with and without the shard's number."""
    out, lost = cut.run()
    for number in {number for number, _ in out}:
        own = [table for shard, table in out if shard == number]
        judged = verify(own, cut.table, SCHEMA, k=cut.policy.k, l=2, link="row", every_moment=True)
        assert judged.ok, judged.sentence
    tables = [table for _, table in out]
    if tables:
        judged = verify(tables, cut.table, SCHEMA, k=cut.policy.k, l=2, link="row", every_moment=True)
        assert judged.ok, judged.sentence
    assert sum(table.num_rows for table in tables) + lost == cut.table.num_rows


WINDOWED = Sdgs(k=2, sample_rate=0.9, epsilon=3, window=25)
ROWS_ONLY = Schema(person="id", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=SCHEMA.sensitive)


@pytest.mark.parametrize("sdgs", [False, True])
@examples(1)
@given(data=st.data())
def test_a_shard_that_waits_for_its_keys_publishes_the_same_later(sdgs: bool, data: st.DataObject) -> None:
    """So a row that starts a shard does not change how others are published, or in which order."""
    cut = data.draw(cuts())
    schema = ROWS_ONLY if sdgs else SCHEMA
    policy: Policy = WINDOWED if sdgs else cut.policy
    plan = Plan(schema=schema, policy=policy, route=HashRoute(schema, 1))
    at_once, later = Shard(plan, 0, key=bytes(32), kept=True), Shard(plan, 0, key=bytes(32))
    outcomes = []
    for shard in (at_once, later):
        out, start = [], 0
        for batch, size in enumerate(cut.sizes):
            out.append(shard.take(cut.table.slice(start, size).select(schema.columns), 10.0 * batch))
            out.append(shard.tick(10.0 * batch + 5))
            start += size
        out.append(shard.flush(10.0 * len(cut.sizes)))
        outcomes.append([row for outcome in out for table in outcome.published for row in table.to_pylist()])
        assert shard is at_once or not out[0].published
    assert outcomes[0] == outcomes[1]


def boxes_without_repeats(tables: Iterable[pa.Table], original: pa.Table) -> list[list[int]]:
    """Occurrences of each value in each published box in which no person has the same value twice."""
    persons = original["id"].to_pylist()
    found: dict[tuple[int, int, str], list[tuple[int, str]]] = defaultdict(list)
    for table in tables:
        for row in table.to_pylist():
            found[row["age_min"], row["age_max"], row["zip"]].append((persons[row["row"]], row["ill"]))
    apart = [pairs for pairs in found.values() if len(set(pairs)) == len(pairs)]
    return [list(Counter(value for _, value in pairs).values()) for pairs in apart]


@pytest.mark.parametrize("kind", ["entropy", "recursive"])
@examples(1)
@given(data=st.data())
def test_what_all_shards_publish_in_a_box_is_diverse_if_no_pair_is_in_it_twice(
    kind: Literal["entropy", "recursive"], data: st.DataObject
) -> None:
    """Every release has passed alone or with the remembered pairs of its box; distinct pairs add up."""
    cut = data.draw(cuts(replace(POLICY, diversity=kind, c=2.0 if kind == "recursive" else None)))
    out, _ = cut.run()
    for counts in boxes_without_repeats((table for _, table in out), cut.table):
        passes = is_entropy_diverse(np.array(counts), 2)
        assert passes if kind == "entropy" else is_recursive_diverse(np.array(counts), 2.0, 2)


COUNTS = st.lists(st.integers(min_value=0, max_value=9), min_size=4, max_size=4).map(np.array)


@given(COUNTS, COUNTS, st.integers(min_value=1, max_value=4), st.sampled_from([0.5, 1.0, 2.0, 5.0]))
def test_counts_of_different_persons_stay_diverse_when_they_are_added(
    one: np.ndarray, other: np.ndarray, l: int, c: float
) -> None:
    if is_entropy_diverse(one, l) and is_entropy_diverse(other, l):
        assert is_entropy_diverse(one + other, l, slack=2e-9)
    if is_recursive_diverse(one, c, l) and is_recursive_diverse(other, c, l):
        assert is_recursive_diverse(one + other, c, l)


def test_a_person_in_two_shards_can_break_a_criterion_that_both_meet() -> None:
    """The first shard publishes a person p with x and a person q with y, the second p with x and r with y: each has
    an entropy of ln 2. Together p and x are one pair beside two with y.
    """
    first, second = {("p", "x"), ("q", "y")}, {("p", "x"), ("r", "y")}
    for shard in (first, second):
        assert is_entropy_diverse(np.array(list(Counter(value for _, value in shard).values())), 2)
    union = Counter(value for _, value in first | second)
    assert union == {"x": 1, "y": 2}
    assert not is_entropy_diverse(np.array(list(union.values())), 2)


SHARES = st.lists(st.integers(min_value=0, max_value=9), min_size=5, max_size=5).map(
    lambda counts: (np.array(counts) + 0.5) / (sum(counts) + 2.5)
)


@given(SHARES, SHARES, SHARES)
def test_a_group_is_as_far_from_all_rows_as_from_its_shard_and_that_from_all_at_most(
    group: np.ndarray, shard: np.ndarray, everybody: np.ndarray
) -> None:
    tree = tree_with_missing(np.asarray(ZIPS.parents), np.asarray(ZIPS.leaf_nodes))

    def hierarchical(p: np.ndarray, q: np.ndarray) -> float:
        return distance_hierarchical(p, q, tree)

    for far in (distance_equal, distance_ordered, hierarchical):
        assert far(group, everybody) <= far(group, shard) + far(shard, everybody) + 1e-12


# The order of a micro-batch. Three persons with a place of two leaves each, which is kept with probability 3/4: that is
# an epsilon of ln 3. "who" is public, so the output of each arrival can be seen.

PERSONS = ("p", "q", "r")
PLACES = Schema(
    person="who",
    quasi_identifiers=[Categorical("place", hierarchy=Hierarchy.from_mapping({"*": ["0", "1"]}))],
    public=["seen"],
)
NOISY = Castleguard(k=2, delay=1, phi=log(3), noise="edge", suppression="drop")
Places = tuple[int, ...]  # the places of p, q and r
Seen = tuple[frozenset[tuple[str, str]], ...]  # what is published after each arrival, and at the end
Law = dict[Seen, Fraction]


@cache
def observe(order: tuple[int, ...], noisy: Places) -> Seen:
    """Output of the engine if these noisy rows arrive in this order."""
    stream = Anonymiser(PLACES, NOISY, seed=1)
    rows = [{"who": PERSONS[at], "place": str(noisy[at]), "seen": PERSONS[at]} for at in order]
    tables = [*(stream.push([row]) for row in rows), stream.flush()]
    return tuple(frozenset((row["seen"], row["place"]) for row in table.to_pylist()) for table in tables)


def law(true: Places, orders: Sequence[tuple[int, ...]]) -> Law:
    """Probability of every output, over all noise and these equally likely orders."""
    found: Law = defaultdict(Fraction)
    for order, noisy in product(orders, product((0, 1), repeat=3)):
        kept = sum(a == b for a, b in zip(true, noisy, strict=True))
        found[observe(order, noisy)] += Fraction(3, 4) ** kept * Fraction(1, 4) ** (3 - kept) / len(orders)
    return found


def worst(one: Law, other: Law) -> Fraction | None:
    """Largest ratio of the probabilities of one outcome; None: unbounded."""
    if one.keys() != other.keys():
        return None
    return max(max(one[seen] / other[seen], other[seen] / one[seen]) for seen in one)


def by_value(true: Places) -> list[tuple[int, ...]]:
    return [tuple(sorted(range(3), key=lambda at: (true[at], at)))]


EVERY_ORDER = list(permutations(range(3)))
NEIGHBOURS = [
    (true, (*true[:at], 1 - true[at], *true[at + 1 :])) for true in product((0, 1), repeat=3) for at in range(3)
]


def test_the_order_of_the_example_is_visible() -> None:
    """Otherwise it would prove nothing: the last person is alone and never published."""
    assert len({observe(order, (0, 0, 0)) for order in EVERY_ORDER}) > 1


def test_a_secret_random_order_keeps_epsilon() -> None:
    ratios = [worst(law(one, EVERY_ORDER), law(other, EVERY_ORDER)) for one, other in NEIGHBOURS]
    assert all(ratio is not None and ratio <= 3 for ratio in ratios)
    assert max(ratio for ratio in ratios if ratio is not None) > 2, "the noise must show for the test to mean anything"


def test_an_order_by_position_keeps_epsilon() -> None:
    for order in EVERY_ORDER:
        for one, other in NEIGHBOURS:
            ratio = worst(law(one, [order]), law(other, [order]))
            assert ratio is not None
            assert ratio <= 3


def test_an_order_by_value_keeps_no_epsilon() -> None:
    """With places 0, 0, 0 the person r comes last; with 1, 0, 0 it is p: one of them is published with certainty in
    the one case and with certainty not in the other.
    """
    assert worst(law((0, 0, 0), by_value((0, 0, 0))), law((1, 0, 0), by_value((1, 0, 0)))) is None


def sampled(rows: Sequence[tuple[int, Kind]]) -> SampledLaw:
    """Distribution of SDGS's output of one window, over all orders of its rows and all coins."""
    found: SampledLaw = defaultdict(Fraction)
    orders, coins = list(permutations(rows)), list(product([False, True], repeat=len(rows)))
    for order, flips in product(orders, coins):
        front = Front(SDGS_SCHEMA, SDGS, np.array(flips, dtype=np.bool_))
        front.push(rows_of([kind for _, kind in order], [person for person, _ in order]), 0.0)
        front.tick(10.0)
        found[(tuple(front.out),)] += Fraction(1, len(orders) * len(coins))
    return found


def test_a_persons_row_that_comes_first_by_chance_is_hidden_like_any_other() -> None:
    """A person has one row in each of two cells, and only the first takes part: the order decides which."""
    others: list[tuple[int, Kind]] = [(1, A), (2, B)]
    both: list[tuple[int, Kind]] = [(0, A), (0, B)]
    with_them = sampled([*both, *others])
    assert len(with_them) == 3, "either cell must come out in some order, or none"
    assert 0 < distance(with_them, sampled(others), SDGS.epsilon) <= TIGHT


def test_the_fixed_order_of_a_batch_is_uniform_for_any_values() -> None:
    """1200 keys, six orders: 200 each, with a standard deviation of 13."""
    for places in ([0, 0, 0], [1, 0, 0]):
        rows = pa.table({"who": list(PERSONS), "place": places})
        found = Counter(tuple(fixed_order(rows, (), number.to_bytes(32, "big")).tolist()) for number in range(1200))
        assert set(found) == set(EVERY_ORDER)
        assert all(abs(times - 200) < 60 for times in found.values())


def test_shards_of_one_key_draw_independently() -> None:
    """With equal noise, the difference of two rows at the same position of two shards would be public."""
    plan = Plan(
        schema=SCHEMA,
        policy=Castleguard(k=2, delay=10, epsilon=1, max_wait=30),
        route=HashRoute(SCHEMA, 2),
    )
    rows = pa.table(
        {"id": range(20), "age": [40] * 20, "zip": ["n1"] * 20, "ill": ["a"] * 20, "row": range(20)},
    )
    published = []
    for number in (0, 0, 1):
        shard = Shard(plan, number, key=bytes(32), kept=True)
        tables = [*shard.take(rows, 0.0).published, *shard.flush(1.0).published]
        published.append(sorted(map(str, pa.concat_tables(tables).to_pylist())))
    assert published[0] == published[1] != published[2]
