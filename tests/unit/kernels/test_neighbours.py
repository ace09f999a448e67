"""The rows nearest to a row, in small and in large trees, against a sort of all distances."""

import numpy as np
import pytest
from numpy.typing import NDArray

import castleguard as cg
from castleguard.algorithms.citadel.engine import make_settings, make_state, make_work
from castleguard.kernels.citadel_state import MANY, PENDING_ROW, PLACE, Settings, Work
from castleguard.kernels.compile import Int, entry_kernel
from castleguard.kernels.growth import point_at
from castleguard.kernels.neighbours import count_near, find_nearest
from castleguard.kernels.sorting import lower_half
from castleguard.kernels.state import ARRIVALS, State
from castleguard.kernels.tree import make_tree, part_of, take_out


@entry_kernel
def plant(state: State, settings: Settings, work: Work) -> None:
    """Make the tree of all rows."""
    make_tree(state, settings.axes, work)


@entry_kernel
def search(
    state: State, settings: Settings, work: Work, at: Int, wanted: Int, ranks: NDArray[np.int64], within: float
) -> Int:
    """Take a row out of the tree and list the rows nearest to it; how many rows are within a distance."""
    home = part_of(work, work.slots[PLACE, at])
    take_out(work, at)
    point = work.grown[0]
    point_at(state, settings.axes, at, point)
    near = count_near(state.domain, settings.axes, work, point, np.float32(within))
    found = find_nearest(state.domain, settings.axes, work, point, home, wanted)
    for number in range(found):
        ranks[number] = lower_half(work.keys[0, number])
    return near


SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("x", lower=0, upper=1000),
        cg.Numeric("y", lower=0, upper=1000),
        cg.Categorical("place", hierarchy=cg.Hierarchy.flat([str(leaf) for leaf in range(20)])),
    ],
)


@pytest.mark.compiled
@pytest.mark.parametrize("rows", [40, 3_000, MANY + 1_000])
def test_nearest_rows_are_those_of_a_sort(rows: int) -> None:
    policy = cg.Citadel(k=3, delay=rows)
    settings, work = make_settings(SCHEMA, policy), make_work(SCHEMA, policy)
    state = make_state(SCHEMA, policy, np.zeros(8, dtype=np.uint32))
    draw = np.random.default_rng(rows)
    x = draw.integers(0, 1000, rows) * (draw.random(rows) < 0.5)  # half of the rows are equal on this axis
    y = np.sort(draw.exponential(100, rows)).clip(0, 1000)
    place = draw.integers(0, 20, rows)
    state.quasi[:rows] = np.stack([x, y, place], axis=1)
    state.person[:rows] = np.arange(rows)
    state.link[0, :rows] = np.arange(rows)
    state.link[1, :rows] = PENDING_ROW
    state.counters[ARRIVALS] = rows
    plant(state, settings, work)
    gone = np.zeros(rows, dtype=bool)
    for at in draw.permutation(rows)[: 200 if rows > 100 else rows]:
        gone[at] = True
        wanted = int(draw.choice([1, 10, 70, 700]))
        distance: NDArray[np.float32] = np.zeros(rows, dtype=np.float32)
        for value in (x, y):
            coordinate = (value / 1000).astype(np.float32)
            distance += np.abs(coordinate - coordinate[at])
        distance += place != place[at]
        distance[gone] = np.inf
        nearest = np.lexsort((np.arange(rows), distance))[: min(wanted, np.count_nonzero(~gone))]
        ranks = np.full(rows, -1, dtype=np.int64)
        within = float(distance[nearest[-1]]) if nearest.size else 0.0
        near = search(state, settings, work, int(at), wanted, ranks, within)
        assert near == np.count_nonzero(distance <= np.float32(within))
        assert set(ranks[: nearest.size].tolist()) == set(nearest.tolist())
