"""Rows that no cluster can publish: dropped, or published at the root, where nothing is said about them.

The rows at the root are a group like any other, so the root needs its k persons and l values too. In strict mode the
first row that needs it takes the oldest pending rows along, just those that add a person or a value still missing;
from then on the root stands open.
"""

import numpy as np

from castleguard.kernels.clusters import remove_row
from castleguard.kernels.compile import Bool, Int, allocating_kernel, kernel
from castleguard.kernels.counts import Table
from castleguard.kernels.grouping import number_keys
from castleguard.kernels.matching import persons_stand_apart
from castleguard.kernels.publish import add_drop, add_root, add_row
from castleguard.kernels.state import (
    ARRIVALS,
    DROP,
    GENERALISE,
    GONE,
    OLDEST,
    ROOT_OPEN,
    WAITING,
    Ints,
    Output,
    Settings,
    State,
    Work,
)
from castleguard.kernels.views import Rows, box_of, cluster_of, clusters_of, numbers_of, rows_of


@kernel
def is_pending(rows: Rows, position: Int) -> Bool:
    """Whether the row with this position has not left yet."""
    at = position % rows.position.size
    return rows.position[at] == position and rows.cluster[at] != GONE


@kernel
def list_pending(state: State, work: Work, first: Int) -> Int:
    """Write the ring slots of all pending rows to the cluster in hand, `first` before the others; how many."""
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


@allocating_kernel
def fill_root(table: Table, rows: Rows, settings: Settings, slots: Ints, everything: bool, taken: Ints) -> Int:
    """Take rows in order until they have k persons and l values; how many, 0 if all of them do not suffice.

    Only rows that add a person or a value still missing are taken, or `everything`.
    """
    columns = rows.sensitive.shape[1]
    total = slots.size
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
        wanted = everything or (persons < settings.k and not seen_person[person[at]])
        for column in range(columns):
            wanted = wanted or (values[column] < settings.l and not seen_value[column, value[column, at]])
        if not wanted:
            continue
        taken[count] = slots[at]
        count += 1
        if not seen_person[person[at]]:
            seen_person[person[at]] = True
            persons += 1
        enough: Bool = persons >= settings.k
        for column in range(columns):
            if not seen_value[column, value[column, at]]:
                seen_value[column, value[column, at]] = True
                values[column] += 1
            enough = enough and values[column] >= settings.l
        if enough and settings.l > 1 and settings.per_person:
            enough = persons_stand_apart(table, rows, taken[:count], settings.l)
        if enough:
            return count
    return 0


@kernel
def root_is_out_of_reach(state: State, settings: Settings) -> Bool:
    """Whether the pending rows surely cannot fill the root: a cheap look before they are walked."""
    clusters = clusters_of(state)
    everywhere = clusters.born.size
    waiting = state.counters[WAITING]
    short = clusters.persons[everywhere] + waiting < settings.k
    for column in range(clusters.values.shape[0]):
        short = short or clusters.values[column, everywhere] + waiting < settings.l
    return short


@kernel
def open_root(state: State, settings: Settings, work: Work, output: Output, first: Int, event: Int) -> Bool:
    """Publish the first rows at the root: `first` and the rows that it takes along; False if there are too few."""
    if root_is_out_of_reach(state, settings):
        return False
    rows = rows_of(state)
    slots = cluster_of(work).slot[: list_pending(state, work, first)]
    taken = numbers_of(work).chosen
    count = fill_root(work.table, rows, settings, slots, False, taken)
    if count == 0 and settings.per_person:
        count = fill_root(work.table, rows, settings, slots, True, taken)
    if count == 0:
        return False
    group = add_root(state.domain, box_of(work), output, event)
    for at in range(count):
        add_row(state.counters, output, rows.position[taken[at]], group)
        remove_row(state, taken[at])
    state.counters[ROOT_OPEN] = 1
    return True


@kernel
def suppress(state: State, settings: Settings, work: Work, output: Output, at: Int, event: Int) -> None:
    """Let one row go without a cluster."""
    position = rows_of(state).position[at]
    if settings.suppression == GENERALISE or (settings.suppression != DROP and state.counters[ROOT_OPEN] == 1):
        add_row(state.counters, output, position, add_root(state.domain, box_of(work), output, event))
        remove_row(state, at)
    elif settings.suppression == DROP or not open_root(state, settings, work, output, at, event):
        add_drop(output, position)
        remove_row(state, at)
