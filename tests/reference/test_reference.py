"""The transcription keeps its guarantees on random streams, and follows each reading of the paper."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.castle import Castle, Decision, Row, Settings
from tests.reference.chacha import PURPOSES, Draws, block
from tests.reference.measure import (
    Attribute,
    Box,
    Categorical,
    Domain,
    Numeric,
    Tree,
    contains,
    matching,
    persons,
    values,
)
from tests.reference.split import Event, generate_buckets, split, split_diverse

KEY = [0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C, 0x13121110, 0x17161514, 0x1B1A1918, 0x1F1E1D1C]  # bytes 00..1f
TREE = Tree.from_mapping({"Any": {"Left": ["a", "b"], "Middle": {"Only": ["c"]}, "Right": ["d", "e", "f"]}})
LINE: list[Attribute] = [Numeric(0, 100)]


class Script:
    """Scripted answers per purpose; the last one repeats."""

    def __init__(self, **answers: Sequence[int]) -> None:
        self.answers = {purpose: list(given) for purpose, given in answers.items()}

    def pick(self, purpose: str, position: int, n: int) -> int:
        given = self.answers.get(purpose, [0])
        return given.pop(0) if len(given) > 1 else given[0]


def on_line(
    *points: float, sensitive: Sequence[Hashable] | None = None, of: Sequence[Hashable] | None = None
) -> list[Row]:
    """Rows on one numeric attribute, each of its own person unless `of` says whose they are."""
    return [
        Row(i, i if of is None else of[i], (point,), () if sensitive is None else (sensitive[i],))
        for i, point in enumerate(points)
    ]


def positions_of(decisions: Sequence[Decision]) -> list[list[int]]:
    return [decision.rows for decision in decisions]


def event(**answers: Sequence[int]) -> Event:
    return Event(0, Script(**answers), Domain(LINE))


def positions(groups: Sequence[Any]) -> list[list[int]]:
    return [sorted(row.position for row in group.rows) for group in groups]


# -- promises on random streams ----------------------------------------------------------------------------------------


unhurried = settings(deadline=None)


@dataclass(frozen=True)
class Case:
    attributes: Sequence[Attribute]
    settings: Settings
    rows: Sequence[Row]
    timeouts: Sequence[int]  # per row: how far before it a row is to be expired early, 0 for none


@st.composite
def cases(draw: st.DrawFn, /, **fixed: Any) -> Case:
    grid = tuple(range(0, 21, 4))
    attributes: list[Attribute] = [
        draw(st.sampled_from([Numeric(0, 20), Numeric(0, 20, grid), Numeric()])),
        Categorical(TREE),
    ]
    k = draw(st.integers(1, 4))
    chosen = {
        "k": k,
        "l": draw(st.integers(1, k)),
        "delay": draw(st.integers(1, 25)),
        "max_clusters": draw(st.integers(1, 6)),
        "loss_window": draw(st.integers(1, 5)),
        "max_reusable": draw(st.integers(1, 4)),
        "reuse": draw(st.booleans()),
        "l_per": draw(st.sampled_from(["row", "person"])),
        "reusable_ttl": draw(st.none() | st.integers(1, 30)),
        "suppression": draw(st.sampled_from(["generalise", "drop", "root"])),
    }
    make = draw(st.sampled_from([Settings.paper, Settings.strict]))
    columns = draw(st.integers(0, 2))
    row = st.tuples(
        st.integers(0, 9),
        st.tuples(st.integers(0, 20).map(float), st.integers(0, 5).map(float)),
        st.tuples(*[st.integers(0, 3)] * columns),
        st.integers(0, 9).map(lambda n: n == 0),
    )
    drawn = draw(st.lists(row, max_size=60))
    timeouts = [draw(st.integers(0, 5)) if draw(st.integers(0, 7)) == 0 else 0 for _ in drawn]
    rows = [Row(i, *values) for i, values in enumerate(drawn)]
    return Case(attributes, make(**{**chosen, **fixed}), rows, timeouts)


def run(case: Case) -> list[tuple[int, Decision]]:
    """Every decision with the number of arrivals at that moment; looks at the state after each."""
    castle = Castle(case.attributes, case.settings, Draws(KEY, ratchet_every=16))
    decided: list[tuple[int, Decision]] = []
    for row, timeout in zip(case.rows, case.timeouts, strict=True):
        decided += [(row.position, decision) for decision in castle.push(row)]
        check_state(castle)
        if timeout:
            decided += [(row.position, decision) for decision in castle.expire(row.position - timeout)]
            check_state(castle)
    decided += [(len(case.rows), decision) for decision in castle.flush()]
    assert castle.pending == {}
    assert castle.clusters == []
    return decided


def check_state(castle: Castle) -> None:
    in_clusters = [row for cluster in castle.clusters for row in cluster.rows]
    assert sorted(row.position for row in in_clusters) == [p for p, row in castle.pending.items() if not row.to_root]
    assert len(castle.clusters) <= castle.settings.max_clusters
    assert len(castle.omega) <= castle.settings.max_reusable
    assert 0 <= castle.threshold <= 1
    for cluster in castle.clusters:
        for i, side in enumerate(cluster.box):
            column = [row.quasi[i] for row in cluster.rows]
            assert side == (min(column), max(column))


def is_safe(rows: Sequence[Row], s: Settings) -> bool:
    columns = range(len(rows[0].sensitive))
    diversities = [matching(rows, i) if s.l_per == "person" else len(values(rows, i)) for i in columns]
    return persons(rows) >= s.k and all(diversity >= s.l for diversity in diversities)


@unhurried
@given(cases())
def test_every_row_is_decided_once_and_in_time(case: Case) -> None:
    decided = run(case)
    assert sorted(p for _, d in decided for p in d.rows) == [row.position for row in case.rows]
    for now, decision in decided:
        assert decision.rows == sorted(decision.rows)
        assert now - decision.rows[0] <= case.settings.delay


@unhurried
@given(cases())
def test_every_published_row_lies_in_its_box(case: Case) -> None:
    whole = Domain(case.attributes).root()
    for _, decision in run(case):
        if decision.kind == "drop":
            assert decision.box is None
            assert isnan(decision.loss)
        elif decision.kind == "root":
            assert (decision.box, decision.loss) == (whole, 1.0)
        else:
            assert decision.box is not None
            assert 0 <= decision.loss <= 1
            for position in decision.rows:
                assert not case.rows[position].to_root
                assert contains(decision.box, case.rows[position])


@unhurried
@given(cases())
def test_new_groups_have_k_persons_and_l_values_and_reuse_only_repeats_them(case: Case) -> None:
    published: set[Box | None] = set()
    for _, decision in run(case):
        if decision.kind == "new":
            assert is_safe([case.rows[p] for p in decision.rows], case.settings)
            published.add(decision.box)
        elif decision.kind == "reuse":
            assert case.settings.reuse
            assert len(decision.rows) == 1
            assert decision.box in published


@unhurried
@given(cases(suppression="root"))
def test_strict_suppression_keeps_k_and_l_in_every_prefix_of_the_output(case: Case) -> None:
    groups: dict[Box, list[Row]] = defaultdict(list)
    for _, decision in run(case):
        if decision.box is not None:
            groups[decision.box] += [case.rows[p] for p in decision.rows]
            assert is_safe(groups[decision.box], case.settings)


@unhurried
@given(cases(suppression="drop"))
def test_drop_publishes_nothing_at_the_root(case: Case) -> None:
    assert {decision.kind for _, decision in run(case)} <= {"new", "reuse", "drop"}


@unhurried
@given(cases())
def test_the_same_key_gives_the_same_decisions(case: Case) -> None:
    assert repr(run(case)) == repr(run(case))  # as text: the loss of a drop is nan, which equals nothing


@unhurried
@given(cases())
def test_strict_choices_draw_only_for_reuse_and_seeds(case: Case) -> None:
    asked: set[str] = set()

    class Listening(Draws):
        def pick(self, purpose: str, position: int, n: int, content: bytes | None = None) -> int:
            assert n >= 2
            asked.add(purpose)
            return super().pick(purpose, position, n)

    calm = replace(case.settings, tie="oldest", buckets="balanced")
    castle = Castle(case.attributes, calm, Listening(KEY))
    for row in case.rows:
        castle.push(row)
    castle.flush()
    assert asked <= {"reuse", "seed_bucket", "row_in_bucket"}


# -- measures ----------------------------------------------------------------------------------------------------------


def test_a_tree_is_numbered_in_preorder_and_finds_the_lowest_common_ancestor() -> None:
    assert TREE.parents == (-1, 0, 1, 1, 0, 4, 5, 0, 7, 7, 7)
    assert TREE.first_leaf == (0, 0, 0, 1, 2, 2, 2, 3, 3, 4, 5)
    assert TREE.last_leaf == (5, 1, 0, 1, 2, 2, 2, 5, 3, 4, 5)
    assert Tree.from_arrays(TREE.parents, TREE.first_leaf, TREE.last_leaf) == TREE
    assert TREE.common_ancestor(2, 2) == 6  # the leaf itself, not the chain of only children above it
    assert TREE.common_ancestor(0, 1) == 1
    assert TREE.common_ancestor(1, 2) == 0
    assert TREE.common_ancestor(4, 5) == 7
    assert [TREE.losses[node] for node in (0, 1, 4, 7)] == [1.0, 0.2, 0.0, 0.4]


def test_a_domain_of_one_point_or_one_leaf_has_no_loss() -> None:
    one = Tree.from_mapping({"Any": ["only"]})
    assert Domain([Numeric(3, 3), Categorical(one)]).loss(((3, 3), (0, 0))) == 0.0


def test_distance_is_the_enlargement_of_a_cluster_of_one() -> None:
    domain = Domain([Numeric(0, 100), Categorical(TREE)])
    t, u = Row(0, 0, (10, 3)), Row(1, 1, (30, 5))
    assert domain.distance(t, u) == domain.enlargement(t.box, u.box) == (0.2 + 0.4) / 2


def test_an_observed_domain_grows_and_is_never_published() -> None:
    domain = Domain([Numeric()])
    domain.observe(Row(0, 0, (10.0,)))
    assert domain.loss(((10, 10),)) == 0.0
    domain.observe(Row(1, 1, (30.0,)))
    assert domain.loss(((10, 20),)) == 0.5
    assert domain.root() == ((-inf, inf),)


def test_published_numbers_are_whole_cells_of_the_grid() -> None:
    domain = Domain([Numeric(0, 10, (0, 2.5, 5, 10))])
    assert domain.published(((2.5, 2.6),)) == ((2.5, 5),)
    assert domain.published(((2.4, 7),)) == ((0, 10),)
    assert domain.published(((2.5, 2.5),)) == ((2.5, 5),)
    assert domain.published(((1, 2.5),)) == ((0, 5),)
    assert domain.published(((10, 10),)) == ((5, 10),)
    assert Domain([Numeric(3, 3, (3,))]).published(((3, 3),)) == ((3, 3),)


def test_a_row_on_an_edge_lies_in_the_cell_above_it_and_in_no_other() -> None:
    domain = Domain([Numeric(0, 10, (0, 5, 10))])
    assert [domain.in_cells(Row(0, 0, (value,))).quasi for value in (0, 4.9, 5, 10)] == [(0,), (0,), (5,), (5,)]
    assert not domain.holds(((0, 5),), Row(0, 0, (5.0,)))
    assert domain.holds(((0, 5),), Row(0, 0, (4.9,)))
    assert domain.holds(((5, 10),), Row(0, 0, (10.0,)))


def test_one_person_cannot_supply_two_values_to_a_matching() -> None:
    assert matching(on_line(1, 2, 3, sensitive="xyz", of="aaa"), 0) == 1
    assert matching(on_line(1, 2, 3, 4, sensitive="xyxz", of="abca"), 0) == 3
    assert matching(on_line(1, 2, 3, 4, sensitive="xyzx", of="aaab"), 0) == 2


# -- split -------------------------------------------------------------------------------------------------------------


def test_split_takes_the_nearest_persons_and_leaves_the_rest_to_the_nearest_part() -> None:
    rows = on_line(0, 50, 1, 51, 49)
    assert positions(split(rows, 2, event(seed_bucket=[0]))) == [[0, 2], [1, 3, 4]]
    assert positions(split(rows, 2, event(seed_bucket=[3, 0]))) == [[1, 3, 4], [0, 2]]


def test_split_counts_a_person_once_per_part_but_lets_it_seed_again() -> None:
    rows = on_line(0, 0, 1, 2, 3, of="aabcd")
    parts = split(rows, 2, event(seed_bucket=[0], row_in_bucket=[1]))
    assert positions(parts) == [[1, 2], [0, 3, 4]]
    assert all(persons(part.rows) >= 2 for part in parts)


def test_split_takes_the_row_of_a_person_that_is_nearest_to_the_seed() -> None:
    rows = on_line(0, 90, 2, 95, 91, of="abbcd")
    assert positions(split(rows, 2, event(seed_bucket=[0]))) == [[0, 2], [1, 3, 4]]


def test_split_l_rounds_quotas_up_so_that_rare_values_take_part() -> None:
    rows = on_line(*range(10), sensitive="xxxxxxxxyz")
    (part,) = split_diverse(rows, 0, 5, 3, "balanced", event(seed_bucket=[0], row_in_bucket=[7]))
    assert persons(part.rows) == 10
    assert len(values(part.rows, 0)) == 3


def test_split_l_brings_the_other_rows_of_a_person_along() -> None:
    rows = on_line(0, 1, 50, 51, 99, sensitive="xyxyy", of="abcda")
    parts = split_diverse(rows, 0, 2, 2, "random", event(person_row=[0], seed_bucket=[0], row_in_bucket=[0]))
    assert positions(parts) == [[0, 1, 4], [2, 3]]


def test_split_l_gives_the_cluster_back_if_the_buckets_are_too_few() -> None:
    rows = on_line(0, 1, 2, 3, 4, sensitive="xxxxy", of="abcda")
    assert positions(split_diverse(rows, 0, 2, 2, "random", event(person_row=[0]))) == [[0, 1, 2, 3, 4]]


def test_balanced_buckets_keep_a_value_that_a_random_choice_may_lose() -> None:
    rows = on_line(0, 1, 2, 3, sensitive="xxxy", of="abcc")
    assert [[row.position for row in b] for b in generate_buckets(rows, 0, "random", event())] == [[0, 1, 2]]
    assert [[row.position for row in b] for b in generate_buckets(rows, 0, "balanced", event())] == [[0, 1], [3]]
    drawn = generate_buckets(rows, 0, "random", event(person_row=[1]))
    assert [[row.position for row in b] for b in drawn] == [[0, 1], [3]]


def test_balanced_buckets_serve_persons_with_the_fewest_values_first() -> None:
    rows = on_line(0, 1, 2, sensitive="xyx", of="aab")
    assert [[row.position for row in b] for b in generate_buckets(rows, 0, "balanced", event())] == [[1], [2]]


# -- delay constraint, reuse, suppression ------------------------------------------------------------------------------


def line_castle(rows: Sequence[Row], **given: Any) -> Castle:
    """All rows pushed, none expired; with tau 0 every different point is a cluster of its own."""
    chosen: dict[str, Any] = {"delay": 1000, "max_clusters": 100, "loss_window": 10, **given}
    castle = Castle(LINE, Settings.strict(**chosen), Script())
    for row in rows:
        assert castle.push(row) == []
    return castle


def test_a_cluster_shrinks_when_one_of_its_rows_leaves_alone() -> None:
    castle = line_castle(on_line(0, 10, 11, of="aab"), k=3, max_clusters=1, suppression="drop")
    (cluster,) = castle.clusters
    assert cluster.box == ((0, 11),)
    assert [d.kind for d in castle.expire(0)] == ["drop"]
    assert cluster.box == ((10, 11),)


def test_a_person_in_two_clusters_is_not_counted_twice_before_a_merge() -> None:
    castle = line_castle(on_line(0, 50, 99, of="aab"), k=3, suppression="drop")
    assert [d.kind for d in castle.expire(0)] == ["drop"]


def test_of_the_cheapest_clusters_only_those_within_the_threshold_count() -> None:
    rows = on_line(0, 40, 60, 50, of="aabc")
    castle = line_castle(rows, k=9, tau_init=0.4)  # 50 enlarges both by 0.1, but the older one then loses 0.5
    assert [c.box for c in castle.clusters] == [((0, 40),), ((50, 60),)]


def test_of_equal_clusters_the_smallest_is_chosen() -> None:
    castle = line_castle(on_line(0, 0, 20, 20, 10, of="abccd"), k=9, tau_init=0.1)
    assert [c.box for c in castle.clusters] == [((0, 0),), ((10, 20),)]


def test_of_equal_clusters_of_one_size_the_oldest_is_chosen_or_a_drawn_one() -> None:
    rows = on_line(0, 20, 10)
    castle = line_castle(rows, k=9, tau_init=0.1)
    assert [c.box for c in castle.clusters] == [((0, 10),), ((20, 20),)]
    castle = Castle(LINE, replace(castle.settings, tie="random"), Script(tie=[1]))
    for row in rows:
        castle.push(row)
    assert [c.box for c in castle.clusters] == [((0, 0),), ((10, 20),)]


def test_only_a_cluster_of_2k_persons_is_split() -> None:
    castle = line_castle(on_line(0, 0, 90, 90, 90, of="abcab"), k=2, max_clusters=1)
    assert positions_of(castle.expire(0)) == [[0, 1, 2, 3, 4]]
    castle = line_castle(on_line(0, 0, 90, 90), k=2, max_clusters=1)
    assert positions_of(castle.expire(0)) == [[0, 1], [2, 3]]


def test_a_split_that_spoils_another_sensitive_attribute_is_undone() -> None:
    for second, groups in (("ppqq", [[0, 1, 2, 3]]), ("pqpq", [[0, 1], [2, 3]])):
        rows = on_line(0, 1, 90, 91, sensitive="xyxy")
        rows = [replace(row, sensitive=(*row.sensitive, second[row.position])) for row in rows]
        castle = line_castle(rows, k=2, l=2, max_clusters=1)
        assert positions_of(castle.expire(0)) == groups


def test_a_split_is_by_the_sensitive_attribute_with_the_fewest_values() -> None:
    rows = [replace(row, sensitive=("xyzx"[row.position], "pqqp"[row.position])) for row in on_line(0, 90, 1, 91)]
    castle = line_castle(rows, k=2, l=2, max_clusters=1)
    assert positions_of(castle.expire(0)) == [[0, 2], [1, 3]]


def test_merging_takes_the_cheapest_neighbour_until_k() -> None:
    castle = line_castle(on_line(50, 0, 60, 99, 45), k=3)
    (decision,) = castle.expire(0)
    assert decision == Decision("new", [0, 2, 4], ((45, 60),), 0.15)
    assert [c.box for c in castle.clusters] == [((0, 0),), ((99, 99),)]


def test_a_diversity_aware_merge_prefers_a_new_value_among_equals() -> None:
    rows = on_line(50, 50, 40, 60, sensitive="xxxy")
    castle = line_castle(rows, k=2, l=2)
    assert castle.expire(0)[0].rows == [0, 1, 3]
    plain = line_castle(rows, k=2, l=2, merge="paper")
    assert plain.expire(0)[0].rows == [0, 1, 2, 3]


def test_a_merge_looks_for_new_values_only_while_there_are_fewer_than_l() -> None:
    rows = on_line(50, 50, 50, 50, 50, 40, 60, sensitive="xyzxxxw", of="aaabcde")
    castle = line_castle(rows, k=3, l=3, l_per="person")  # x, y and z are there, but a alone tells two of them
    assert castle.expire(0)[0].rows == [0, 1, 2, 3, 4, 5, 6]  # of two equals the older comes first, which is not enough


def test_an_outlier_is_smaller_than_most_clusters() -> None:
    rows = on_line(0, 10, 10, 20, 20, 30)
    castle = line_castle(rows, k=3, suppression="drop")
    assert [d.kind for d in castle.expire(0)] == ["new"]  # 2 of 4 clusters are larger: not more than half
    castle = line_castle(rows[:5], k=3, suppression="drop")
    assert [d.kind for d in castle.expire(0)] == ["drop"]  # 2 of 3


def test_the_root_opens_with_k_persons_and_then_takes_single_rows() -> None:
    rows = [replace(row, to_root=row.position in (0, 5)) for row in on_line(0, 1, 2, 3, 4, 5, of="aabbcd")]
    castle = line_castle(rows, k=3)
    (opened,) = castle.expire(0)
    assert opened == Decision("root", [0, 2, 4], ((0, 100),), 1.0)
    assert castle.expire(5) == [Decision("root", [5], ((0, 100),), 1.0)]


def test_the_root_stays_closed_if_the_pending_rows_cannot_open_it() -> None:
    rows = [replace(row, to_root=True) for row in on_line(0, 1, 2, of="aab")]
    castle = line_castle(rows, k=3)
    assert [(d.kind, d.rows) for d in castle.flush()] == [("drop", [0]), ("drop", [1]), ("drop", [2])]


def test_the_root_takes_no_more_persons_than_it_needs() -> None:
    rows = [replace(row, to_root=True) for row in on_line(0, 1, 2, 3, sensitive="xxxy")]
    castle = line_castle(rows, k=2, l=2)
    assert positions_of(castle.expire(0)) == [[0, 1, 3]]


def test_a_flush_releases_what_is_ready_then_reuses_then_merges_the_rest() -> None:
    rows = on_line(10, 10, 20, 60, 10, 70)
    castle = line_castle(rows[:4], k=2)
    assert [(d.kind, d.rows) for d in castle.flush()] == [("new", [0, 1]), ("new", [2, 3])]
    castle.push(rows[4])
    castle.push(rows[5])
    assert [(d.kind, d.rows) for d in castle.flush()] == [("reuse", [4]), ("drop", [5])]


def test_the_root_takes_every_row_if_helpful_rows_do_not_give_l_persons() -> None:
    rows = on_line(0, 1, 2, sensitive="xyx", of="aab")
    castle = line_castle([replace(row, to_root=True) for row in rows], k=2, l=2, l_per="person")
    (opened,) = castle.expire(0)
    assert opened.rows == [0, 1, 2]


def release(castle: Castle, first: int, *points: float) -> Decision:
    """Push rows of new persons and let the first expire; they must leave together."""
    rows = [Row(first + i, first + i, (point,)) for i, point in enumerate(points)]
    for row in rows:
        castle.push(row)
    (decision,) = castle.expire(first)
    assert decision.rows == [row.position for row in rows]
    return decision


def test_a_new_generalisation_replaces_the_least_recently_used_one() -> None:
    castle = line_castle([], k=2, max_clusters=1, max_reusable=2, tau_init=1.0)
    release(castle, 0, 0, 40)
    release(castle, 2, 50, 60)
    assert [e.published for e in castle.omega] == [((0, 40),), ((50, 60),)]
    castle.push(Row(4, 4, (20,)))
    assert castle.expire(4)[0].box == ((0, 40),)
    release(castle, 5, 80, 85)
    assert [e.published for e in castle.omega] == [((0, 40),), ((80, 85),)]
    release(castle, 7, 90, 95)
    assert [e.published for e in castle.omega] == [((90, 95),), ((80, 85),)]


def test_an_equal_generalisation_is_renewed_and_not_stored_twice() -> None:
    castle = line_castle([], k=2, max_clusters=1, tau_init=1.0)
    release(castle, 0, 0, 10)
    release(castle, 2, 0, 10)
    (entry,) = castle.omega
    assert (entry.last_used, entry.born) == (2, 4)


def test_a_generalisation_is_not_reused_after_its_time() -> None:
    castle = line_castle([], k=2, max_clusters=1, reusable_ttl=2, suppression="drop")
    release(castle, 0, 0, 10)
    castle.push(Row(2, 2, (5,)))
    castle.push(Row(3, 2, (6,)))
    assert castle.expire(2)[0].kind == "reuse"
    castle.push(Row(4, 2, (7,)))
    assert castle.expire(3)[0].kind == "drop"


def test_the_first_cluster_enters_omega_only_if_equal_losses_do() -> None:
    for admission, admitted in (("lt", 0), ("le", 1)):
        castle = line_castle([], k=2, max_clusters=1, admission=admission)
        release(castle, 0, 0, 10)
        assert castle.threshold == 0.1
        assert len(castle.omega) == admitted


def test_losses_are_measured_in_the_domain_seen_so_far_if_none_is_declared() -> None:
    s = Settings.strict(k=2, delay=9, max_clusters=1, loss_window=9)
    castle = Castle([Numeric()], s, Script())
    assert release(castle, 0, 0, 10).loss == 1.0
    assert release(castle, 2, 20, 40).loss == 0.5


def test_containment_is_by_interval_or_by_generalisation() -> None:
    attributes = [Categorical(TREE)]
    for containment, kind in (("interval", "drop"), ("generalisation", "reuse")):
        s = Settings.strict(k=2, delay=9, max_clusters=1, loss_window=1, containment=containment, suppression="drop")
        castle = Castle(attributes, s, Script())
        for row in (Row(0, 0, (3,)), Row(1, 1, (4,)), Row(2, 2, (5,))):
            castle.push(row)
            if row.position == 1:
                assert castle.expire(0)[0].box == ((3, 5),)
        assert castle.expire(2)[0].kind == kind


def test_settings_refuse_l_above_k() -> None:
    with pytest.raises(ValueError, match="l must not exceed k"):
        Settings.paper(k=2, l=3, delay=1, max_clusters=1, loss_window=1)


# -- draws -------------------------------------------------------------------------------------------------------------


def test_the_block_function_is_that_of_rfc_8439() -> None:
    """Section 2.3.2: key 00..1f, block counter 1, nonce 00:00:00:09:00:00:00:4a:00:00:00:00."""
    out = block(tuple(KEY), 1, (0x09000000, 0x4A000000, 0))
    assert " ".join(f"{word:08x}" for word in out) == (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )


def test_a_draw_depends_on_its_address_only() -> None:
    position = 5 + (7 << 32)
    draws = Draws(KEY)
    draws.pick("tie", 3, 1000)
    picked = [draws.pick("reuse", position, 1000) for _ in range(9)]
    assert picked == [Draws(KEY).pick("reuse", position, 1000), *picked[1:]]
    first, second = (block(tuple(KEY), counter, (PURPOSES["reuse"], 5, 7)) for counter in (0, 1))
    words = [first[2 * i] | first[2 * i + 1] << 32 for i in range(8)] + [second[0] | second[1] << 32]
    assert picked == [word * 1000 >> 64 for word in words]


def test_the_key_is_ratcheted_at_multiples_and_once() -> None:
    def after(*arrivals: int) -> list[int]:
        draws = Draws(KEY, ratchet_every=4)
        for count in arrivals:
            draws.ratchet(count)
        return [draws.pick("tie", 9, 2**32) for _ in range(3)]

    new_key = block(tuple(KEY), 0, (PURPOSES["ratchet"], 4, 0))[:8]
    replaced = Draws(new_key)
    assert after(0, 1, 2, 3) == after()
    assert after(4) == after(4, 4, 5) == [replaced.pick("tie", 9, 2**32) for _ in range(3)]
    assert after(4, 8) != after(4)
