"""Growing a group of k persons around a row that is due, from the pending rows near it (docs/concepts/citadel.md).

Sensitive values are never looked at: who stands with whom depends on quasi-identifiers, persons, arrival and draws.
"""

import numpy as np

from castleguard.kernels.arrays import Hashes, Ints, Singles, Slots
from castleguard.kernels.citadel_state import (
    BY_PLACE,
    BY_RANK,
    DEPTH,
    FAR,
    HANDICAP,
    HOME,
    LINES,
    LIVE,
    MEMBER,
    OF_CANDIDATE,
    PLACE,
    SCORE,
    Axes,
    Settings,
    Work,
)
from castleguard.kernels.compile import Bool, Int, kernel, scan_kernel
from castleguard.kernels.counts import count_in
from castleguard.kernels.loss import Domain, value_loss
from castleguard.kernels.neighbours import find_nearest
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.sorting import lower_half
from castleguard.kernels.state import State
from castleguard.kernels.widths import enlarge

CANDIDATES = 3  # times k + 10: rows that a group is chosen from
MORE = 8  # times as many, if those have too few persons
HASTE = 8  # this part of the missing rows is taken at a time
TO_SEED = np.float32(0.1)  # what a unit of distance to the seed counts
YOUTH = 0.02  # what a row counts that has just arrived, beside one that is due

_NO_RANK = np.int32(0x7FFFFFFF)


@scan_kernel
def first_of_least(score: Singles, rank: Slots, count: Int) -> Int:
    """Where the least score is, of equals the one that arrived first; -1 if all are FAR."""
    least = FAR
    for at in range(count):
        least = score[at] if score[at] < least else least
    if least >= FAR:
        return -1
    first = _NO_RANK
    for at in range(count):
        other = rank[at] if score[at] == least else _NO_RANK
        first = other if other < first else first
    for at in range(count):
        if rank[at] == first:
            return at
    return -1


@scan_kernel
def exclude_person(person: np.uint64, persons: Hashes, count: Int, handicap: Singles, score: Singles) -> None:
    """Let no other row of a person into the group."""
    for at in range(count):
        same = persons[at] == person
        handicap[at] = FAR if same else handicap[at]
        score[at] = FAR if same else score[at]


@kernel
def point_at(state: State, axes: Axes, at: Int, point: Singles) -> None:
    """The coordinates of the row in ring slot `at`."""
    for axis in range(axes.column.size):
        point[axis] = np.float32((state.quasi[at, axes.column[axis]] - axes.origin[0, axis]) * axes.origin[1, axis])


@kernel
def take_in(low: Singles, high: Singles, point: Singles) -> None:
    """Let a box take in a point."""
    for axis in range(point.size):
        low[axis] = min(low[axis], point[axis])
        high[axis] = max(high[axis], point[axis])


@kernel
def box_width(domain: Domain, axes: Axes, low: Singles, high: Singles) -> np.float32:
    """The width of a box, summed over its axes."""
    total = np.float32(0)
    for axis in range(axes.column.size):
        if axis < axes.numbers:
            total += high[axis] - low[axis]
        else:
            total += np.float32(value_loss(domain, axes.column[axis], float(low[axis]), float(high[axis])))
    return total


@kernel
def list_candidates(state: State, settings: Settings, work: Work, found: Int, limit: Int) -> None:
    """Lay out the candidates whose keys a search has found: coordinates, persons, handicaps."""
    by_rank = work.slots[BY_RANK]
    place = work.slots[PLACE]
    keys = work.keys[0]
    persons = work.keys[1]
    rank = work.rank[OF_CANDIDATE]
    distance = (keys[:found].view(np.uint32)).view(np.float32)  # every second one: the upper half of a key
    handicap = work.near[HANDICAP]
    price = np.float32(YOUTH / settings.delay)
    for at in range(found):
        number = lower_half(keys[at])
        slot = by_rank[number]
        rank[at] = np.int32(number)
        persons[at] = state.person[slot]
        youth = max(state.link[0, slot] - limit, 0)
        handicap[at] = TO_SEED * distance[2 * at + 1] + price * np.float32(youth)
    for axis in range(work.coordinate.shape[1]):
        x = work.coordinate[0, axis]
        mine = work.coordinate[1, axis]
        for at in range(found):
            mine[at] = x[place[by_rank[rank[at]]]]


