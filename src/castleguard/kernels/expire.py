"""delay_constraint and output_cluster (CASTLE, section 4.1): release an expiring row, usually with its cluster."""

import numpy as np

from castleguard.kernels.chacha import begin_event
from castleguard.kernels.compile import Bool, Int, inlined_kernel, kernel
from castleguard.kernels.grouping import fewest_per_part, number_keys, sort_by_part
from castleguard.kernels.loss import box_loss, publish_box, stretch
from castleguard.kernels.merge import (
    can_be_ready,
    is_ready,
    list_members,
    meet_criteria,
    merge_clusters,
    only_counts_matter,
)
from castleguard.kernels.open_clusters import empty_cluster, remove_row
from castleguard.kernels.publish import add_group, add_row, order_rows
from castleguard.kernels.published_pairs import add_pairs, make_room, memory_of_box
from castleguard.kernels.reuse import remember, try_reuse
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.split import add_leftover, split, start_part
from castleguard.kernels.split_diverse import split_diverse
from castleguard.kernels.state import EPS, GONE, LOSSES, NEW, OPEN, Output, Settings, State, Work
from castleguard.kernels.suppress import suppress
from castleguard.kernels.views import Rows, box_of, cluster_of, clusters_of, draws_of, numbers_of, parts_of, rows_of


@kernel
def parts_are_ready(state: State, settings: Settings, work: Work, known: Int, count: Int, parts: Int) -> Bool:
    """Whether every sub-cluster meets the criteria; only the first `known` rows have a person."""
    rows = rows_of(state)
    cluster = cluster_of(work)
    numbers = numbers_of(work)
    number_keys(work.table, cluster.person, known, numbers.person)
    if fewest_per_part(work.table, cluster.part, numbers.person, known, parts, numbers.tally) < settings.k:
        return False
    for column in range(rows.sensitive.shape[1]):
        for at in range(known):
            cluster.value[at] = np.uint64(rows.sensitive[cluster.slot[at], column])
        number_keys(work.table, cluster.value, known, numbers.value)
        if fewest_per_part(work.table, cluster.part, numbers.value, known, parts, numbers.tally) < settings.l:
            return False
    if not only_counts_matter(settings):
        sort_by_part(cluster.part, count, parts, cluster.start, cluster.sorted)
        for number in range(parts):
            size = cluster.start[number + 1] - cluster.start[number]
            for at in range(size):
                numbers.chosen[at] = cluster.slot[cluster.sorted[cluster.start[number] + at]]
            if not meet_criteria(state, settings, work, numbers.chosen[:size]):
                return False
    return True


@kernel
def box_parts(state: State, work: Work, count: Int, parts: Int) -> None:
    """Compute the published box of every sub-cluster."""
    cluster = cluster_of(work)
    boxes = parts_of(work)
    sort_by_part(cluster.part, count, parts, cluster.start, cluster.sorted)
    for number in range(parts):
        lower = boxes.lower[number]
        upper = boxes.upper[number]
        start_part(boxes, number, cluster.point[cluster.sorted[cluster.start[number]]])
        for at in range(cluster.start[number], cluster.start[number + 1]):
            stretch(lower, upper, cluster.point[cluster.sorted[at]])
        publish_box(state.domain, lower, upper, lower, upper)


@kernel
def unite_equal_parts(state: State, work: Work, count: Int, parts: Int) -> Int:
    """Merge sub-clusters that would be published as the same box; return the number left.

    To a reader they are one group.
    """
    box_parts(state, work, count, parts)
    boxes = parts_of(work)
    part = cluster_of(work).part
    merged_into = numbers_of(work).tally
    left = 0
    for number in range(parts):
        merged_into[number] = left
        for other in range(number):
            same = True
            for column in range(boxes.lower.shape[1]):
                same = same and boxes.lower[number, column] == boxes.lower[other, column]
                same = same and boxes.upper[number, column] == boxes.upper[other, column]
            if same:
                merged_into[number] = merged_into[other]
                break
        left += merged_into[number] == left
    for row in range(count):
        part[row] = merged_into[part[row]]
    return left


