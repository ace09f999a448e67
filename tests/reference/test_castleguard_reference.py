"""Is the transcription of CASTLEGUARD what the paper says? Line by line, then its promises on random streams."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.castle import Castle, Decision, Settings
from tests.reference.castleguard import CastleGuard, Guard, Range, castle_settings, laplace, random_is_below
from tests.reference.chacha import PURPOSES, WORD, Draws, Words, WordSource, block
from tests.reference.measure import Attribute, Categorical, Numeric, Row, Tree, contains

KEY = list(range(1, 9))
SAMPLER_KEY = list(range(11, 19))
TREE = Tree.from_mapping({"Any": {"Left": ["a", "b"], "Middle": {"Only": ["c"]}, "Right": ["d", "e", "f"]}})
WIDE = Numeric(-1e9, 1e9)  # noise is never clamped
NO_NOISE = (WORD - 1, WORD)  # v is 1 after rounding, and ln 1 = 0
UP, DOWN = (1 << 31, 0), (1 << 31 | 1, 0)  # v is 1/2 after rounding: the noise is b ln 2, or -b ln 2


class Scripted:
    """Words given in advance: which arrivals are kept, and the two noise words per arrival and attribute."""

    def __init__(
        self, kept: Callable[[int], bool] = lambda arrival: True, noise: Mapping[tuple[int, int], tuple[int, int]] = {}
    ) -> None:
        self.kept = kept
        self.noise = noise
        self.asked: list[tuple[str, int, int]] = []

    def word(self, purpose: str, position: int, index: int, content: bytes | None = None) -> int:
        self.asked.append((purpose, position, index))
        if purpose == "sample":
            return 0 if self.kept(position) else WORD
        return self.noise.get((position, index // 2), NO_NOISE)[index % 2]


def guarded(
    attributes: Sequence[Attribute],
    words: WordSource,
    *,
    guard: Guard | None = None,
    **castle: Any,
) -> CastleGuard:
    """Everything waits unless `castle` says otherwise; sampled at 1/2 with phi = 2 unless `guard` does."""
    chosen = {"k": 2, "delay": 1000, "max_clusters": 1, "loss_window": 10, **castle}
    return CastleGuard(
        Castle(attributes, castle_settings(**chosen), Draws(KEY)), guard or Guard(sample_rate=0.5, phi=2), words
    )


def on_line(*points: float) -> list[Row]:
    """Rows on one attribute, each of its own person."""
    return [Row(i, i, (point,)) for i, point in enumerate(points)]


def perturbed(stream: CastleGuard, rows: Sequence[Row]) -> list[Any]:
    """t' of each of these rows, all of which must be kept."""
    for row in rows:
        stream.push(row)
    return [stream.perturbed[i] for i in range(len(rows))]


# -- Algorithm 1, line 3: sampling -------------------------------------------------------------------------------------


class Binary:
    """The words of one U, in order; it counts how many were drawn."""

    def __init__(self, *words: int) -> None:
        self.words = words
        self.drawn = 0

    def word(self, purpose: str, position: int, index: int, content: bytes | None = None) -> int:
        assert purpose == "sample"
        assert index == self.drawn
        self.drawn += 1
        return self.words[index]


@pytest.mark.parametrize(
    ("beta", "words", "kept", "drawn"),
    [
        (0.25, [2**30 - 1], True, 1),
        (0.25, [2**30], False, 1),  # U >= beta: it starts with the very digits of beta
        (0.5 + 2**-40, [2**31 - 1], True, 1),
        (0.5 + 2**-40, [2**31 + 1], False, 1),
        (0.5 + 2**-40, [2**31, 2**24 - 1], True, 2),
        (0.5 + 2**-40, [2**31, 2**24], False, 2),
        (2**-70, [0, 0, 2**26 - 1], True, 3),
        (2**-70, [0, 0, 2**26], False, 3),
        (1.0, [], True, 0),
        (0.0, [], False, 0),
    ],
)
def test_a_row_is_kept_iff_u_is_below_beta_and_words_are_drawn_only_to_decide(
    beta: float, words: list[int], kept: bool, drawn: int
) -> None:
    u = Binary(*words)
    assert random_is_below(beta, u, 7) is kept
    assert u.drawn == drawn


