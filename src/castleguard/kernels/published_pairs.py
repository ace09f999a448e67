"""(person, value) pairs already published in a box, kept for as long as the box may be reused.

To a reader, all rows with the same box are one group, regardless of when they were released. Criteria on the
distribution of values must therefore hold over all of them: distinct counts only grow, but one more row can skew a
distribution. Pairs are kept for the reusable boxes and for the root. The table of pairs is bounded: when it is half
full, all pairs and boxes are forgotten and the root closes. That costs information, never privacy.
"""

import numpy as np

from castleguard.kernels.arrays import Floats, Ints
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_in, count_of
from castleguard.kernels.loss import is_root, publish_box, stretch
from castleguard.kernels.reference import value_at
from castleguard.kernels.shape import is_burnt_in, lack_of_counts
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import BOXES, PAIRS, REUSABLE, ROOT_OPEN, Settings, State, Work
from castleguard.kernels.views import Box, box_of, memory_of, reusables_of, size_of, tally_of

_OWNERS = 1 << 32  # number of owners that the upper half of a table entry can distinguish
_VALUES = 1 + 4096  # maximum number of values of a column, including the one for missing


@kernel
def root_memory(state: State) -> Int:
    """Index of the root's pairs, after those of all other boxes."""
    return state.kept_bounds.shape[2]


@kernel
def is_box(state: State, entry: Int, box: Box) -> Bool:
    """Whether a reusable generalisation is published as this box."""
    reusables = reusables_of(state)
    for column in range(box.low.size):
        if reusables.box_lower[column, entry] != box.published_low[column]:
            return False
        if reusables.box_upper[column, entry] != box.published_high[column]:
            return False
    return True


@kernel
def memory_of_box(state: State, box: Box) -> Int:
    """Index of the pairs of a published box, -1 if none are kept."""
    reusables = reusables_of(state)
    if is_root(state.domain, box.published_low, box.published_high):
        return root_memory(state)
    for entry in range(state.counters[REUSABLE]):
        if is_box(state, entry, box):
            return reusables.memory[entry]
    return -1


@kernel
def owner_of(state: State, memory: Int, column: Int, value: Int) -> Int:
    """Owner number in the table for a value of a column in a box."""
    return (memory_of(state).owner[memory] * state.weights.shape[1] + column) * _VALUES + value


@kernel
def is_known(state: State, memory: Int, column: Int, at: Int) -> Bool:
    """Whether the row's person was already published with the row's value in this box."""
    owner = owner_of(state, memory, column, value_at(state, at, column))
    return count_of(state.pair_table, owner, state.person[at]) > 0


@kernel
def find_no_person(state: State, memory: Int, column: Int, no_person: Floats) -> None:
    """Mark the values already published with NO_PERSON in this box."""
    for value in range(no_person.size):
        no_person[value] = (
            1.0 if count_of(state.pair_table, owner_of(state, memory, column, value), NO_PERSON) > 0 else 0.0
        )


@kernel
def forget_pairs(state: State) -> None:
    """Forget every box and close the root, which must collect its k persons again."""
    state.counters[REUSABLE] = 0
    state.counters[ROOT_OPEN] = 0
    state.counters[PAIRS] = 0
    state.counters[BOXES] = 0
    for place in range(state.pair_table.shape[0]):
        state.pair_table[place, 1] = np.uint64(0)
    root = state.weights[root_memory(state)]
    for column in range(root.shape[0]):
        for value in range(root.shape[1]):
            root[column, value] = 0.0


@kernel
def make_room(state: State, settings: Settings, rows: Int) -> None:
    """Forget everything if the pairs of `rows` rows, or one more box, might not fit."""
    columns = state.weights.shape[1]
    crowded = state.counters[PAIRS] + rows * columns > settings.shape.room
    if crowded or (state.counters[BOXES] + 2) * columns * _VALUES > _OWNERS:
        forget_pairs(state)