@kernel
def put_nobody_last(rows: Rows, work: Work, count: Int) -> Int:
    """List members with a person first, then the others, each in order of arrival; return how many have a person."""
    slots = cluster_of(work).slot
    no_person = numbers_of(work).chosen
    known = 0
    for row in range(count):
        at = slots[row]
        if rows.person[at] == NO_PERSON:
            no_person[row - known] = at
        else:
            slots[known] = at
            known += 1
    for row in range(known, count):
        slots[row] = no_person[row - known]
    return known


@kernel
def list_by_arrival(rows: Rows, work: Work, known: Int, count: Int) -> None:
    """List members by arrival again, with their sub-clusters, after `put_nobody_last`."""
    cluster = cluster_of(work)
    numbers = numbers_of(work)
    one = 0
    other = known
    for row in range(count):
        slot = cluster.slot
        first = other == count
        if not first and one < known:
            first = rows.position[slot[one]] < rows.position[slot[other]]
        at = one if first else other
        numbers.chosen[row] = slot[at]
        numbers.share[row] = cluster.part[at]
        one += first
        other += not first
    for row in range(count):
        cluster.slot[row] = numbers.chosen[row]
        cluster.part[row] = numbers.share[row]


@kernel
def lay_out(rows: Rows, work: Work, count: Int) -> None:
    """Gather the listed members for splitting."""
    cluster = cluster_of(work)
    for row in range(count):
        at = cluster.slot[row]
        for column in range(rows.quasi.shape[1]):
            cluster.point[row, column] = rows.quasi[at, column]
        cluster.person[row] = rows.person[at]
        cluster.part[row] = -1


@kernel
def add_nobody(state: State, work: Work, known: Int, count: Int, parts: Int) -> None:
    """Add each row without a person to the sub-cluster that it enlarges least."""
    if parts == 0 or known == count:
        return
    cluster = cluster_of(work)
    boxes = parts_of(work)
    for row in range(known):
        stretch(boxes.lower[cluster.part[row]], boxes.upper[cluster.part[row]], cluster.point[row])
    for number in range(parts):
        boxes.loss[number] = box_loss(state.domain, boxes.lower[number], boxes.upper[number])
    for row in range(known, count):
        cluster.part[row] = add_leftover(state.domain, boxes, parts, cluster.point[row])


@inlined_kernel
def split_by_value(state: State, settings: Settings, work: Work, slot: Int, event: Int, sizes: tuple[Int, Int]) -> Int:
    """split^l on the sensitive column with the fewest values; 0 if a part would miss k or l in any column.

    sizes = (rows with a person, all rows).
    """
    known, count = sizes
    rows = rows_of(state)
    values = clusters_of(state).values
    cluster = cluster_of(work)
    column = 0
    for other in range(1, rows.sensitive.shape[1]):
        if values[other, slot] < values[column, slot]:
            column = other
    for row in range(known):
        cluster.value[row] = np.uint64(rows.sensitive[cluster.slot[row], column])
    goal = (settings.k, settings.l, settings.random_buckets)
    parts = split_diverse(state.domain, draws_of(state), work, event, goal, known)
    add_nobody(state, work, known, count, parts)
    if parts > 0 and settings.shape.on:
        parts = unite_equal_parts(state, work, count, parts)
    return parts if parts > 0 and parts_are_ready(state, settings, work, known, count, parts) else 0


@inlined_kernel
def split_cluster(state: State, settings: Settings, work: Work, slot: Int, event: Int, count: Int) -> Int:
    """Assign a sub-cluster number to every listed member; return their count, 1 = not split."""
    parts: Int = 0
    known = count
    if clusters_of(state).persons[slot] >= 2 * settings.k:
        known = put_nobody_last(rows_of(state), work, count)
        lay_out(rows_of(state), work, count)
        # split^l takes rows of every value in proportion, so parts have the distribution of the whole cluster.
        if (settings.l > 1 or settings.shape.on) and state.sensitive.shape[1] > 0:
            parts = split_by_value(state, settings, work, slot, event, (known, count))
        else:
            # Each sub-cluster takes k buckets, hence k persons, by construction: only split^l needs a check.
            parts = split(state.domain, draws_of(state), work, event, settings.k, known)
            add_nobody(state, work, known, count, parts)
    if parts == 0:
        part = cluster_of(work).part
        for row in range(count):
            part[row] = 0
        parts = 1
    if known < count:
        list_by_arrival(rows_of(state), work, known, count)
    return parts


