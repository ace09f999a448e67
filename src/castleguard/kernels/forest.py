"""Criteria over the groups of a release, without letting values steer who stands with whom (docs/proofs/citadel.md).

Groups of k rows were made as if nothing but k was asked. Here they are arranged into blocks, again without a look at
values: powers of two, the largest first, each a tree that is halved along the axis on which its groups spread most, and
fewer than eight that are left as one star. A node of a tree is published as its halves if both keep the criteria, else
as one group. All halves of a node have the same shape, so that the outcome tells nothing beyond counts.
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.citadel_state import (
    BECOMES,
    CODE,
    FEWEST,
    JOINED,
    LISTED,
    MEMBER,
    ROWS,
    START,
    Axes,
    Settings,
    Work,
)
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.shape import is_burnt_in, lack_by_row
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.sorting import lower_half, make_key, select_keys, sort_keys
from castleguard.kernels.state import NO_DISTANCE, State

NOT_PUBLISHED = -1


@kernel
def has_values(state: State, work: Work, slots: Ints, wanted: Int) -> Bool:
    """Whether rows, by ring slot, have `wanted` values of every sensitive column; no row may be of NO_PERSON."""
    seen = work.values
    for column in range(state.sensitive.shape[1]):
        found = 0
        for at in slots:
            value = state.sensitive[at, column]
            known = False
            for other in range(found):
                known = known or seen[other] == value
            if not known:
                seen[found] = value
                found += 1
                if found == wanted:
                    break
        if found < wanted:
            return False
    return True


@kernel
def values_left(state: State, work: Work, slots: Ints, column: Int, fewer: Int) -> Int:
    """How many values of a column are left whichever `fewer` of the rows are taken away: the rarest values go first."""
    codes = work.slots[CODE]
    counts = work.keys[0]
    found = 0
    for at in slots:
        value = state.sensitive[at, column]
        place = 0
        while place < found and codes[place] != value:
            place += 1
        if place == found:
            codes[found] = value
            counts[found] = np.uint64(0)
            found += 1
        counts[place] += np.uint64(1)
    sort_keys(counts, 0, found)
    left = found
    for place in range(found):
        if np.int64(counts[place]) > fewer:
            break
        fewer -= np.int64(counts[place])
        left -= 1
    return left


@kernel
def is_diverse(state: State, work: Work, slots: Ints, wanted: Int) -> Bool:
    """Whether rows have `wanted` values of every sensitive column, without counting rows of NO_PERSON.

    Which rows these are must not matter, or the values of a group would tell theirs: so any as many rows are left out.
    """
    no_person = 0
    for at in slots:
        no_person += state.person[at] == NO_PERSON
    if no_person == 0:
        return has_values(state, work, slots, wanted)
    for column in range(state.sensitive.shape[1]):
        if values_left(state, work, slots, column, no_person) < wanted:
            return False
    return True


@kernel
def keeps(state: State, settings: Settings, work: Work, slots: Ints) -> Bool:
    """Whether rows, by their ring slots, keep all criteria as one group."""
    if settings.l > 1 and not is_diverse(state, work, slots, settings.l):
        return False
    if not settings.shape.on:
        return True
    if settings.shape.distance != NO_DISTANCE and not is_burnt_in(state, settings):
        return False
    return lack_by_row(state, settings, work, slots) == 0.0


@kernel
def keep_together(state: State, settings: Settings, work: Work, first: Int, stop: Int) -> Bool:
    """Whether the groups listed from `first` to `stop` keep the criteria as one."""
    groups = work.groups
    count = 0
    joined = work.slots[JOINED]
    for at in range(first, stop):
        group = groups[LISTED, at]
        start = groups[START, group]
        for row in range(start, start + groups[ROWS, group]):
            joined[count] = work.slots[MEMBER, row]
            count += 1
    return keeps(state, settings, work, joined[:count])


@kernel
def put_smaller_first(axes: Axes, work: Work, first: Int, stop: Int, count: Int) -> None:
    """Along the axis on which the centres of the listed groups spread most, list the `count` smaller ones first."""
    listed = work.groups[LISTED]
    best = 0
    widest = np.float32(-1)
    for axis in range(axes.column.size):
        low = work.centre[2, axis, listed[first]]
        high = low
        for at in range(first, stop):
            low = min(low, work.centre[2, axis, listed[at]])
            high = max(high, work.centre[2, axis, listed[at]])
        if high - low > widest:
            widest = high - low
            best = axis
    bits = work.centre[2, best].view(np.uint32)
    keys = work.keys[0]
    for at in range(first, stop):
        keys[at] = make_key(bits[listed[at]], listed[at])
    select_keys(keys, first, stop, count)
    for at in range(first, stop):
        listed[at] = lower_half(keys[at])


@kernel
def publish_as(work: Work, first: Int, stop: Int, kept: Bool) -> None:
    """Publish the listed groups as one, which has the lowest of their numbers; or not at all."""
    groups = work.groups
    lowest = groups[LISTED, first]
    for at in range(first, stop):
        lowest = min(lowest, groups[LISTED, at])
    for at in range(first, stop):
        groups[BECOMES, groups[LISTED, at]] = lowest if kept else NOT_PUBLISHED


@kernel
def judge_each(state: State, settings: Settings, work: Work, first: Int, stop: Int) -> Bool:
    """Judge the listed groups one by one; whether all keep the criteria."""
    groups = work.groups
    whole: Bool = True
    for at in range(first, stop):
        group = groups[LISTED, at]
        start = groups[START, group]
        kept = keeps(state, settings, work, work.slots[MEMBER, start : start + groups[ROWS, group]])
        groups[BECOMES, group] = group if kept else NOT_PUBLISHED
        whole = whole and kept
    return whole


@kernel
def judge_tree(state: State, settings: Settings, axes: Axes, work: Work, first: Int, size: Int) -> None:
    """Judge a block of groups, listed from `first` on; `size` is a power of two."""
    groups = work.groups
    step = size
    while step > 1:
        for at in range(first, first + size, step):
            put_smaller_first(axes, work, at, at + step, step // 2)
        step //= 2
    if judge_each(state, settings, work, first, first + size):
        return
    step = 2
    while step <= size:
        for at in range(first, first + size, step):
            one = groups[BECOMES, groups[LISTED, at]]
            other = groups[BECOMES, groups[LISTED, at + step // 2]]
            if one == NOT_PUBLISHED or other == NOT_PUBLISHED:
                publish_as(work, at, at + step, keep_together(state, settings, work, at, at + step))
        step *= 2


@kernel
def judge_star(state: State, settings: Settings, work: Work, first: Int, stop: Int) -> None:
    """Judge groups that are published as they are, all of them, or as one."""
    if stop > first and not judge_each(state, settings, work, first, stop):
        publish_as(work, first, stop, keep_together(state, settings, work, first, stop))


@kernel
def judge_alone(state: State, settings: Settings, work: Work, group: Int) -> None:
    """Judge a group that is a block of its own."""
    work.groups[LISTED, 0] = group
    judge_each(state, settings, work, 0, 1)


@kernel
def judge_groups(state: State, settings: Settings, axes: Axes, work: Work, count: Int, root: Int) -> None:
    """Say of each of `count` groups with which others it is published; `root` is the number of the root group."""
    groups = work.groups
    for group in range(count):
        groups[BECOMES, group] = group
    if settings.l == 1 and not settings.shape.on:
        return
    stop = 0
    for group in range(count):
        if groups[ROWS, group] == settings.k and group != root:
            groups[LISTED, stop] = group
            stop += 1
    first = 0
    while stop - first >= FEWEST:
        size = FEWEST
        while 2 * size <= stop - first:
            size *= 2
        put_smaller_first(axes, work, first, stop, size)
        judge_tree(state, settings, axes, work, first, size)
        first += size
    judge_star(state, settings, work, first, stop)
    for group in range(count):
        if groups[ROWS, group] != settings.k or group == root:
            judge_alone(state, settings, work, group)
