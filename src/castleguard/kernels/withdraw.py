"""Withdraw pending rows from their clusters for a release across sites, and readmit them if it is aborted.

Until such a release is decided, its rows stay in the ring but in no cluster: the engine treats them as gone. A
readmitted row is assigned to a cluster again.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Floats, Floats2, Ints
from castleguard.kernels.assign import best_selection
from castleguard.kernels.compile import Bool, Int, entry_kernel, kernel
from castleguard.kernels.expire import learn_loss
from castleguard.kernels.loss import Domain, box_loss, cell_loss, largest_inside, publish_box, value_loss
from castleguard.kernels.open_clusters import insert_row, new_cluster, remove_row
from castleguard.kernels.reuse import remember
from castleguard.kernels.ring import is_pending
from castleguard.kernels.state import OLDEST, OPEN, PENDING, Settings, State, Work
from castleguard.kernels.views import box_of, clusters_of, rows_of, tallies_of

Bounds = Floats2  # (2, columns)


@kernel
def union_loss(domain: Domain, low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> float:
    """Loss of the smallest box around two boxes."""
    total = 0.0
    for column in range(low.size):
        total += value_loss(domain, column, min(low[column], other_low[column]), max(high[column], other_high[column]))
    return total / low.size


@entry_kernel
def oldest_of_clusters(state: State, oldest: Ints) -> None:
    """Position of the oldest row of every cluster; -1 for a free slot."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    for slot in range(clusters.born.size):
        oldest[slot] = -1
        at = clusters.first[slot] if clusters.born[slot] >= 0 else -1
        while at >= 0:
            if oldest[slot] < 0 or rows.position[at] < oldest[slot]:
                oldest[slot] = rows.position[at]
            at = rows.next[at]


@entry_kernel
def distances(state: State, position: Int, far: Floats) -> None:
    """Loss of the box around a pending row and each ring slot's row; infinite for slots without a clustered row."""
    rows = rows_of(state)
    point = rows.quasi[position % rows.position.size]
    for at in range(rows.position.size):
        far[at] = np.inf
        if rows.cluster[at] >= 0:
            far[at] = union_loss(state.domain, point, point, rows.quasi[at], rows.quasi[at])


@entry_kernel
def levels_of(state: State, lower: Floats2, upper: Floats2, levels: Ints) -> None:
    """Find the innermost of several nested boxes that each ring slot's row lies in.

    The level is -1 for rows outside all boxes and for slots without a clustered row.
    """
    rows = rows_of(state)
    for at in range(rows.position.size):
        levels[at] = -1
        if rows.cluster[at] < 0:
            continue
        for level in range(len(lower) - 1, -1, -1):
            for column in range(lower.shape[1]):
                inside = largest_inside(state.domain, column, upper[level, column])
                if not lower[level, column] <= rows.quasi[at, column] <= inside:
                    break
            else:
                levels[at] = level
                continue
            break


@entry_kernel
def members_of(state: State, slot: Int, positions: Ints) -> Int:
    """Write the positions of a cluster's rows; return their number."""
    rows = rows_of(state)
    count = 0
    at = clusters_of(state).first[slot]
    while at >= 0:
        positions[count] = rows.position[at]
        count += 1
        at = rows.next[at]
    return count


@entry_kernel
def withdraw(state: State, positions: Ints) -> None:
    """Remove rows from their clusters. The caller ensures that they are pending."""
    capacity = rows_of(state).position.size
    for at in range(positions.size):
        remove_row(state, positions[at] % capacity)


@entry_kernel
def readmit(state: State, settings: Settings, work: Work, positions: Ints, together: Bool) -> None:
    """Readmit withdrawn rows; with `together`, into a new cluster of their own if a slot is free.

    The caller ensures that none is due already, and that ties are broken without draws: a row's draws were used at its
    arrival.
    """
    rows = rows_of(state)
    clusters = clusters_of(state)
    capacity = rows.position.size
    own: Int = -1
    for number in range(positions.size):
        position = positions[number]
        at = position % capacity
        if rows.position[at] != position or is_pending(rows, position):
            continue
        slot = own
        if slot < 0 and together and state.counters[OPEN] < clusters.born.size:
            own = new_cluster(state.counters, clusters)
            slot = own
        if slot < 0:
            slot = best_selection(state, settings, rows.quasi[at], position, work.gain)
        if slot < 0:
            slot = new_cluster(state.counters, clusters)
        insert_row(clusters, rows, tallies_of(state), at, slot)
        state.counters[PENDING] += 1
        if position < state.counters[OLDEST]:
            state.counters[OLDEST] = position


@entry_kernel
def adopt(state: State, settings: Settings, work: Work, lower: Floats, upper: Floats) -> None:
    """Admit a generalisation published by another site, as if it had been published here."""
    box = box_of(work)
    for column in range(lower.size):
        box.low[column] = lower[column]
        box.high[column] = largest_inside(state.domain, column, upper[column])
        box.published_low[column] = lower[column]
        box.published_high[column] = upper[column]
    remember(state, settings, box)


