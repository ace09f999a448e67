"""Due rows that found no group: they join a group of the same release where they cost least, or the root.

No row of the release has left yet, and no group is published. A group only grows: it keeps at least k persons, and none
of them gets more than 1/k of its rows.
"""

import numpy as np

from castleguard.kernels.citadel_state import (
    DROPPED,
    FAR,
    GROUP,
    GROUPS,
    LEFT,
    LEFT_OVER,
    MEMBER,
    MOST,
    PLACE,
    ROWS,
    SCORE,
    STAYS,
    Axes,
    Settings,
    Work,
)
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_in, count_of
from castleguard.kernels.growth import box_width, point_at
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import ARRIVALS, AT_ROOT, DROP, OLDEST, State
from castleguard.kernels.tree import take_out
from castleguard.kernels.widths import enlarge

NO_GROUP = -1


@kernel
def count_all(state: State, work: Work) -> None:
    """Count the rows of every person in every group of the release."""
    for place in range(work.table.shape[0]):
        work.table[place, 1] = np.uint64(0)
    capacity = state.person.size
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        at = position % capacity
        if work.slots[GROUP, at] >= 0:
            count_in(work.table, work.slots[GROUP, at], state.person[at])


@kernel
def has_room(settings: Settings, work: Work, group: Int, person: np.uint64) -> Bool:
    """Whether no person has more than 1/k of a group's rows after a row of this person has joined it."""
    most = max(work.groups[MOST, group], count_of(work.table, group, person) + 1)
    return work.groups[ROWS, group] + 1 >= settings.k * most


@kernel
def enter(state: State, work: Work, at: Int, group: Int) -> None:
    """Let the row in ring slot `at` join a group."""
    work.slots[GROUP, at] = group
    work.groups[ROWS, group] += 1
    count = count_in(work.table, group, state.person[at])
    work.groups[MOST, group] = max(work.groups[MOST, group], count)


@kernel
def cheapest(state: State, settings: Settings, axes: Axes, work: Work, at: Int) -> Int:
    """The group that the row can join at the least cost: the loss of the row and the added loss of the rows in it."""
    point_at(state, axes, at, work.grown[0])
    for axis in range(axes.column.size):
        work.coordinate[1, axis, 0] = work.grown[0, axis]
    best = NO_GROUP
    least = FAR
    for group in range(work.sizes[GROUPS]):
        low, high = work.grown[0], work.grown[1]
        for axis in range(axes.column.size):
            low[axis] = work.centre[0, axis, group]
            high[axis] = work.centre[1, axis, group]
        work.near[SCORE, 0] = np.float32(0)
        enlarge(state.domain, axes, work.coordinate[1], (0, 1), low, high, work.near[SCORE])
        more = work.near[SCORE, 0]
        cost = box_width(state.domain, axes, low, high) + more * np.float32(work.groups[ROWS, group] + 1)
        if cost < least and has_room(settings, work, group, state.person[at]):
            least = cost
            best = group
    return best


@kernel
def join_groups(state: State, settings: Settings, axes: Axes, work: Work) -> None:
    """Let left-over rows join groups; those that cannot stay in the list."""
    left = 0
    point = work.grown[0]
    for number in range(work.sizes[LEFT]):
        at = work.slots[LEFT_OVER, number]
        group = NO_GROUP if state.link[1, at] == AT_ROOT else cheapest(state, settings, axes, work, at)
        if group == NO_GROUP:
            work.slots[LEFT_OVER, left] = at
            left += 1
            continue
        enter(state, work, at, group)
        point_at(state, axes, at, point)
        for axis in range(point.size):
            work.centre[0, axis, group] = min(work.centre[0, axis, group], point[axis])
            work.centre[1, axis, group] = max(work.centre[1, axis, group], point[axis])
    work.sizes[LEFT] = left


@kernel
def first_rows(state: State, work: Work, group: Int) -> Int:
    """Add the first left-over row of every person to the root group; return its persons without NO_PERSON."""
    persons = 0
    for number in range(work.sizes[LEFT]):
        at = work.slots[LEFT_OVER, number]
        if count_of(work.table, group, state.person[at]) == 0:
            enter(state, work, at, group)
            persons += state.person[at] != NO_PERSON
    return persons


@kernel
def complete(state: State, settings: Settings, work: Work, group: Int, persons: Int) -> Int:
    """Add the oldest company rows of other persons to the root group until it has k, and list them as members.

    Returns how many were added; -1 if there are too few, and then none is added.
    """
    capacity = state.person.size
    taken = 0
    position = state.counters[OLDEST]
    while persons + taken < settings.k:
        if position == state.counters[ARRIVALS]:
            return -1
        at = position % capacity
        known = work.slots[PLACE, at] >= 0 and work.slots[GROUP, at] == STAYS
        if known and count_of(work.table, group, state.person[at]) == 0:
            count_in(work.table, group, state.person[at])
            work.slots[MEMBER, taken] = at
            taken += 1
        position += 1
    for row in range(taken):
        work.slots[GROUP, work.slots[MEMBER, row]] = group
        take_out(work, work.slots[MEMBER, row])
    work.groups[ROWS, group] += taken
    return taken


@kernel
def make_root(state: State, settings: Settings, work: Work) -> Int:
    """Put the rows that are left into a root group, with company if they are too few; return it, or NO_GROUP."""
    if work.sizes[LEFT] == 0:
        return NO_GROUP
    group = work.sizes[GROUPS]
    work.groups[ROWS, group] = 0
    work.groups[MOST, group] = 0
    lacking: Bool = settings.suppression == DROP
    if not lacking:
        persons = first_rows(state, work, group)
        lacking = complete(state, settings, work, group, persons) < 0
    for number in range(work.sizes[LEFT]):
        at = work.slots[LEFT_OVER, number]
        if lacking:
            work.slots[GROUP, at] = DROPPED
        elif work.slots[GROUP, at] == STAYS:
            if has_room(settings, work, group, state.person[at]):
                enter(state, work, at, group)
            else:
                work.slots[GROUP, at] = DROPPED
    if lacking:
        return NO_GROUP
    work.sizes[GROUPS] = group + 1
    return group