@pytest.mark.statistical
def test_the_share_of_kept_rows_is_beta() -> None:
    """6000 rows at 5 standard deviations: with another key it would fail 1 time in 600,000 for each of three rates."""
    words = Words(SAMPLER_KEY)
    rates = (0.1, 0.5, 0.75)
    kept = [[random_is_below(beta, words, arrival) for beta in rates] for arrival in range(6000)]
    for beta, column in zip(rates, zip(*kept, strict=True), strict=True):
        assert abs(sum(column) - 6000 * beta) < 5 * sqrt(6000 * beta * (1 - beta))


def test_a_row_that_is_sampled_away_is_in_no_cluster_and_never_comes_out() -> None:
    stream = guarded([WIDE], Scripted(lambda arrival: arrival != 1), k=2)
    decisions = [decision for row in on_line(0, 1, 2) for decision in stream.push(row)] + stream.flush()
    assert stream.sampled_out == [1]
    assert [(decision.kind, decision.rows) for decision in decisions] == [("new", [0, 2])]


# -- Algorithm 2: perturb ----------------------------------------------------------------------------------------------


def words_of(v: float) -> tuple[int, int]:
    """Words that give (about) this v, with sign plus."""
    bits = int(v * 2**53)
    return bits >> 26 << 5, (bits & (2**26 - 1)) << 6


@pytest.mark.parametrize("r", [0.05, 0.3, 1.0, 2.0])
def test_theorem_1_holds_exactly_on_evenly_spread_words(r: float) -> None:
    phi, extent, n = 3.0, 7.0, 1000
    noise = [laplace(extent / phi, *words_of((i + 0.5) / n)) for i in range(n)]
    below = sum(abs(x) < r * extent for x in noise)
    assert below / n == pytest.approx(1 - exp(-r * phi), abs=1 / n)


@pytest.mark.statistical
def test_theorem_1_holds_for_perturbed_rows() -> None:
    """Pr[|v - v'| < r R] within 5 standard deviations, which another key would miss 1 time in 600,000 for each r; and
    Kolmogorov's distance from the whole Laplace distribution, at a limit that is missed 1 time in 10,000.
    """
    phi, n = 4.0, 3000
    stream = guarded([WIDE, WIDE], Words(SAMPLER_KEY), guard=Guard(sample_rate=1, phi=phi))
    for corner in (0.0, 10.0):  # the range is known from here on: R = 10
        stream.perturb(Row(0, 0, (corner, corner)), 0)
    moved = [stream.perturb(Row(0, 0, (3.0, 8.0)), arrival).quasi for arrival in range(1, n + 1)]
    for column, true in enumerate((3.0, 8.0)):
        noise = [values[column] - true for values in moved]
        for r in (0.1, 0.3, 0.7):
            share = 1 - exp(-r * phi)
            assert abs(sum(abs(x) < r * 10 for x in noise) - n * share) < 5 * sqrt(n * share * (1 - share))
        cdf = [1 - exp(-x * phi / 10) / 2 if x > 0 else exp(x * phi / 10) / 2 for x in sorted(noise)]
        assert max(max((i + 1) / n - f, f - i / n) for i, f in enumerate(cdf)) < 2.23 / sqrt(n)


@pytest.mark.statistical
def test_the_noises_of_two_attributes_have_nothing_to_do_with_each_other() -> None:
    """Both signs agree in half of 3000 rows, within 5 standard deviations: 1 time in 600,000 with another key."""
    words = Words(SAMPLER_KEY)
    agree = 0
    for arrival in range(3000):
        one, other = (laplace(1.0, *(words.word("noise", arrival, 2 * a + i) for i in (0, 1))) for a in (0, 1))
        assert abs(one) != abs(other)
        agree += (one > 0) == (other > 0)
    assert abs(agree - 1500) < 5 * sqrt(750)


