"""Suppression of rows that no cluster can publish: they are dropped, or published at the root, which reveals nothing.

The rows at the root are a group like any other, so the root also needs k persons and l values. In strict mode the
first row that needs the root takes the oldest pending rows along, only those that add a missing person or value; from
then on the root is open. With reuse off the root never opens: every release at the root must meet the criteria on its
own, and the accompanying rows are chosen without looking at values. If criteria on the distribution of sensitive values
are set, a row that would break them at the root is dropped.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.compile import Bool, Int, allocating_kernel, kernel
from castleguard.kernels.counts import Table, count_in
from castleguard.kernels.grouping import number_keys
from castleguard.kernels.open_clusters import remove_row
from castleguard.kernels.person_matching import persons_match_values
from castleguard.kernels.publish import add_drop, add_root, add_row
from castleguard.kernels.published_pairs import add_pairs, can_join, find_no_person, is_known, make_room, root_memory
from castleguard.kernels.reference import value_at
from castleguard.kernels.ring import is_pending
from castleguard.kernels.shape import is_burnt_in, lack_of_counts
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import (
    ARRIVALS,
    DROP,
    GENERALISE,
    OLDEST,
    ROOT_OPEN,
    WAITING,
    Floats,
    Ints,
    Output,
    Settings,
    State,
    Work,
)
from castleguard.kernels.views import box_of, cluster_of, clusters_of, numbers_of, rows_of, size_of

# Which pending rows may be taken along to the root.
HELPFUL = 0  # rows that add a missing person or value
PERSONS = 1  # rows that add a missing person, regardless of their values
ALL = 2

Marks = NDArray[np.float64]  # (2, columns, values)


@kernel
def list_pending(state: State, work: Work, first: Int) -> Int:
    """Write the ring slots of all pending rows to the current cluster, starting with `first`; return their number."""
    rows = rows_of(state)
    capacity = rows.position.size
    slots = cluster_of(work).slot
    slots[0] = first
    count = 1
    for position in range(max(state.counters[OLDEST], state.counters[ARRIVALS] - capacity), state.counters[ARRIVALS]):
        at = position % capacity
        if at != first and is_pending(rows, position):
            slots[count] = at
            count += 1
    return count


@kernel
def tally_root(state: State, pairs: Table, at: Int, alone: Floats, joint: Floats, no_person: Marks) -> None:
    """Count one more row, alone and with the pairs kept for the root. `pairs` has the pairs counted so far."""
    root = root_memory(state)
    for column in range(alone.shape[0]):
        value = value_at(state, at, column)
        if count_in(pairs, column * alone.shape[1] + value, state.person[at]) == 1:
            alone[column, value] += 1.0
            if state.person[at] == NO_PERSON:
                no_person[0, column, value] = 1.0
                no_person[1, column, value] = 1.0
            if not is_known(state, root, column, at):
                joint[column, value] += 1.0


@kernel
def counts_suffice(state: State, settings: Settings, work: Work, counts: Floats, no_person: Floats) -> Bool:
    """Whether the counts of all columns meet the criteria."""
    for column in range(counts.shape[0]):
        values = counts[column, : size_of(state, column)]
        if lack_of_counts(state, settings, work, column, values, no_person[column, : values.size]) > 0.0:
            return False
    return True


@allocating_kernel
def fill_root(state: State, settings: Settings, work: Work, slots: Ints, choice: Int, taken: Ints) -> Int:
    """Take the first row and later ones that `choice` allows until they meet the criteria; return how many.

    Returns 0 if they never do. A row of NO_PERSON adds neither a person nor a value.
    """
    rows = rows_of(state)
    table = work.table
    columns = rows.sensitive.shape[1]
    total = slots.size
    counting = total * columns if settings.shape.on else 0
    room = 16
    while room < 2 * counting:
        room *= 2
    pairs = np.zeros((room, 2), dtype=np.uint64)
    alone = np.zeros((columns, state.weights.shape[2]))
    joint = state.weights[root_memory(state)].copy()
    no_person = np.zeros((2, columns, alone.shape[1]))
    for column in range(columns if settings.shape.on else 0):
        find_no_person(state, root_memory(state), column, no_person[1, column, : size_of(state, column)])
    keys = np.empty(total, dtype=np.uint64)
    person = np.empty(total, dtype=np.int64)
    value = np.empty((columns, total), dtype=np.int64)
    for at in range(total):
        keys[at] = rows.person[slots[at]]
    number_keys(table, keys, total, person)
    for column in range(columns):
        for at in range(total):
            keys[at] = np.uint64(rows.sensitive[slots[at], column])
        number_keys(table, keys, total, value[column])
    seen_person = np.zeros(total, dtype=np.bool_)
    seen_value = np.zeros((columns, total), dtype=np.bool_)
    persons = 0
    values = np.zeros(columns, dtype=np.int64)
    count = 0
    for at in range(total):
        known = rows.person[slots[at]] != NO_PERSON
        wanted = choice == ALL or at == 0 or (known and persons < settings.k and not seen_person[person[at]])
        for column in range(columns if choice == HELPFUL else 0):
            missed = known and values[column] < settings.l
            wanted = wanted or (missed and not seen_value[column, value[column, at]])
        if not wanted:
            continue
        taken[count] = slots[at]
        count += 1
        if known and not seen_person[person[at]]:
            seen_person[person[at]] = True
            persons += 1
        if settings.shape.on:
            tally_root(state, pairs, slots[at], alone, joint, no_person)
        enough: Bool = persons >= settings.k
        for column in range(columns):
            if known and not seen_value[column, value[column, at]]:
                seen_value[column, value[column, at]] = True
                values[column] += 1
            enough = enough and values[column] >= settings.l
        if enough and settings.l > 1 and settings.per_person:
            enough = persons_match_values(table, rows, taken[:count], settings.l)
        if enough and settings.shape.on:
            enough = counts_suffice(state, settings, work, alone, no_person[0])
            enough = enough and counts_suffice(state, settings, work, joint, no_person[1])
        if enough:
            return count
    return 0


@kernel
def root_is_out_of_reach(state: State, settings: Settings) -> Bool:
    """Whether the pending rows certainly cannot fill the root: a cheap check before they are visited."""
    clusters = clusters_of(state)
    everywhere = clusters.born.size
    waiting = state.counters[WAITING]
    short = clusters.persons[everywhere] + waiting < settings.k
    for column in range(clusters.values.shape[0]):
        short = short or clusters.values[column, everywhere] + waiting < settings.l
    return short


@kernel
def open_root(state: State, settings: Settings, work: Work, output: Output, first: Int, event: Int) -> Bool:
    """Publish `first` and the rows that it takes along at the root; return False if they cannot meet the criteria."""
    if root_is_out_of_reach(state, settings) or not is_burnt_in(state, settings):
        return False
    rows = rows_of(state)
    slots = cluster_of(work).slot[: list_pending(state, work, first)]
    taken = numbers_of(work).chosen
    count = fill_root(state, settings, work, slots, HELPFUL if settings.reuse else PERSONS, taken)
    if count == 0 and (settings.per_person or settings.shape.on or not settings.reuse):
        count = fill_root(state, settings, work, slots, ALL, taken)
    if count == 0:
        return False
    if settings.shape.on:
        make_room(state, settings, count)
    group = add_root(state.counters, state.domain, box_of(work), output, event)
    for at in range(count):
        add_row(state.counters, output, rows.position[taken[at]], group)
        if settings.shape.on:
            add_pairs(state, root_memory(state), taken[at])
        remove_row(state, taken[at])
    state.counters[ROOT_OPEN] = 1
    return True


@kernel
def join_root(state: State, settings: Settings, work: Work, output: Output, at: Int, event: Int) -> Bool:
    """Publish one more row at the open root; return False if that would violate the criteria."""
    root = root_memory(state)
    if settings.shape.on and not can_join(state, settings, work, root, at):
        return False
    position = rows_of(state).position[at]
    add_row(state.counters, output, position, add_root(state.counters, state.domain, box_of(work), output, event))
    if settings.shape.on:
        make_room(state, settings, 1)
        add_pairs(state, root, at)
    remove_row(state, at)
    return True


@kernel
def suppress(state: State, settings: Settings, work: Work, output: Output, at: Int, event: Int) -> None:
    """Release one row without a cluster: at the root, or dropped."""
    position = rows_of(state).position[at]
    gone: Bool = False
    if settings.suppression == GENERALISE:
        # As printed in the paper: the root's criteria are not checked, and no pairs are kept for it.
        add_row(state.counters, output, position, add_root(state.counters, state.domain, box_of(work), output, event))
        remove_row(state, at)
        gone = True
    elif settings.suppression != DROP:
        if settings.reuse and state.counters[ROOT_OPEN] == 1:
            gone = join_root(state, settings, work, output, at, event)
        else:
            gone = open_root(state, settings, work, output, at, event)
    if not gone:
        add_drop(output, position, state.counters[ARRIVALS])
        remove_row(state, at)