@kernel
def grow(state: State, work: Work, slot: Int, persons: Int, taken: NDArray[np.bool_]) -> float:
    """Mark a cluster and its nearest neighbours, in merge order, until they have `persons` persons; return the loss.

    The loss is 1 if there are too few persons. An estimate: persons in two clusters are counted twice, and only their
    number is checked.
    """
    clusters = clusters_of(state)
    box = box_of(work)
    found = clusters.persons[slot]
    for other in range(taken.size):
        taken[other] = other == slot
    for column in range(box.low.size):
        box.low[column] = clusters.lower[column, slot]
        box.high[column] = clusters.upper[column, slot]
    while found < persons:
        nearest = -1
        least = 2.0
        for other in range(taken.size):
            if clusters.born[other] >= 0 and not taken[other]:
                loss = union_loss(state.domain, box.low, box.high, clusters.lower[:, other], clusters.upper[:, other])
                if loss < least:
                    least = loss
                    nearest = other
        if nearest < 0:
            return 1.0
        taken[nearest] = True
        found += clusters.persons[nearest]
        for column in range(box.low.size):
            box.low[column] = min(box.low[column], clusters.lower[column, nearest])
            box.high[column] = max(box.high[column], clusters.upper[column, nearest])
    publish_box(state.domain, box.low, box.high, box.published_low, box.published_high)
    return box_loss(state.domain, box.published_low, box.published_high)


@kernel
def loss_from_here(state: State, settings: Settings, work: Work, slot: Int, taken: NDArray[np.bool_]) -> float:
    """Estimate the loss of a cluster's rows if they were released by this site alone.

    A cluster large enough to be split loses as much as groups lose on average.
    """
    loss = grow(state, work, slot, settings.k, taken)
    if clusters_of(state).persons[slot] >= 2 * settings.k:
        loss = min(loss, state.levels[0] + cell_loss(state.domain))
    return loss


@entry_kernel
def rows_inside(
    state: State, settings: Settings, work: Work, taken: NDArray[np.bool_], box: Bounds, most: float, positions: Ints
) -> Int:
    """Write the positions of pending rows in a published box whose estimated loss here is at least `most`.

    Returns their number. Overwrites the upper bounds with the largest values inside.
    """
    for column in range(box.shape[1]):
        box[1, column] = largest_inside(state.domain, column, box[1, column])
    rows = rows_of(state)
    clusters = clusters_of(state)
    count = 0
    for slot in range(clusters.born.size):
        if clusters.born[slot] < 0:
            continue
        apart = False
        for column in range(box.shape[1]):
            apart = apart or clusters.lower[column, slot] > box[1, column]
            apart = apart or clusters.upper[column, slot] < box[0, column]
        if apart or loss_from_here(state, settings, work, slot, taken) < most:
            continue
        at = clusters.first[slot]
        while at >= 0:
            inside = True
            for column in range(box.shape[1]):
                inside = inside and box[0, column] <= rows.quasi[at, column] <= box[1, column]
            if inside:
                positions[count] = rows.position[at]
                count += 1
            at = rows.next[at]
    return count


@entry_kernel
def home_loss(state: State, settings: Settings, work: Work, slot: Int, taken: NDArray[np.bool_]) -> float:
    """`loss_from_here` for Python callers."""
    return loss_from_here(state, settings, work, slot, taken)


@entry_kernel
def learn(state: State, loss: float) -> None:
    """Record the loss of a group with rows of this engine that another site published; the threshold omits a cell."""
    learn_loss(state, max(loss - cell_loss(state.domain), 0.0))


@entry_kernel
def usual_loss(state: State) -> float:
    """Approximate average loss of published groups."""
    return state.levels[0] + cell_loss(state.domain)


@entry_kernel
def union_losses(state: State, low: Floats, high: Floats, lower: Floats2, upper: Floats2, losses: Floats) -> None:
    """Loss of the union of a published box with each of several others."""
    for other in range(losses.size):
        losses[other] = union_loss(state.domain, low, high, lower[other], upper[other])


@entry_kernel
def around_published(state: State, lower: Floats, upper: Floats, published: Floats2) -> float:
    """Compute the published box around published bounds; return its loss."""
    for column in range(lower.size):
        published[1, column] = largest_inside(state.domain, column, upper[column])
    publish_box(state.domain, lower, published[1], published[0], published[1])
    return box_loss(state.domain, published[0], published[1])


@entry_kernel
def published_box(state: State, lower: Floats, upper: Floats, published: Floats2) -> float:
    """Compute the published box of range intervals; return its loss."""
    publish_box(state.domain, lower, upper, published[0], published[1])
    return box_loss(state.domain, published[0], published[1])