def test_the_first_row_is_not_perturbed_at_all() -> None:
    stream = guarded([WIDE, Categorical(TREE)], Scripted(noise={(i, a): UP for i in (0, 1) for a in (0, 1)}))
    rows = [Row(0, 0, (12.5, 3)), Row(1, 1, (12.5, 3))]
    assert perturbed(stream, rows) == [(12.5, 3), (12.5, 3)]  # nor the second: the range is still 0


def test_a_range_floor_perturbs_the_first_row() -> None:
    guard = Guard(sample_rate=0.5, phi=2, range_floor=6)
    stream = guarded([WIDE], Scripted(noise={(0, 0): UP, (1, 0): UP}), guard=guard)
    assert perturbed(stream, on_line(10, 20)) == [
        (pytest.approx(10 + 6 / 2 * log(2)),),
        (pytest.approx(20 + 10 / 2 * log(2)),),  # the range has outgrown the floor
    ]


def test_noise_is_scaled_by_the_range_that_the_row_itself_has_extended() -> None:
    noise = {(1, 0): UP, (2, 0): DOWN, (3, 0): UP}
    stream = guarded([WIDE], Scripted(noise=noise))
    assert perturbed(stream, on_line(10, 30, 20, 0)) == [
        (10,),
        (pytest.approx(30 + 20 / 2 * log(2)),),
        (pytest.approx(20 - 20 / 2 * log(2)),),  # t' of the row before is above 30: it is not in the range
        (pytest.approx(0 + 30 / 2 * log(2)),),
    ]
    assert stream.ranges == [Range(0, 30)]


def test_every_attribute_has_its_own_range_and_its_own_words() -> None:
    rows = [Row(0, 0, (0, 0, 0)), Row(1, 1, (10, 1000, 7))]
    words = Scripted(noise={(1, 0): UP, (1, 1): DOWN})
    assert perturbed(guarded([WIDE] * 3, words), rows)[1] == (
        pytest.approx(10 + 5 * log(2)),
        pytest.approx(1000 - 500 * log(2)),
        7,
    )
    assert [index for purpose, arrival, index in words.asked if (purpose, arrival) == ("noise", 1)] == list(range(6))


def test_a_row_that_is_sampled_away_does_not_extend_the_range() -> None:
    stream = guarded([WIDE], Scripted(lambda arrival: arrival != 1))
    for row in on_line(10, 1000, 20):
        stream.push(row)
    assert stream.ranges == [Range(10, 20)]


def test_a_row_for_the_root_is_sampled_but_neither_perturbed_nor_published() -> None:
    stream = guarded([WIDE], Scripted(lambda arrival: arrival != 2), delay=1)
    rooted = [replace(row, to_root=True) for row in on_line(0, 0, 0)]
    assert stream.push(rooted[0]) == []
    assert [(d.kind, d.rows) for d in stream.push(rooted[1])] == [("drop", [0])]
    assert [(d.kind, d.rows) for d in stream.push(rooted[2])] == [("drop", [1])]
    assert stream.sampled_out == [2]
    assert stream.perturbed == {}
    assert stream.ranges == [Range(inf, -inf)]


def test_perturbed_numbers_are_clamped_to_the_declared_bounds() -> None:
    stream = guarded([Numeric(0, 30)], Scripted(noise={(1, 0): UP, (2, 0): DOWN, (3, 0): UP}))
    assert perturbed(stream, on_line(1, 29, 2, 10)) == [(1,), (30,), (0,), (pytest.approx(10 + 14 * log(2)),)]


def test_without_bounds_perturbed_numbers_are_clamped_to_what_was_encountered() -> None:
    stream = guarded([Numeric()], Scripted(noise={(1, 0): UP, (2, 0): DOWN, (3, 0): UP}))
    assert perturbed(stream, on_line(1, 29, 2, 10)) == [(1,), (29,), (1,), (pytest.approx(10 + 14 * log(2)),)]