@kernel
def begin_memory(state: State, entry: Int, known: Int) -> None:
    """Set the index of the pairs of a new entry's box: `known` if pairs of this box are kept already, or a free one."""
    reusables = reusables_of(state)
    entries = state.counters[REUSABLE]
    if known >= 0:
        reusables.memory[entry] = known
        return
    place = entry
    taken = True
    while taken:
        taken = False
        for other in range(entries):
            taken = taken or (other != entry and reusables.memory[other] == place)
        if taken:
            place = (place + 1) % reusables.born.size
    reusables.memory[entry] = place
    state.counters[BOXES] += 1
    memory_of(state).owner[place] = state.counters[BOXES]
    counts = state.weights[place]
    for column in range(counts.shape[0]):
        for value in range(counts.shape[1]):
            counts[column, value] = 0.0


@kernel
def add_pairs(state: State, memory: Int, at: Int) -> None:
    """Add the pairs of a row that is published in a box."""
    for column in range(state.sensitive.shape[1]):
        value = value_at(state, at, column)
        owner = owner_of(state, memory, column, value)
        if count_of(state.pair_table, owner, state.person[at]) == 0:
            count_in(state.pair_table, owner, state.person[at])
            state.weights[memory, column, value] += 1.0
            state.counters[PAIRS] += 1


@kernel
def note_row(state: State, box: Box, at: Int) -> None:
    """Add the pairs of a row that is published in a box, if pairs are kept for the box."""
    memory = memory_of_box(state, box)
    if memory >= 0:
        add_pairs(state, memory, at)


@kernel
def can_join(state: State, settings: Settings, work: Work, memory: Int, at: Int) -> Bool:
    """Whether the pairs of a box meet the criteria with one more row, by the current reference distribution."""
    for column in range(state.sensitive.shape[1]):
        counts = state.weights[memory, column, : size_of(state, column)]
        value = value_at(state, at, column)
        new = 0.0 if is_known(state, memory, column, at) else 1.0
        no_person = tally_of(work).no_person_joint[: counts.size]
        find_no_person(state, memory, column, no_person)
        if state.person[at] == NO_PERSON:
            no_person[value] = 1.0
        counts[value] += new
        lack = lack_of_counts(state, settings, work, column, counts, no_person)
        counts[value] -= new
        if lack > 0.0:
            return False
    return True


@kernel
def values_suffice(state: State, settings: Settings, work: Work, slots: Ints, memory: Int) -> Bool:
    """Whether rows meet the criteria alone and together with the pairs kept for their box (memory -1: none)."""
    tally = tally_of(work)
    capacity = 16
    while capacity < 2 * slots.size:
        capacity *= 2
    seen = work.table[:capacity]
    for column in range(state.sensitive.shape[1]):
        size = size_of(state, column)
        alone = tally.alone[:size]
        joint = tally.joint[:size]
        no_person_alone = tally.no_person_alone[:size]
        no_person_joint = tally.no_person_joint[:size]
        if memory >= 0:
            find_no_person(state, memory, column, no_person_joint)
        for place in range(size):
            alone[place] = 0.0
            no_person_alone[place] = 0.0
            joint[place] = state.weights[memory, column, place] if memory >= 0 else 0.0
        for place in range(capacity):
            seen[place, 1] = np.uint64(0)
        for at in slots:
            value = value_at(state, at, column)
            if count_in(seen, value, state.person[at]) == 1:
                alone[value] += 1.0
                if state.person[at] == NO_PERSON:
                    no_person_alone[value] = 1.0
                    no_person_joint[value] = 1.0
                if memory >= 0 and not is_known(state, memory, column, at):
                    joint[value] += 1.0
        if lack_of_counts(state, settings, work, column, alone, no_person_alone) > 0.0:
            return False
        if memory >= 0 and lack_of_counts(state, settings, work, column, joint, no_person_joint) > 0.0:
            return False
    return True


@kernel
def values_suffice_now(state: State, settings: Settings, work: Work, slots: Ints) -> Bool:
    """Whether rows can be published as one group now, in the box around them."""
    if not is_burnt_in(state, settings):
        return False
    box = box_of(work)
    for column in range(box.low.size):
        box.low[column] = state.quasi[slots[0], column]
        box.high[column] = box.low[column]
    for at in slots:
        stretch(box.low, box.high, state.quasi[at])
    publish_box(state.domain, box.low, box.high, box.published_low, box.published_high)
    return values_suffice(state, settings, work, slots, memory_of_box(state, box))
