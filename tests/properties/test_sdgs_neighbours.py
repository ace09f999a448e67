"""The claim, exactly: the distribution of the output with a row and without it, over all coins.

Rows with equal values are exchangeable, so instead of every coin the number of kept rows of each kind is enumerated,
with its binomial weight as a fraction. Each outcome is one run of the real engine and gate.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, isclose

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.privacy import sdgs_delta, sdgs_delta_tight
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.sdgs_streams import Front
from tests.reference.sdgs import divergence, f

Kind = tuple[float, int]  # a quasi-identifier and a sensitive code
Window = Mapping[Kind, int]  # how many rows of each kind
Seen = tuple[tuple[tuple[float, ...], ...], ...]  # the published rows of every window
Law = dict[Seen, Fraction]

SCHEMA = Schema(
    person="id",
    quasi_identifiers=[Numeric("x", lower=0, upper=2, step=1)],
    sensitive=[Sensitive("s", values=["a", "b"])],
)
POLICY = Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=10)
A, B, C = (0.0, 0), (0.0, 1), (1.0, 0)
HALF = Fraction(1, 2)
E = Fraction(exp(1))
TIGHT = sdgs_delta_tight(k=2, sample_rate=0.5, epsilon=1.0) * (1 + 1e-9)


def rows_of(kinds: Sequence[Kind], persons: Sequence[int] | None = None) -> CodedRows:
    """Rows of these kinds, each of a different person unless `persons` is given."""
    return CodedRows(
        quasi=np.array([x for x, _ in kinds], dtype=np.float64).reshape(-1, 1),
        person=np.array(range(len(kinds)) if persons is None else persons, dtype=np.uint64),
        sensitive=np.array([s for _, s in kinds], dtype=np.int64).reshape(-1, 1),
        to_root=np.zeros(len(kinds), dtype=np.bool_),
    )


def law(windows: Sequence[Window], policy: Sdgs = POLICY) -> Law:
    """Probability of every possible output of these windows."""
    kinds = [(number, kind, many) for number, window in enumerate(windows) for kind, many in window.items()]
    found: Law = defaultdict(Fraction)
    for kept in product(*(range(many + 1) for _, _, many in kinds)):
        weight = Fraction(1)
        coins: list[bool] = []
        for (_, _, many), stay in zip(kinds, kept, strict=True):
            weight *= f(stay, many, Fraction(policy.sample_rate))
            coins += [at < stay for at in range(many)]
        found[observe(windows, np.array(coins, dtype=np.bool_), policy)] += weight
    assert sum(found.values()) == 1
    return found


def observe(windows: Sequence[Window], coins: NDArray[np.bool_], policy: Sdgs) -> Seen:
    """Output by window for these coins."""
    front = Front(SCHEMA, policy, coins)
    seen = []
    for number, window in enumerate(windows):
        front.push(rows_of([kind for kind, many in window.items() for _ in range(many)]), 10.0 * number)
        front.tick(10.0 * number + 10)
        seen.append(tuple(front.out))
        front.out = []
    return tuple(seen)


def distance(one: Law, other: Law, epsilon: float) -> float:
    """Smallest delta for which the two are (epsilon, delta)-indistinguishable."""
    outcomes = list(one.keys() | other.keys())
    left, right = ([law.get(outcome, Fraction(0)) for outcome in outcomes] for law in (one, other))
    factor = Fraction(exp(epsilon))
    return float(max(divergence(left, right, factor), divergence(right, left, factor)))


def without(window: Window, kind: Kind) -> Window:
    return {**window, kind: window[kind] - 1}


def test_the_worst_single_cell_meets_the_tight_delta_exactly() -> None:
    """The bound of the other tests is reached, so they would notice a slightly worse mechanism."""
    policy = replace(POLICY, k=3)
    worst = max(distance(law([{A: n}], policy), law([{A: n - 1}], policy), policy.epsilon) for n in range(1, 16))
    tight = sdgs_delta_tight(k=3, sample_rate=0.5, epsilon=1.0)
    assert isclose(worst, tight, rel_tol=1e-9)
    assert tight <= policy.dp_delta == sdgs_delta(k=3, sample_rate=0.5, epsilon=1.0)


def test_a_row_stays_hidden_although_the_second_window_depends_on_the_first() -> None:
    first, second = {A: 12, B: 2}, {A: 2, C: 2}
    with_it = law([first, second])
    boxes = {row[:2] for _, later in with_it for row in later}
    assert boxes == {(0.0, 2.0), (0.0, 1.0), (1.0, 2.0)}, "the grid of the second window must depend on the first"
    for kind in (A, B):
        far = distance(with_it, law([without(first, kind), second]), POLICY.epsilon)
        assert 0 < far <= TIGHT


def test_row_of_the_second_window_stays_hidden_for_any_release_of_the_first() -> None:
    first, second = {A: 11}, {A: 4, C: 3}
    far = distance(law([first, second]), law([first, without(second, A)]), POLICY.epsilon)
    assert 0 < far <= TIGHT


def test_diversity_and_its_suppression_are_free() -> None:
    policy = replace(POLICY, l=2)
    for first in ({A: 5, B: 4}, {A: 2, B: 6}):
        for kind in (A, B):
            far = distance(law([first], policy), law([without(first, kind)], policy), policy.epsilon)
            assert far <= TIGHT


def test_replacing_values_in_a_window_of_rows_costs_two_steps() -> None:
    policy = replace(POLICY, window=8, window_unit="rows")
    claim = policy.guarantee(SCHEMA, seeded=False).privacy
    assert claim is not None
    assert isclose(claim.epsilon, 2.0)
    assert isclose(claim.dp_delta, (1 + exp(1.0)) * policy.dp_delta)
    for old, new in (({A: 8, B: 0}, {A: 7, B: 1}), ({A: 3, B: 5}, {A: 2, B: 6}), ({A: 4, C: 4}, {A: 3, C: 5})):
        assert distance(law([old], policy), law([new], policy), claim.epsilon) <= claim.dp_delta


def law_of_a_person(rows: int, others: int, policy: Sdgs) -> Law:
    """One cell of one window, with all rows of one person and one row of each other person; independent coins."""
    found: Law = defaultdict(Fraction)
    persons = [0] * rows + list(range(1, others + 1))
    for coins in product([False, True], repeat=rows + others):
        front = Front(SCHEMA, policy, np.array(coins))
        front.push(rows_of([A] * len(persons), persons), 0.0)
        front.tick(10.0)
        found[(tuple(front.out),)] += HALF ** len(persons)
    return found


def test_the_cap_makes_a_person_of_many_rows_as_safe_as_a_row() -> None:
    by_person = [distance(law_of_a_person(2, n, POLICY), law_of_a_person(0, n, POLICY), 1.0) for n in range(1, 5)]
    assert max(by_person) <= TIGHT
    by_row = replace(POLICY, unit="row")
    assert max(distance(law_of_a_person(2, n, by_row), law_of_a_person(0, n, by_row), 1.0) for n in range(1, 5)) > TIGHT


def worst_of_many_rows(rows: int, *, one_coin: bool) -> float:
    """k=10, beta=1/4, epsilon=1: one cell with `rows` rows of one person, without the cap."""
    k, beta, worst = 10, Fraction(1, 4), Fraction(0)
    for n in range(40):
        without_it = [f(j, n, beta) for j in range(n + 1)]
        with_it = [f(j, n + rows, beta) for j in range(n + rows + 1)]
        if one_coin:
            with_it = [Fraction(0)] * (n + rows + 1)
            for j, p in enumerate(without_it):
                with_it[j] += (1 - beta) * p
                with_it[j + rows] += beta * p
        one, other = ([sum(whole[:k], Fraction(0)), *whole[k:]] for whole in (with_it, without_it))
        worst = max(worst, divergence(one, other, E), divergence(other, one, E))
    return float(worst)


def test_without_the_cap_delta_is_exceeded() -> None:
    claim = sdgs_delta(k=10, sample_rate=0.25, epsilon=1)
    assert worst_of_many_rows(1, one_coin=True) <= claim < 1.3e-4
    assert isclose(worst_of_many_rows(2, one_coin=True), 0.00396, rel_tol=1e-2)
    assert isclose(worst_of_many_rows(5, one_coin=True), 0.119, rel_tol=1e-2)
    # A coin for each row is better, but not enough.
    assert isclose(worst_of_many_rows(2, one_coin=False), 0.00095, rel_tol=1e-2)


def test_a_gate_that_counted_persons_would_reveal_a_person() -> None:
    """Nine persons with forty rows each are in the cell, one coin per row: it would pass only with the tenth."""
    quarter = Fraction(1, 4)
    all_nine = (1 - (1 - quarter) ** 40) ** 9
    comes_out_with, comes_out_without = quarter * all_nine, Fraction(0)
    far = divergence([comes_out_with, 1 - comes_out_with], [comes_out_without, Fraction(1)], E)
    assert far > 0.249 > 1000 * sdgs_delta(k=10, sample_rate=0.25, epsilon=1)