def test_a_category_is_perturbed_to_the_nearest_leaf() -> None:
    noise = {(1, 0): UP, (2, 0): DOWN, (3, 0): UP, (4, 0): UP}
    rows = on_line(0, 2, 3, 5, 1)
    # b ln 2 is 0.69, then 1.04, then twice 1.73
    assert perturbed(guarded([Categorical(TREE)], Scripted(noise=noise)), rows) == [(0,), (3,), (2,), (5,), (3,)]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, WORD), st.integers(0, WORD)), max_size=30),
    st.sampled_from([0.01, 1.0, 100.0]),
)
def test_categories_stay_leaves(rows: list[tuple[int, int, int]], phi: float) -> None:
    noise = {(i, 0): (w0, w1) for i, (_, w0, w1) in enumerate(rows)}
    stream = guarded([Categorical(TREE)], Scripted(noise=noise), guard=Guard(sample_rate=0.5, phi=phi))
    leaves = perturbed(stream, on_line(*(leaf for leaf, _, _ in rows)))
    assert {leaf for (leaf,) in leaves} <= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}


def test_clusters_hold_perturbed_values_and_boxes_tell_only_those() -> None:
    stream = guarded([WIDE], Scripted(noise={(1, 0): UP}), k=2)
    perturbed(stream, on_line(10, 30))
    (decision,) = stream.flush()
    assert decision.box == ((10.0, *stream.perturbed[1]),)
    assert stream.perturbed[1] > (30.0,)


def test_an_undeclared_domain_is_what_the_clusters_have_seen() -> None:
    stream = guarded([Numeric()], Scripted(noise={(1, 0): DOWN}))
    perturbed(stream, on_line(0, 10))  # the clusters hold 0 and 10 - 5 ln 2
    (decision,) = stream.flush()
    assert decision.loss == 1.0


# -- Algorithm 1, lines 14 and 15: positions and the delay -------------------------------------------------------------


def released(stream: CastleGuard, rows: Sequence[Row]) -> dict[int, list[list[int]]]:
    """What came out, by the arrival at which it did."""
    return {arrival: [d.rows for d in decided] for arrival, row in enumerate(rows) if (decided := stream.push(row))}


def every_other(clock: Any) -> CastleGuard:
    """Arrivals 1, 3, 5, ... are sampled away; every kept row is a group of its own, after a delay of 3."""
    guard = Guard(sample_rate=0.5, phi=2, clock=clock)
    words = Scripted(lambda arrival: arrival % 2 == 0)
    return guarded([WIDE], words, guard=guard, k=1, delay=3, max_clusters=100)


def test_by_arrivals_every_row_has_a_position_and_moves_the_clock() -> None:
    stream = every_other("arrivals")
    assert released(stream, on_line(*range(0, 70, 10))) == {3: [[0]], 5: [[2]]}
    assert stream.arrival_of == {0: 0, 2: 2, 4: 4, 6: 6}
    assert stream.sampled_out == [1, 3, 5]


def test_by_arrivals_a_row_that_is_sampled_away_lets_others_expire() -> None:
    stream = guarded([WIDE], Scripted(lambda arrival: arrival < 1), k=1, delay=2)
    assert released(stream, on_line(0, 10, 20, 30, 40)) == {2: [[0]]}  # and nothing at 3 and 4: those were sampled away


@pytest.mark.parametrize("clock", ["sampled", "time"])
def test_by_sampled_rows_only_kept_rows_have_a_position_and_move_the_clock(clock: str) -> None:
    stream = every_other(clock)
    assert released(stream, on_line(*range(0, 70, 10))) == {6: [[0]]}
    assert stream.arrival_of == {0: 0, 1: 2, 2: 4, 3: 6}
    assert stream.sampled_out == [1, 3, 5]


def test_draws_belong_to_the_arrival_under_every_clock() -> None:
    noise = {(0, 0): NO_NOISE, (1, 0): UP, (2, 0): DOWN}
    for clock in ("arrivals", "sampled"):
        guard = Guard(sample_rate=0.5, phi=2, clock=clock)
        stream = guarded([WIDE], Scripted(lambda arrival: arrival != 1, noise), guard=guard)
        for row in on_line(0, 5, 10):
            stream.push(row)
        assert list(stream.perturbed.values()) == [(0,), (pytest.approx(10 - 5 * log(2)),)]