@kernel
def learn_loss(state: State, loss: float) -> None:
    """Append the loss of a published part to the window; the threshold merged_into the window's mean."""
    losses = state.levels[1:]
    window = losses.size
    losses[state.counters[LOSSES] % window] = loss
    state.counters[LOSSES] += 1
    count = min(state.counters[LOSSES], window)
    oldest = state.counters[LOSSES] - count
    total = 0.0
    for number in range(oldest, oldest + count):
        total += losses[number % window]
    state.levels[0] = total / count


@kernel
def release_part(state: State, settings: Settings, work: Work, output: Output, number: Int, event: Int) -> None:
    """Publish one sub-cluster, update the threshold, and keep its generalisation if its loss is small."""
    rows = rows_of(state)
    cluster = cluster_of(work)
    box = box_of(work)
    members = cluster.sorted[cluster.start[number] : cluster.start[number + 1]]
    for column in range(box.low.size):
        box.low[column] = rows.quasi[cluster.slot[members[0]], column]
        box.high[column] = box.low[column]
    for at in range(1, members.size):
        stretch(box.low, box.high, rows.quasi[cluster.slot[members[at]]])
    publish_box(state.domain, box.low, box.high, box.published_low, box.published_high)
    loss = box_loss(state.domain, box.published_low, box.published_high)
    group = add_group(state.counters, output, NEW, box, loss, event)
    for at in range(members.size):
        add_row(state.counters, output, rows.position[cluster.slot[members[at]]], group)
    # The threshold is for open clusters, whose numbers range from the first cell to the start of the last one.
    own = box_loss(state.domain, box.low, box.high)
    learn_loss(state, own)
    admitted = own <= state.levels[0] + EPS if settings.admit_equal else own < state.levels[0] - EPS
    kept = settings.reuse and admitted
    if settings.shape.on and (kept or memory_of_box(state, box) >= 0):
        make_room(state, settings, members.size)
    if kept:
        remember(state, settings, box)
        output.marks[1, group] = 1
    if settings.shape.on:
        memory = memory_of_box(state, box)
        for at in range(members.size if memory >= 0 else 0):
            add_pairs(state, memory, cluster.slot[members[at]])


@kernel
def output_cluster(state: State, settings: Settings, work: Work, output: Output, slot: Int, event: Int) -> None:
    """Publish all rows of a cluster, split if possible."""
    cluster = cluster_of(work)
    count = list_members(state, work, slot)
    parts = split_cluster(state, settings, work, slot, event, count)
    sort_by_part(cluster.part, count, parts, cluster.start, cluster.sorted)
    for number in range(parts):
        release_part(state, settings, work, output, number, event)
    empty_cluster(state, slot)


@kernel
def is_outlier(state: State, slot: Int) -> Bool:
    """Whether most open clusters have more persons."""
    clusters = clusters_of(state)
    larger = 0
    for other in range(clusters.born.size):
        if clusters.born[other] >= 0 and clusters.persons[other] > clusters.persons[slot]:
            larger += 1
    return 2 * larger > state.counters[OPEN]


@inlined_kernel
def delay_constraint(state: State, settings: Settings, work: Work, output: Output, at: Int, event: Int) -> None:
    """Release the expiring row: reused box, merged or split cluster, or suppression."""
    slot = rows_of(state).cluster[at]
    if slot >= 0 and not is_ready(state, settings, work, slot):
        if try_reuse(state, settings, work, output, at, event):
            remove_row(state, at)
            return
        if is_outlier(state, slot) or not can_be_ready(state, settings, work):
            slot = GONE
        else:
            merge_clusters(state, settings, work, slot, event)
    if slot < 0:
        suppress(state, settings, work, output, at, event)
    else:
        output_cluster(state, settings, work, output, slot, event)


@inlined_kernel
def expire(state: State, settings: Settings, work: Work, output: Output, at: Int) -> None:
    """Handle one expiry event: the row in ring slot `at` must leave now."""
    event = rows_of(state).position[at]
    start = output.used[0]
    begin_event(draws_of(state))
    delay_constraint(state, settings, work, output, at, event)
    order_rows(state, output, start, event, settings.order)
