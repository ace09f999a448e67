"""Suppression of rows that no cluster can publish: they are dropped, or published at the root, which reveals nothing.

The rows at the root are a group like any other, so the root also needs k persons and l values. In strict mode the
first row that needs the root takes the oldest pending rows along, only those that add a missing person or value; from
then on the root is open. With reuse off the root never opens: every release at the root must meet the criteria on its
own, and the accompanying rows are chosen without looking at values. If criteria on the distribution of sensitive values
are set, a row that would break them at the root is dropped.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Floats, Ints, Table
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_in
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


class RootGroup(NamedTuple):
    """Scratch space for choosing the rows of the root group."""

    person: Ints  # (rows,) number of its person
    seen_person: Ints  # (rows,) by that number: 1 if the person is in the group
    value: Ints  # (columns, rows) number of its value
    seen_value: Ints  # (columns, rows) by that number: 1 if the value is in the group
    values: Ints  # (columns,) distinct values in the group
    pairs: Table  # (person, value) pairs in the group
    alone: Floats  # (columns, values) pairs of the group
    joint: Floats  # (columns, values) the same, with the pairs published at the root before
    no_person: Marks  # 1 if a pair of NO_PERSON is among `alone`, among `joint`


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
def begin_root(state: State, settings: Settings, work: Work, slots: Ints) -> RootGroup:
    """Return an empty root group that rows of `slots` can enter."""
    rows = rows_of(state)
    columns = rows.sensitive.shape[1]
    total = slots.size
    marks = work.root_marks
    seen_person = numbers_of(work).share
    group = RootGroup(
        numbers_of(work).person,
        seen_person,
        marks[:columns],
        marks[columns : 2 * columns],
        marks[2 * columns, :columns],
        work.root_pairs,
        work.root_counts[0],
        work.root_counts[1],
        work.root_counts[2:],
    )
    keys = work.keys[0]
    for at in range(total):
        keys[at] = rows.person[slots[at]]
        seen_person[at] = 0
    number_keys(work.table, keys, total, group.person)
    for column in range(columns):
        group.values[column] = 0
        for at in range(total):
            keys[at] = np.uint64(rows.sensitive[slots[at], column])
            group.seen_value[column, at] = 0
        number_keys(work.table, keys, total, group.value[column])
    if settings.shape.on:
        for entry in range(group.pairs.shape[0]):
            group.pairs[entry, 1] = np.uint64(0)
        memory = state.weights[root_memory(state)]
        for column in range(columns):
            for value in range(memory.shape[1]):
                group.alone[column, value] = 0.0
                group.joint[column, value] = memory[column, value]
                group.no_person[0, column, value] = 0.0
                group.no_person[1, column, value] = 0.0
            find_no_person(state, root_memory(state), column, group.no_person[1, column, : size_of(state, column)])
    return group


@kernel
def tally_root(state: State, group: RootGroup, at: Int) -> None:
    """Count the pairs of one more row, alone and with the pairs kept for the root."""
    root = root_memory(state)
    alone, joint, no_person = group.alone, group.joint, group.no_person
    for column in range(alone.shape[0]):
        value = value_at(state, at, column)
        if count_in(group.pairs, column * alone.shape[1] + value, state.person[at]) == 1:
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


@kernel
def fill_root(state: State, settings: Settings, work: Work, slots: Ints, choice: Int, taken: Ints) -> Int:
    """Take the first row and later ones that `choice` allows until they meet the criteria; return how many.

    Returns 0 if they never do. A row of NO_PERSON adds neither a person nor a value.
    """
    rows = rows_of(state)
    columns = rows.sensitive.shape[1]
    group = begin_root(state, settings, work, slots)
    person, values = group.person, group.values
    persons = 0
    count = 0
    for at in range(slots.size):
        known = rows.person[slots[at]] != NO_PERSON
        wanted = choice == ALL or at == 0
        wanted = wanted or (known and persons < settings.k and group.seen_person[person[at]] == 0)
        for column in range(columns if choice == HELPFUL else 0):
            missed = known and values[column] < settings.l
            wanted = wanted or (missed and group.seen_value[column, group.value[column, at]] == 0)
        if not wanted:
            continue
        taken[count] = slots[at]
        count += 1
        if known and group.seen_person[person[at]] == 0:
            group.seen_person[person[at]] = 1
            persons += 1
        if settings.shape.on:
            tally_root(state, group, slots[at])
        enough: Bool = persons >= settings.k
        for column in range(columns):
            if known and group.seen_value[column, group.value[column, at]] == 0:
                group.seen_value[column, group.value[column, at]] = 1
                values[column] += 1
            enough = enough and values[column] >= settings.l
        if enough and settings.l > 1 and settings.per_person:
            enough = persons_match_values(work, rows, taken[:count], settings.l)
        if enough and settings.shape.on:
            enough = counts_suffice(state, settings, work, group.alone, group.no_person[0])
            enough = enough and counts_suffice(state, settings, work, group.joint, group.no_person[1])
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