@kernel
def choose(state: State, axes: Axes, work: Work, found: Int, person: np.uint64, needed: Int) -> Bool:
    """Choose the candidates that join the seed, into the list of members from 1 on; False: too few persons."""
    low, high = work.grown[0], work.grown[1]
    candidates = work.coordinate[1]
    persons = work.keys[1]
    rank = work.rank[OF_CANDIDATE]
    handicap = work.near[HANDICAP]
    score = work.near[SCORE]
    members = work.slots[MEMBER]
    by_rank = work.slots[BY_RANK]
    if person != NO_PERSON:
        exclude_person(person, persons, found, handicap, score)
    taken = 0
    while taken < needed:
        for at in range(found):
            score[at] = np.float32(0)
        enlarge(state.domain, axes, candidates, (0, found), low, high, score)
        for at in range(found):
            score[at] += handicap[at]
        batch = max(1, (needed - taken) // HASTE)
        first = taken
        while taken < first + batch:
            best = first_of_least(score, rank, found)
            if best < 0:
                return False
            exclude_person(persons[best], persons, found, handicap, score)
            taken += 1
            members[taken] = by_rank[rank[best]]
            for axis in range(low.size):
                low[axis] = min(low[axis], candidates[axis, best])
                high[axis] = max(high[axis], candidates[axis, best])
    return True


@kernel
def grow(state: State, settings: Settings, axes: Axes, work: Work, seed: Int, limit: Int) -> Int:
    """Grow a group around the row in ring slot `seed`, which is not in the tree any more; how many rows it has, listed
    as members, with their box in `work.grown`. 0: all pending rows have too few persons.
    """
    needed = settings.k if state.person[seed] == NO_PERSON else settings.k - 1
    wanted = CANDIDATES * (settings.k + 10)
    low, high = work.grown[0], work.grown[1]
    work.slots[MEMBER, 0] = seed
    while True:
        point_at(state, axes, seed, low)
        point_at(state, axes, seed, high)
        found = find_nearest(state.domain, axes, work, low, work.sizes[HOME], wanted)
        list_candidates(state, settings, work, found, limit)
        if choose(state, axes, work, found, state.person[seed], needed):
            return needed + 1
        if found == work.sizes[LIVE]:
            return 0
        wanted *= MORE


@kernel
def count_persons(state: State, work: Work, slots: Ints) -> tuple[Int, Int]:
    """Distinct persons of rows, by ring slot, without NO_PERSON; and the most rows of one person or of NO_PERSON."""
    capacity = 16
    while capacity < 2 * slots.size:
        capacity *= 2
    table = work.table[:capacity]
    for place in range(capacity):
        table[place, 1] = np.uint64(0)
    persons = 0
    most: Int = 0
    for at in slots:
        count = count_in(table, 0, state.person[at])
        persons += count == 1 and state.person[at] != NO_PERSON
        most = max(most, count)
    return persons, most


@kernel
def take_all(state: State, settings: Settings, axes: Axes, work: Work, seed: Int) -> tuple[Int, Int]:
    """One group of the seed, which is not in the tree any more, and of all rows that are: how many rows it has, listed
    as members, with their box, and the most rows of a person. (0, 0): too few persons, or too many rows of one.
    """
    members = work.slots[MEMBER]
    low, high = work.grown[0], work.grown[1]
    point_at(state, axes, seed, low)
    point_at(state, axes, seed, high)
    members[0] = seed
    count = 1
    for place in range(work.sizes[LINES] << work.sizes[DEPTH]):
        if work.gone[place] < FAR:
            members[count] = work.slots[BY_PLACE, place]
            count += 1
            for axis in range(low.size):
                low[axis] = min(low[axis], work.coordinate[0, axis, place])
                high[axis] = max(high[axis], work.coordinate[0, axis, place])
    persons, most = count_persons(state, work, members[:count])
    if persons < settings.k or count < settings.k * most:
        return 0, 0
    return count, most
