"""delay_constraint and output_cluster (CASTLE, section 4.1): how an expiring row, and its cluster with it, leaves."""

import numpy as np

from castleguard.kernels.chacha import begin_event
from castleguard.kernels.clusters import empty_cluster, remove_row
from castleguard.kernels.compile import kernel
from castleguard.kernels.diversity import split_diverse
from castleguard.kernels.grouping import fewest_per_part, number_keys, sort_by_part
from castleguard.kernels.loss import box_loss, publish_box, stretch
from castleguard.kernels.matching import persons_stand_apart
from castleguard.kernels.merge import can_be_ready, is_ready, list_members, merge_clusters
from castleguard.kernels.publish import add_group, add_row, order_rows
from castleguard.kernels.reuse import remember, try_reuse
from castleguard.kernels.split import split
from castleguard.kernels.state import EPS, LOSSES, NEW, OPEN, Output, Rows, Settings, State, Work
from castleguard.kernels.suppress import suppress


@kernel
def parts_are_ready(rows: Rows, settings: Settings, work: Work, count: int, parts: int) -> bool:
    """Whether every sub-cluster has k persons and l values of every sensitive column."""
    cluster = work.cluster
    number_keys(work.sieve, cluster.person, count, work.person_number)
    if fewest_per_part(work.table, cluster.part, work.person_number, count, parts, work.count) < settings.k:
        return False
    for column in range(rows.sensitive.shape[1]):
        for at in range(count):
            cluster.value[at] = np.uint64(rows.sensitive[cluster.slot[at], column])
        number_keys(work.sieve, cluster.value, count, work.value_number)
        if fewest_per_part(work.table, cluster.part, work.value_number, count, parts, work.count) < settings.l:
            return False
    if settings.per_person:
        sort_by_part(cluster.part, count, parts, cluster.start, cluster.sorted)
        for number in range(parts):
            size = cluster.start[number + 1] - cluster.start[number]
            for at in range(size):
                work.chosen[at] = cluster.slot[cluster.sorted[cluster.start[number] + at]]
            if not persons_stand_apart(work.sieve, rows, work.chosen[:size], settings.l):
                return False
    return True


@kernel
def lay_out(rows: Rows, work: Work, count: int) -> None:
    """Gather the listed members for splitting."""
    cluster = work.cluster
    for row in range(count):
        at = cluster.slot[row]
        for column in range(rows.quasi.shape[1]):
            cluster.point[row, column] = rows.quasi[at, column]
        cluster.person[row] = rows.person[at]
        cluster.part[row] = -1


@kernel
def split_by_value(state: State, settings: Settings, work: Work, slot: int, event: int, count: int) -> int:
    """split^l on the sensitive column with the fewest values; 0 where a part would miss k or l in any column."""
    rows = state.rows
    column = 0
    for other in range(1, rows.sensitive.shape[1]):
        if state.clusters.values[other, slot] < state.clusters.values[column, slot]:
            column = other
    for row in range(count):
        work.cluster.value[row] = np.uint64(rows.sensitive[work.cluster.slot[row], column])
    goal = (settings.k, settings.l, settings.random_buckets)
    parts = split_diverse(state.domain, state.draws, work, event, goal, count)
    return parts if parts > 0 and parts_are_ready(rows, settings, work, count, parts) else 0


@kernel
def split_cluster(state: State, settings: Settings, work: Work, slot: int, event: int, count: int) -> int:
    """Number the sub-cluster of every listed member; 1 where the cluster stays whole."""
    parts = 0
    if state.clusters.persons[slot] >= 2 * settings.k:
        lay_out(state.rows, work, count)
        if settings.l > 1 and state.rows.sensitive.shape[1] > 0:
            parts = split_by_value(state, settings, work, slot, event, count)
        else:
            # Each sub-cluster takes k buckets, so k persons, by construction: only split^l needs a second look.
            parts = split(state.domain, state.draws, work, event, settings.k, count)
    if parts == 0:
        for row in range(count):
            work.cluster.part[row] = 0
        parts = 1
    return parts


@kernel
def learn_loss(state: State, loss: float) -> None:
    """Append a published loss to the window; the threshold is the window's mean."""
    window = state.losses.size
    state.losses[state.counters[LOSSES] % window] = loss
    state.counters[LOSSES] += 1
    count = min(state.counters[LOSSES], window)
    oldest = state.counters[LOSSES] - count
    total = 0.0
    for number in range(oldest, oldest + count):
        total += state.losses[number % window]
    state.threshold[0] = total / count


@kernel
def release_part(
    state: State, settings: Settings, work: Work, output: Output, number: int, event: int
) -> None:
    """Publish one sub-cluster, adapt the threshold, and keep its generalisation if it loses little."""
    rows = state.rows
    cluster = work.cluster
    members = cluster.sorted[cluster.start[number] : cluster.start[number + 1]]
    for column in range(work.low.size):
        work.low[column] = rows.quasi[cluster.slot[members[0]], column]
        work.high[column] = work.low[column]
    for at in range(1, members.size):
        stretch(work.low, work.high, rows.quasi[cluster.slot[members[at]]])
    publish_box(state.domain, work.low, work.high, work.box_low, work.box_high)
    loss = box_loss(state.domain, work.box_low, work.box_high)
    group = add_group(output, NEW, work.box_low, work.box_high, loss, event)
    for at in range(members.size):
        add_row(state.counters, output, rows.position[cluster.slot[members[at]]], group)
    learn_loss(state, loss)
    admitted = loss <= state.threshold[0] + EPS if settings.admit_equal else loss < state.threshold[0] - EPS
    if settings.reuse and admitted:
        remember(state, settings, work, loss)
        output.kept[group] = True


@kernel
def output_cluster(state: State, settings: Settings, work: Work, output: Output, slot: int, event: int) -> None:
    """Publish all rows of a cluster, split where it can be."""
    cluster = work.cluster
    count = list_members(state, work, slot)
    parts = split_cluster(state, settings, work, slot, event, count)
    sort_by_part(cluster.part, count, parts, cluster.start, cluster.sorted)
    for number in range(parts):
        release_part(state, settings, work, output, number, event)
    empty_cluster(state, slot)


@kernel
def is_outlier(state: State, slot: int) -> bool:
    """Whether most open clusters have more persons."""
    larger = 0
    for other in range(state.clusters.born.size):
        if state.clusters.born[other] >= 0 and state.clusters.persons[other] > state.clusters.persons[slot]:
            larger += 1
    return 2 * larger > state.counters[OPEN]


@kernel
def delay_constraint(state: State, settings: Settings, work: Work, output: Output, at: int, event: int) -> None:
    """Let the expiring row leave, one way or another."""
    slot = np.int64(state.rows.cluster[at])
    if slot < 0:
        suppress(state, settings, work, output, at, event)
    elif is_ready(state, settings, work, slot):
        output_cluster(state, settings, work, output, slot, event)
    elif try_reuse(state, settings, work, output, at, event):
        remove_row(state, at)
    elif is_outlier(state, slot) or not can_be_ready(state, settings, work):
        suppress(state, settings, work, output, at, event)
    else:
        merge_clusters(state, settings, work, slot, event)
        output_cluster(state, settings, work, output, slot, event)


@kernel
def expire(state: State, settings: Settings, work: Work, output: Output, at: int) -> None:
    """One event: the row at ring slot `at` has to leave now."""
    event = state.rows.position[at]
    start = output.used[0]
    begin_event(state.draws)
    delay_constraint(state, settings, work, output, at, event)
    order_rows(state.draws, output, start, event, settings.order)