# -- section IV-B: l-diversity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "kinds"), [("xyz", ["new"]), ("xyy", ["drop", "drop", "drop"])])
def test_a_group_needs_at_least_l_values_and_not_more(values: str, kinds: list[str]) -> None:
    stream = guarded([WIDE], Scripted(), k=3, l=3)
    for row, value in zip(on_line(0, 1, 2), values, strict=True):
        stream.push(replace(row, sensitive=(value,)))
    assert [decision.kind for decision in stream.flush()] == kinds


def test_of_a_cluster_without_l_values_only_the_expiring_row_is_suppressed() -> None:
    stream = guarded([WIDE], Scripted(), k=2, l=2, delay=2)
    decisions = {}
    for row, value in zip(on_line(0, 1, 2, 3), "xxxy", strict=True):
        decisions[row.position] = [(d.kind, d.rows) for d in stream.push(replace(row, sensitive=(value,)))]
    assert decisions == {0: [], 1: [], 2: [("drop", [0])], 3: [("new", [1, 2, 3])]}


# -- promises on random streams ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    attributes: Sequence[Attribute]
    castle: Settings
    guard: Guard
    rows: Sequence[Row]


@st.composite
def cases(draw: st.DrawFn, /, **fixed: Any) -> Case:
    number = st.sampled_from([Numeric(0, 20), Numeric()])
    k = draw(st.integers(1, 4))
    castle = castle_settings(
        k=k,
        l=draw(st.integers(1, k)),
        delay=draw(st.integers(1, 25)),
        max_clusters=draw(st.integers(1, 6)),
        loss_window=draw(st.integers(1, 5)),
        max_reusable=draw(st.integers(1, 4)),
    )
    chosen = {
        "sample_rate": draw(st.sampled_from([0.2, 0.5, 0.9])),
        "phi": draw(st.sampled_from([0.5, 10.0, 1000.0])),
        "range_floor": draw(st.sampled_from([0.0, 3.0])),
        "clock": draw(st.sampled_from(["arrivals", "sampled", "time"])),
    }
    row = st.tuples(
        st.integers(0, 9),
        st.tuples(st.integers(0, 20).map(float), st.integers(0, 5).map(float)),
        st.tuples(st.integers(0, 3)),
        st.integers(0, 9).map(lambda n: n == 0),
    )
    rows = [Row(i, *values) for i, values in enumerate(draw(st.lists(row, max_size=60)))]
    return Case([draw(number), Categorical(TREE)], castle, Guard(**{**chosen, **fixed}), rows)


def start(case: Case, words: WordSource) -> CastleGuard:
    return CastleGuard(Castle(case.attributes, case.castle, Draws(KEY, ratchet_every=16)), case.guard, words)


def run(stream: CastleGuard, rows: Sequence[Row]) -> list[tuple[int, Decision]]:
    """Every decision, with the arrival at which it was made."""
    decided = [(arrival, decision) for arrival, row in enumerate(rows) for decision in stream.push(row)]
    return decided + [(len(rows), decision) for decision in stream.flush()]


@given(cases())
def test_every_row_is_sampled_away_or_dropped_or_published_once(case: Case) -> None:
    stream = start(case, Words(SAMPLER_KEY, ratchet_every=16))
    decided = run(stream, case.rows)
    left = [stream.arrival_of[p] for _, decision in decided for p in decision.rows]
    assert sorted(left + stream.sampled_out) == list(range(len(case.rows)))
    assert {decision.kind for _, decision in decided} <= {"new", "reuse", "drop"}


@given(cases())
def test_every_row_leaves_in_time(case: Case) -> None:
    """The paper's liveness, by arrivals; by sampled rows, it is in kept rows."""
    stream = start(case, Words(SAMPLER_KEY))
    decided = run(stream, case.rows)
    kept = sorted(stream.arrival_of.values())
    for now, decision in decided:
        for arrival in (stream.arrival_of[p] for p in decision.rows):
            if case.guard.clock == "arrivals":
                assert now - arrival <= case.castle.delay
            else:
                assert len([other for other in kept if arrival < other <= now]) <= case.castle.delay


