"""The transcription of DOCA follows the paper, and strict DOCA's definitions are sound: by hand and at random."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import exp, isclose, log
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.doca import Cluster, Doca, Group
from tests.reference.doca_windows import (
    counts,
    laplace_probability,
    noisy_labels,
    noisy_means,
    run_sizes,
    sums,
    whole,
)
from tests.reference.local import noise_probability


def no_noise(position: int, scale: float, content: bytes) -> float:
    return 0.0


def no_shift(number: int) -> int:
    return 0


def doca(**given: Any) -> Doca:
    """One column without noise by default."""
    columns = given.get("columns", 1)
    defaults: dict[str, Any] = {
        "columns": columns,
        "delay": 100,
        "max_clusters": 2,
        "loss_window": 2,
        "epsilons": [1.0] * columns,
        "sensitivities": [1.0] * columns,
        "laplace": no_noise,
    }
    return Doca(**{**defaults, **given})


def push_all(stream: Doca, *values: float) -> list[list[Group]]:
    """Groups released by each of these arrivals."""
    return [stream.push([value]) for value in values]


def held(stream: Doca) -> list[list[int]]:
    """Which rows are in which cluster."""
    return [cluster.positions for cluster in stream.clusters]


def left(groups: Sequence[Group]) -> list[list[int]]:
    return [group.positions for group in groups]


def cluster(*values: float) -> Cluster:
    """A cluster somewhere in the middle of a stream."""
    return Cluster(list(range(len(values))), [[value] for value in values])


def midway(tau: float, *clusters: Cluster, low: float = 0.0, high: float = 10.0, **given: Any) -> Doca:
    """A stream that has seen low..high and holds these clusters."""
    stream = doca(**given)
    stream.min_t, stream.max_t = [low], [high]
    stream.tau = tau
    stream.clusters = list(clusters)
    return stream


# -- A whole stream, step by step --------------------------------------------------------------------------------------


def test_a_stream_worked_by_hand() -> None:
    stream = doca(delay=3, max_clusters=2, loss_window=2)

    assert stream.push([0]) == []
    assert held(stream) == [[0]]

    # Range 10. Joining {0} would cost all of it, and tau is 0: a second cluster.
    assert stream.push([10]) == []
    assert held(stream) == [[0], [1]]

    # 2 enlarges {0} by 0.2 and {10} by 0.8. Neither is below tau = 0, but there is no room for a third cluster.
    assert stream.push([2]) == []
    assert held(stream) == [[0, 2], [1]]

    # 9 goes to {10}. Row 0 expires: {0, 2} leaves as their mean; the loss is 0.2, and so is tau.
    assert stream.push([9]) == [Group(0, [0, 2], [1.0], 0.2, 0.2)]
    assert held(stream) == [[1, 3]]

    # Range 11. {9, 10, 11} would lose 2/11, which is below 0.2: admitted, though there is room. Row 1 expires.
    tau = (0.2 + 2 / 11) / 2
    assert stream.push([11]) == [Group(1, [1, 3, 4], [10.0], 2 / 11, tau)]
    assert held(stream) == []

    # Row 2 left with row 0, row 3 with row 1: no row expires. A second 5 loses nothing, and 0 is below tau.
    assert push_all(stream, 5, 5) == [[], []]
    assert held(stream) == [[5, 6]]

    # {5, 5, 7} would lose 2/11 = 0.182, below tau = 0.191.
    assert stream.push([7]) == []
    assert held(stream) == [[5, 6, 7]]

    # {5, 5, 7, 8} would lose 3/11: a new cluster. Row 5 expires; tau is the mean of the last two losses, not of three.
    (group,) = stream.push([8])
    assert group == Group(5, [5, 6, 7], [17 / 3], 2 / 11, 2 / 11)
    assert held(stream) == [[8]]

    assert stream.flush() == [Group(8, [8], [8.0], 0.0, 1 / 11)]
    assert (stream.tau, stream.arrivals, stream.clusters) == (1 / 11, 9, [])


# -- Algorithm 1 -------------------------------------------------------------------------------------------------------


def test_no_row_leaves_before_the_delay_is_over() -> None:
    stream = doca(delay=4)
    assert push_all(stream, 3, 1, 4, 1) == [[], [], [], []]
    assert left(stream.push([5])) == [[0, 2, 4]]


def test_the_new_row_is_clustered_before_the_old_one_expires() -> None:
    stream = doca(delay=1, max_clusters=1)
    assert [left(groups) for groups in push_all(stream, 1, 2, 3, 4, 5)] == [[], [[0, 1]], [], [[2, 3]], []]


def test_with_delay_1_and_room_every_row_leaves_alone_at_the_next_arrival() -> None:
    stream = doca(delay=1, max_clusters=2)
    assert [left(groups) for groups in push_all(stream, 1, 2, 3, 4)] == [[], [[0]], [[1]], [[2]]]


def test_one_cluster_takes_everything_until_its_first_row_expires() -> None:
    stream = doca(delay=3, max_clusters=1)
    assert push_all(stream, 7, -3, 100, 0) == [[], [], [], [Group(0, [0, 1, 2, 3], [26.0], 1.0, 1.0)]]
    # Rows 1 to 3 are out already: the next to expire is row 4.
    assert [left(groups) for groups in push_all(stream, 7, 7, 7, 7)] == [[], [], [], [[4, 5, 6, 7]]]


def test_the_loss_is_measured_with_the_range_of_the_moment_the_new_row_included() -> None:
    stream = doca(delay=2, max_clusters=2)
    push_all(stream, 0, 2)
    stream.clusters = [Cluster([0, 1], [[0.0], [2.0]])]
    (group,) = stream.push([100])
    assert (group.positions, group.loss) == ([0, 1], 0.02)


def test_the_range_is_that_of_all_rows_so_far_also_of_those_that_left() -> None:
    stream = doca(delay=1, max_clusters=1)
    push_all(stream, 0, 100, 10)
    (group,) = stream.push([30])
    assert (group.positions, group.loss) == ([2, 3], 0.2)


def test_tau_is_the_mean_of_the_last_losses_and_rises_with_them() -> None:
    stream = doca(delay=1, max_clusters=1, loss_window=3)
    taus = []
    for low, high in ((0, 1000), (0, 0), (0, 100), (0, 200), (0, 600)):
        stream.push([low])
        (group,) = stream.push([high])
        assert group.tau == stream.tau
        taus.append(group.tau)
    assert taus == pytest.approx([1.0, 0.5, 1.1 / 3, 0.1, 0.3])


def test_rows_that_tau_kept_apart_join_once_it_has_risen() -> None:
    before, after = (midway(tau, cluster(4), max_clusters=9) for tau in (0.1, 0.11))
    for stream in (before, after):
        stream.best_selection([5])
    assert (len(before.clusters), len(after.clusters)) == (2, 1)


def test_tau_adds_losses_up_one_by_one() -> None:
    """Ten times 0.1 is not 1 in floating point, and a compensated sum would hide that."""
    stream = doca(delay=1, max_clusters=1, loss_window=10)
    push_all(stream, 0, 10)
    for _ in range(10):
        push_all(stream, 0, 1)
    assert stream.losses == [1.0, *[0.1] * 10]
    assert stream.tau == 0.9999999999999999 / 10


def test_a_row_that_left_with_its_cluster_does_not_expire_again() -> None:
    stream = doca(delay=2, max_clusters=1)
    assert [left(groups) for groups in push_all(stream, 1, 1, 1, 1, 1)] == [[], [], [[0, 1, 2]], [], []]


# -- Algorithm 2 -------------------------------------------------------------------------------------------------------


def test_equal_rows_open_clusters_and_then_go_to_the_smallest_oldest() -> None:
    """As printed: a loss of 0 is not below a tau of 0. All enlargements are 0, so every cluster is in C_min."""
    stream = doca(delay=7, max_clusters=3)
    push_all(stream, 4, 4, 4, 4, 4)
    assert held(stream) == [[0, 3], [1, 4], [2]]
    push_all(stream, 4, 4)
    assert held(stream) == [[0, 3, 6], [1, 4], [2, 5]]
    assert stream.push([4]) == [Group(0, [0, 3, 6], [4.0], 0.0, 0.0)]
    assert held(stream) == [[1, 4, 7], [2, 5]]


def test_equal_rows_stay_together_if_a_loss_of_tau_is_admitted() -> None:
    stream = doca(delay=4, max_clusters=3, admit_equal=True)
    assert push_all(stream, 4, 4, 4, 4) == [[], [], [], []]
    assert held(stream) == [[0, 1, 2, 3]]
    assert stream.push([4]) == [Group(0, [0, 1, 2, 3, 4], [4.0], 0.0, 0.0)]


def test_admitting_a_loss_of_tau_admits_none_above_it() -> None:
    single = cluster(4)
    assert midway(0.1, single, max_clusters=9, admit_equal=True).best_selection([5]) is single
    assert midway(0.1, single, max_clusters=9, admit_equal=True).best_selection([6]) is not single


def test_the_cluster_that_grows_least_is_chosen_not_the_one_that_would_be_smallest() -> None:
    wide, narrow = cluster(0, 6), cluster(9)
    stream = midway(0.9, narrow, wide)
    assert stream.best_selection([7]) is wide


def test_a_cluster_that_grows_more_is_not_considered_although_its_loss_is_below_tau() -> None:
    wide, narrow = cluster(0, 6), cluster(9)
    stream = midway(0.3, wide, narrow, max_clusters=9)
    assert stream.best_selection([7]) is stream.clusters[2]  # narrow would lose 0.2 only


def test_without_room_the_row_goes_where_it_enlarges_least() -> None:
    wide, narrow = cluster(0, 6), cluster(9)
    assert midway(0.3, wide, narrow, max_clusters=2).best_selection([7]) is wide


def test_the_loss_is_tested_with_the_row_added() -> None:
    pair = cluster(3, 5)  # loses 0.2
    assert midway(0.3, pair, max_clusters=9).best_selection([5.5]) is pair  # would lose 0.25
    assert midway(0.3, pair, max_clusters=9).best_selection([6]) is not pair  # would lose 0.3


def test_of_tied_clusters_those_below_tau_come_first_even_if_they_are_larger() -> None:
    around, inside = cluster(0, 10), cluster(4, 5, 6)
    assert midway(0.3, around, inside).best_selection([5]) is inside
    assert midway(0.1, around, inside).best_selection([5]) is around  # none is below tau: the smallest of both


def test_of_tied_clusters_below_tau_the_smallest_is_taken_and_then_the_oldest() -> None:
    three, two, also_two = cluster(0, 1, 4), cluster(6, 10), cluster(6, 10)
    assert midway(0.9, three, two, also_two).best_selection([5]) is two


def test_ties_are_exact_where_the_growth_is_divided_once() -> None:
    """0.3 - 0.2 is not 0.1 in floating point: a difference of two losses would see no tie here."""
    pair, single = cluster(0, 2), cluster(4)
    assert midway(0.9, pair, single).best_selection([3]) is single


def test_a_row_inside_a_cluster_enlarges_it_by_nothing_on_either_side() -> None:
    stream = midway(0.5, cluster(2, 6))
    assert [stream.enlargement([x], stream.clusters[0]) for x in (0, 2, 4, 6, 9)] == [0.2, 0, 0, 0, 0.3]


def test_a_cluster_is_opened_only_while_there_are_fewer_than_beta() -> None:
    stream = doca(max_clusters=3)
    push_all(stream, 0, 10, 20, 30, 40)
    assert held(stream) == [[0], [1], [2, 3, 4]]


# -- Several columns ---------------------------------------------------------------------------------------------------


def test_loss_and_enlargement_are_means_over_columns_of_their_own_range() -> None:
    stream = doca(columns=2)
    stream.min_t, stream.max_t = [0.0, 100.0], [10.0, 300.0]
    c = Cluster([0, 1], [[1.0, 100.0], [2.0, 150.0]])
    assert stream.loss(c.rows) == (0.1 + 0.25) / 2
    assert stream.enlargement([4.0, 110.0], c) == (0.2 + 0.0) / 2
    assert stream.enlargement([4.0, 200.0], c) == (0.2 + 0.25) / 2


def test_a_column_without_a_range_counts_as_0_and_still_counts() -> None:
    stream = doca(columns=2, max_clusters=1)
    stream.push([0, 5])
    stream.push([8, 5])
    assert stream.loss(stream.clusters[0].rows) == 0.5
    assert stream.enlargement([9, 5], stream.clusters[0]) == 0.0625


def test_each_column_is_published_as_its_own_mean() -> None:
    stream = doca(columns=2, delay=2, max_clusters=1)
    stream.push([0, 100])
    stream.push([3, 500])
    (group,) = stream.push([6, 300])
    assert (group.values, group.loss) == ([3.0, 300.0], 1.0)


# -- Section 3.2: publication ------------------------------------------------------------------------------------------


def test_every_group_gets_one_draw_per_column_addressed_by_the_expiring_row() -> None:
    asked: list[tuple[int, float]] = []

    def laplace(position: int, scale: float, content: bytes) -> float:
        asked.append((position, scale))
        return 1000.0 * len(asked)

    stream = doca(columns=2, delay=3, max_clusters=1, epsilons=[0.5, 2.0], sensitivities=[8.0, 80.0], laplace=laplace)
    stream.push(None)
    for row in ([1, 10], [2, 20], [3, 30]):
        assert stream.push(row) == []
    (group,) = stream.push([6, 60])
    assert (group.expiring, group.positions) == (1, [1, 2, 3, 4])
    assert asked == [(1, 8 / 4 / 0.5), (1, 80 / 4 / 2.0)]
    assert group.values == [3.0 + 1000, 30.0 + 2000]  # each column has its own draw; they may lie outside the data


def test_rows_of_one_person_multiply_the_scale() -> None:
    scales: list[float] = []

    def laplace(position: int, scale: float, content: bytes) -> float:
        scales.append(scale)
        return 0.0

    stream = doca(max_clusters=1, rows_per_person=5, sensitivities=[1.1], epsilons=[0.3], laplace=laplace, delay=5)
    push_all(stream, 1, 1, 1, 1, 1, 1)
    assert scales == [5 * 1.1 / 6 / 0.3]
    # Rounding tells the order of operations.
    assert scales[0] not in (5 * (1.1 / 6) / 0.3, 5 * 1.1 / (6 * 0.3), 5 * 1.1 / 0.3 / 6, 1.1 / 6 / 0.3 * 5)


def test_the_mean_adds_rows_up_in_order_of_arrival() -> None:
    stream = doca(delay=3, max_clusters=1)
    (group,) = push_all(stream, 1e16, 1, 1, -1e16)[-1]
    assert group.values == [0.0]  # each 1 is lost beside 1e16
    stream = doca(delay=3, max_clusters=1)
    (group,) = push_all(stream, 1, 1, 1e16, -1e16)[-1]
    assert group.values == [0.5]


# -- Flush, absent rows, waiting ---------------------------------------------------------------------------------------


def test_a_flush_expires_the_oldest_row_until_none_is_left() -> None:
    stream = midway(0.0, Cluster([3, 4], [[1.0], [5.0]]), Cluster([1, 6], [[7.0], [9.0]]))
    assert stream.flush() == [Group(1, [1, 6], [8.0], 0.2, 0.2), Group(3, [3, 4], [3.0], 0.4, (0.2 + 0.4) / 2)]
    assert stream.flush() == []


def test_a_stream_goes_on_after_a_flush_with_its_range_and_tau() -> None:
    stream = doca(delay=2, max_clusters=1)
    push_all(stream, 0, 10)
    assert stream.flush() == [Group(0, [0, 1], [5.0], 1.0, 1.0)]
    # Rows 2 and 3 would make rows 0 and 1 expire, which are gone.
    assert [left(groups) for groups in push_all(stream, 4, 6)] == [[], []]
    assert stream.push([5]) == [Group(2, [2, 3, 4], [5.0], 0.2, 0.6)]


def test_an_absent_row_takes_a_position_and_makes_an_older_row_expire() -> None:
    stream = doca(delay=2, max_clusters=9)
    assert stream.push([0]) == []
    assert stream.push(None) == []
    assert stream.push(None) == [Group(0, [0], [0.0], 0.0, 0.0)]
    assert stream.push([7]) == []  # row 1 was absent: no row expires
    assert (stream.arrivals, held(stream)) == (4, [[3]])


def test_an_absent_row_changes_neither_range_nor_clusters() -> None:
    stream = doca()
    stream.push(None)
    assert (stream.min_t, stream.max_t, stream.clusters) == ([float("inf")], [float("-inf")], [])
    push_all(stream, 1, 2)
    stream.push(None)
    assert (stream.min_t, stream.max_t, held(stream)) == ([1], [2], [[1], [2]])


def test_a_row_that_has_waited_max_wait_expires_at_a_tick_with_its_cluster() -> None:
    stream = doca(max_clusters=2, max_wait=5.0)
    for now, value in ((0.0, 0.0), (1.0, 10.0), (2.0, 1.0), (3.0, 9.0)):
        assert stream.push([value], now) == []
    assert held(stream) == [[0, 2], [1, 3]]
    assert stream.tick(4.999) == []
    assert left(stream.tick(5.0)) == [[0, 2]]
    assert stream.tick(5.0) == []
    assert left(stream.tick(7.0)) == [[1, 3]]


def test_rows_that_waited_too_long_leave_oldest_first_and_each_only_once() -> None:
    stream = doca(max_clusters=2, max_wait=5.0)
    for now, value in ((0.0, 0.0), (1.0, 10.0), (2.0, 1.0), (3.0, 9.0)):
        stream.push([value], now)
    assert [(group.expiring, group.positions) for group in stream.tick(8.0)] == [(0, [0, 2]), (1, [1, 3])]


def test_rows_that_waited_too_long_leave_before_the_new_row_is_taken_in() -> None:
    stream = doca(delay=1, max_clusters=1, max_wait=5.0)
    stream.push([0.0], 0.0)
    assert stream.push([100.0], 5.0) == [Group(0, [0], [0.0], 0.0, 0.0)]
    assert held(stream) == [[1]]
    assert left(stream.push(None, 10.0)) == [[1]]


def test_waiting_comes_before_the_delay_in_what_one_arrival_makes_leave() -> None:
    stream = doca(delay=2, max_clusters=2, max_wait=5.0)
    stream.push([0.0], 0.0)
    stream.push([10.0], 3.0)
    stream.arrived_at[0], stream.arrived_at[1] = 3.0, 0.0  # as if row 1 had waited longer
    assert [group.expiring for group in stream.push([5.0], 5.0)] == [1, 0]


def test_without_max_wait_no_row_expires_by_time() -> None:
    stream = doca()
    stream.push([1.0], 0.0)
    assert stream.tick(1e300) == []


@pytest.mark.parametrize("wrong", [{"epsilons": [1.0]}, {"sensitivities": [1.0, 1.0, 1.0]}])
def test_every_column_has_its_epsilon_and_sensitivity(wrong: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="2 columns"):
        doca(columns=2, **wrong)


# -- What holds for every stream ---------------------------------------------------------------------------------------

Arrivals = list[tuple[float, float] | None]
ROWS = st.lists(st.none() | st.tuples(st.integers(0, 6).map(float), st.integers(0, 3).map(float)), max_size=40)


@given(
    rows=ROWS,
    delay=st.integers(1, 8),
    beta=st.integers(1, 4),
    m=st.integers(1, 3),
    equal=st.booleans(),
    cut=st.integers(0, 40),
)
def test_every_row_leaves_once_within_its_delay(
    rows: Arrivals, delay: int, beta: int, m: int, equal: bool, cut: int
) -> None:
    stream = doca(columns=2, delay=delay, max_clusters=beta, loss_window=m, admit_equal=equal)
    seen: list[int] = []
    losses: list[float] = []
    for position, row in enumerate(rows):
        groups = stream.push(row)
        assert len(groups) <= 1
        assert [group.expiring for group in groups] in ([], [position - delay])
        if position == cut:
            groups += stream.flush()
            assert stream.clusters == []
        for group in groups:
            assert group.positions == sorted(group.positions)
            assert group.expiring == group.positions[0]
            assert 0 <= group.loss <= 1
            losses.append(group.loss)
            assert group.tau == pytest.approx(sum(losses[-m:]) / len(losses[-m:]))
            seen += group.positions
        assert len(stream.clusters) <= beta
        assert all(position - delay < waiting <= position for waiting in stream.pending())
    for group in stream.flush():
        seen += group.positions
    assert sorted(seen) == [position for position, row in enumerate(rows) if row is not None]


# -- Strict: runs and their sums ---------------------------------------------------------------------------------------


def test_runs_have_k_rows_and_the_last_takes_the_rest() -> None:
    assert [run_sizes(rows, 3) for rows in (0, 2, 3, 5, 6, 8, 9, 11)] == [
        [],
        [],
        [3],
        [5],
        [3, 3],
        [3, 5],
        [3, 3, 3],
        [3, 3, 5],
    ]
    assert run_sizes(4, 1) == [1, 1, 1, 1]


@given(rows=st.integers(0, 200), k=st.integers(1, 20))
def test_run_sizes_add_up_and_lie_between_k_and_2k(rows: int, k: int) -> None:
    sizes = run_sizes(rows, k)
    assert sum(sizes) == (rows if rows >= k else 0)
    assert all(size == k for size in sizes[:-1])
    assert all(k <= size < 2 * k for size in sizes[-1:])


def test_means_worked_by_hand() -> None:
    # Sorted: 0 1 | 2 3 4, with 5 cells.
    levels = [4, 0, 2, 1, 3]
    assert sums(levels, 2) == [1, 9]
    assert noisy_means(levels, k=2, cells=5, noise=no_shift) == [Fraction(1, 2), 3]
    assert noisy_means(levels, k=2, cells=5, noise=lambda run: [2, -4][run]) == [Fraction(3, 2), Fraction(5, 3)]
    # Noisy sums are clipped to 0..10 and 0..15.
    assert noisy_means(levels, k=2, cells=5, noise=lambda run: [9, 6][run]) == [5, 5]
    assert noisy_means(levels, k=2, cells=5, noise=lambda run: [8, 5][run]) == [Fraction(9, 2), Fraction(14, 3)]
    assert noisy_means(levels, k=2, cells=5, noise=lambda run: [-1, -10][run]) == [0, 0]


def test_a_window_below_k_publishes_nothing() -> None:
    assert noisy_means([1, 2], k=3, cells=5, noise=no_shift) == []


LEVELS = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(levels=LEVELS, k=st.integers(1, 12), data=st.data())
def test_replacing_a_level_moves_the_sums_by_at_most_the_difference(
    levels: list[int], k: int, data: st.DataObject
) -> None:
    row, new = data.draw(st.integers(0, len(levels) - 1)), data.draw(st.integers(0, 50))
    replaced = [*levels[:row], new, *levels[row + 1 :]]
    moved = distance(sums(levels, k), sums(replaced, k))
    assert moved <= abs(levels[row] - new)
    # All of it is seen as soon as there is a run: sorted levels move up together, or down together.
    assert moved == (abs(levels[row] - new) if len(levels) >= k else 0)


@given(levels=LEVELS, k=st.integers(1, 12), data=st.data())
def test_replacing_c_levels_moves_the_sums_by_at_most_c_times_the_cells(
    levels: list[int], k: int, data: st.DataObject
) -> None:
    c = data.draw(st.integers(0, len(levels)))
    replaced = data.draw(st.lists(st.integers(0, 50), min_size=c, max_size=c)) + levels[c:]
    assert distance(sums(levels, k), sums(replaced, k)) <= 50 * c


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_widest_move_of_the_sums_is_all_the_cells(k: int) -> None:
    """Every window of four rows on levels 0, 1, 2, with every replacement of its first row: the worst is exactly 2."""
    moves = [
        distance(sums([one, *others], k), sums([other, *others], k))
        for others in product(range(3), repeat=3)
        for one in range(3)
        for other in range(3)
    ]
    assert max(moves) == 2


@given(levels=LEVELS, k=st.integers(1, 12), random=st.randoms())
def test_means_do_not_depend_on_the_order_of_rows(levels: list[int], k: int, random: Random) -> None:
    shuffled = random.sample(levels, len(levels))
    assert sums(levels, k) == sums(shuffled, k)


def distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


# -- Strict: labels ----------------------------------------------------------------------------------------------------


def noisy(target: Sequence[int], codes: Sequence[int], most: int = 100) -> list[int]:
    """Published labels for these noisy counts."""
    true = counts(codes, len(target))
    return noisy_labels(codes, labels=len(target), most=most, noise=lambda label: target[label] - true[label])


def test_counts_are_of_every_label_also_of_absent_ones() -> None:
    assert counts([2, 0, 2, 2], 4) == [1, 0, 3, 0]


@pytest.mark.parametrize(
    ("noisy_counts", "published"),
    [
        ([4, 3, 3], [4, 3, 3]),  # they add up to the ten rows
        ([6, 5, 5], [4, 3, 3]),  # six too many: two less each
        ([9, 9, 1], [5, 5, 0]),  # nine too many: three less each would put the last below 0, so four less for two
        ([1, 9, 9], [0, 5, 5]),
        ([20, 1, 0], [10, 0, 0]),
        ([2, 1, 1], [4, 3, 3]),  # six too few: two more each
        ([4, 0, 0], [6, 2, 2]),  # also for those at 0
        ([5, 3, 3], [5, 3, 2]),  # one too many: 4 2/3, 2 2/3, 2 2/3; two units for the first two labels
        ([3, 3, 5], [3, 3, 4]),  # 2 2/3, 2 2/3, 4 2/3
        ([3, 3, 3], [4, 3, 3]),  # 3 1/3 each
        ([0, 0, 0], [4, 3, 3]),
        ([-5, 2, 8], [0, 2, 8]),  # below 0 is 0 ...
        ([-5, 2, 2], [2, 4, 4]),  # ... before anything else
        ([7, 5, 0], [6, 4, 0]),  # 0 stays 0 where something is taken away
        ([6, 5, 0], [6, 4, 0]),  # 5 1/2, 4 1/2
    ],
)
def test_labels_worked_by_hand(noisy_counts: list[int], published: list[int]) -> None:
    assert noisy(noisy_counts, [0] * 10) == published


def test_noisy_counts_are_clipped_above_before_they_are_made_to_add_up() -> None:
    assert noisy([30, 8, 0], [0] * 10, most=12) == [7, 3, 0]  # as 12 and 8: ten too many
    assert noisy([30, 8, 0], [0] * 10) == [10, 0, 0]


def test_units_that_rounding_loses_go_to_the_largest_remainders_and_then_to_the_first() -> None:
    assert whole([Fraction(1, 4), Fraction(3, 4)]) == [0, 1]
    assert whole([Fraction(1, 3), Fraction(5, 3), Fraction(8, 3), Fraction(1, 3)]) == [0, 2, 3, 0]
    # 2/5 less each: 3/5, 3/5, 3/5, 13/5, 13/5. Three units are lost, and a label at 0 has lost nothing.
    assert noisy([0, 1, 1, 1, 3, 3], [0] * 7) == [0, 1, 1, 1, 2, 2]


def test_one_label_takes_every_row() -> None:
    assert [noisy([count], [0] * 3) for count in (-7, 0, 2, 9)] == [[3], [3], [3], [3]]


def test_no_rows_get_no_labels() -> None:
    assert noisy([4, 0, 2], []) == [0, 0, 0]


CODES = st.lists(st.integers(0, 4), max_size=30)
NOISES = st.lists(st.integers(-40, 40), min_size=5, max_size=5)


@given(codes=CODES, noises=NOISES, room=st.integers(0, 10))
def test_labels_add_up_to_the_rows_and_keep_their_order(codes: list[int], noises: list[int], room: int) -> None:
    most = len(codes) + room
    published = noisy_labels(codes, labels=5, most=most, noise=lambda label: noises[label])
    assert sum(published) == len(codes)
    assert min(published) >= 0
    clipped = [min(max(count + noises[i], 0), most) for i, count in enumerate(counts(codes, 5))]
    for i, j in product(range(5), repeat=2):
        if clipped[i] > clipped[j]:
            assert published[i] >= published[j]


@given(codes=CODES, room=st.integers(0, 10))
def test_counts_without_noise_are_kept(codes: list[int], room: int) -> None:
    assert noisy_labels(codes, labels=5, most=len(codes) + room, noise=no_shift) == counts(codes, 5)


@given(codes=st.lists(st.integers(0, 4), min_size=1, max_size=30), new=st.integers(0, 4), data=st.data())
def test_replacing_a_label_moves_the_counts_by_2_or_not_at_all(codes: list[int], new: int, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(codes) - 1))
    replaced = [*codes[:row], new, *codes[row + 1 :]]
    assert distance(counts(codes, 5), counts(replaced, 5)) == (0 if codes[row] == new else 2)


# -- Strict: the law of the noise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [Fraction(1, 100), Fraction(1, 3), Fraction(2)])
def test_the_law_adds_up_to_1_and_falls_by_the_same_ratio(exponent: Fraction) -> None:
    far = int(40 / exponent)  # beyond lies less than 1e-16
    assert sum(laplace_probability(j, exponent) for j in range(-far, far + 1)) == pytest.approx(1, rel=1e-12)
    for j in range(5):
        ratio = laplace_probability(j + 1, exponent) / laplace_probability(j, exponent)
        assert isclose(ratio, exp(-exponent), rel_tol=1e-12)
        assert laplace_probability(-j, exponent) == laplace_probability(j, exponent)


def test_the_law_is_that_of_a_number_randomised_alone() -> None:
    for j in range(-9, 10):
        alone = noise_probability(j, 7, 1.5)
        assert isclose(laplace_probability(j, Fraction(3, 14)), alone, rel_tol=1e-12)


Mechanism = Callable[[Sequence[int]], list[int]]


@pytest.mark.parametrize(
    ("true", "width"),
    [(lambda values: sums(values, 2), 2), (lambda values: counts(values, 3), 2)],
    ids=["sums", "counts"],
)
def test_the_loss_of_a_window_is_epsilon_and_not_less(true: Mechanism, width: int) -> None:
    """Four rows with values 0, 1, 2, any of the first row's values for any other: the worst log ratio is epsilon."""
    epsilon = Fraction(3, 2)

    def likelihood(outcome: Sequence[int], values: Sequence[int]) -> float:
        found = 1.0
        for told, exact in zip(outcome, true(values), strict=True):
            found *= laplace_probability(told - exact, epsilon / width)
        return found

    parts = len(true([0, 0, 0, 0]))
    worst = 0.0
    for others in ([0, 0, 0], [0, 1, 2], [1, 1, 2]):
        for one, other in product(range(3), repeat=2):
            for outcome in product(range(-3, 12, 2), repeat=parts):
                ratio = likelihood(outcome, [one, *others]) / likelihood(outcome, [other, *others])
                worst = max(worst, abs(log(ratio)))
    assert worst == pytest.approx(1.5)