@given(cases())
def test_perturbed_values_lie_in_their_box_and_in_the_domain(case: Case) -> None:
    stream = start(case, Words(SAMPLER_KEY))
    decided = run(stream, case.rows)
    lower, upper = (stream.ranges[0].min, stream.ranges[0].max) if case.attributes[0] == Numeric() else (0, 20)
    for values in stream.perturbed.values():
        assert lower <= values[0] <= upper
    for _, decision in decided:
        if decision.box is not None:
            assert 0 <= decision.loss <= 1
            assert all(contains(decision.box, Row(p, None, stream.perturbed[p])) for p in decision.rows)


@given(cases(sample_rate=1.0, phi=inf))
def test_without_sampling_and_noise_it_is_castle(case: Case) -> None:
    castle = Castle(case.attributes, case.castle, Draws(KEY, ratchet_every=16))
    expected = [(row.position, decision) for row in case.rows for decision in castle.push(row)]
    expected += [(len(case.rows), decision) for decision in castle.flush()]
    assert repr(run(start(case, Words(SAMPLER_KEY)), case.rows)) == repr(expected)  # as text: a drop's loss is nan


class Renumbered:
    """The words of some arrivals, as if there had been no others."""

    def __init__(self, arrivals: Sequence[int]) -> None:
        self.arrivals = arrivals
        self.words = Words(SAMPLER_KEY)

    def word(self, purpose: str, position: int, index: int, content: bytes | None = None) -> int:
        return self.words.word(purpose, self.arrivals[position], index, content)


def run_without_the_others(case: Case) -> tuple[str, str]:
    """The decisions with all rows, and with those alone that were not sampled away, under the same words."""
    stream = start(case, Words(SAMPLER_KEY))
    decided = [decision for _, decision in run(stream, case.rows)]
    kept = sorted(stream.arrival_of.values())
    alone = run(start(case, Renumbered(kept)), [case.rows[arrival] for arrival in kept])
    return repr(decided), repr([decision for _, decision in alone])


@given(cases(clock="sampled"))
def test_by_sampled_rows_a_row_that_was_sampled_away_leaves_no_trace(case: Case) -> None:
    all_rows, kept_rows = run_without_the_others(case)
    assert all_rows == kept_rows


def test_by_arrivals_it_leaves_one() -> None:
    rows = on_line(*range(8))
    settings = castle_settings(k=2, delay=3, max_clusters=1, loss_window=1)
    all_rows, kept_rows = run_without_the_others(Case([WIDE], settings, Guard(sample_rate=0.5, phi=1), rows))
    assert all_rows != kept_rows


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_word_depends_on_its_address_only() -> None:
    position = 5 + (7 << 32)
    first, second = (block(tuple(KEY), counter, (PURPOSES["noise"], 5, 7)) for counter in (0, 1))
    words = Words(KEY)
    assert [words.word("noise", position, index) for index in reversed(range(32))] == [*first, *second][::-1]
    assert (PURPOSES["sample"], PURPOSES["noise"], PURPOSES["response"]) == (9, 10, 11)


def test_sampler_key_is_ratcheted_by_arrivals_for_every_clock() -> None:
    new_key = block(tuple(SAMPLER_KEY), 0, (PURPOSES["ratchet"], 4, 0))[:8]
    expected = [random_is_below(0.5, Words(SAMPLER_KEY), arrival) for arrival in range(4)]
    expected += [random_is_below(0.5, Words(new_key), arrival) for arrival in range(4, 8)]
    unchanged = [random_is_below(0.5, Words(SAMPLER_KEY), arrival) for arrival in range(8)]
    assert expected != unchanged
    for clock in ("arrivals", "sampled"):
        guard = Guard(sample_rate=0.5, phi=2, clock=clock)
        stream = guarded([WIDE], Words(SAMPLER_KEY, ratchet_every=4), guard=guard)
        for row in on_line(*range(8)):
            stream.push(row)
        assert [arrival not in stream.sampled_out for arrival in range(8)] == expected
