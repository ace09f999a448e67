"""Whether a cluster keeps the promise, and merge_clusters (CASTLE, section 4.1), which makes it keep it."""

import numpy as np

from castleguard.kernels.assign import keep_least, nth_oldest, smallest_of
from castleguard.kernels.chacha import MERGE_TIE, pick
from castleguard.kernels.clusters import absorb_cluster
from castleguard.kernels.compile import allocating_kernel, kernel
from castleguard.kernels.counts import count_of
from castleguard.kernels.loss import value_loss
from castleguard.kernels.matching import persons_stand_apart
from castleguard.kernels.state import EPS, PERSONS, Ints, Settings, State, Work


@allocating_kernel
def _sort(slots: Ints, count: int) -> None:
    slots[:count].sort()


@kernel
def list_members(state: State, work: Work, slot: int) -> int:
    """Write the ring slots of a cluster's rows to `work.cluster.slot`, in order of arrival; how many there are."""
    rows = state.rows
    slots = work.cluster.slot
    capacity = rows.position.size
    in_order = True
    count = 0
    at = np.int64(state.clusters.first[slot])
    while at >= 0:
        slots[count] = rows.position[at]
        in_order = in_order and (count == 0 or slots[count] > slots[count - 1])
        count += 1
        at = np.int64(rows.next[at])
    if not in_order:
        _sort(slots, count)
    for at in range(count):
        slots[at] = slots[at] % capacity
    return count


@kernel
def list_all_members(state: State, work: Work) -> int:
    """The same for the rows of all clusters, in no order."""
    count = 0
    for slot in range(state.clusters.born.size):
        if state.clusters.born[slot] >= 0:
            at = np.int64(state.clusters.first[slot])
            while at >= 0:
                work.cluster.slot[count] = at
                count += 1
                at = np.int64(state.rows.next[at])
    return count


@kernel
def is_ready(state: State, settings: Settings, work: Work, slot: int) -> bool:
    """Whether the cluster has k persons and l values of every sensitive column."""
    clusters = state.clusters
    if clusters.persons[slot] < settings.k:
        return False
    if settings.l < 2:
        return True
    for column in range(clusters.values.shape[0]):
        if clusters.values[column, slot] < settings.l:
            return False
    if not settings.per_person:
        return True
    count = list_members(state, work, slot)
    return persons_stand_apart(work.sieve, state.rows, work.cluster.slot[:count], settings.l)


@kernel
def can_be_ready(state: State, settings: Settings, work: Work) -> bool:
    """Whether all open clusters together have k persons and l values of every sensitive column."""
    if state.counters[PERSONS] < settings.k:
        return False
    if settings.l < 2:
        return True
    for column in range(state.tallies.distinct.size):
        if state.tallies.distinct[column] < settings.l:
            return False
    if not settings.per_person:
        return True
    count = list_all_members(state, work)
    return persons_stand_apart(work.sieve, state.rows, work.cluster.slot[:count], settings.l)


@kernel
def adds_value(state: State, settings: Settings, slot: int, other: int) -> bool:
    """Whether `other` has a value that `slot` still needs for l."""
    columns = state.rows.sensitive.shape[1]
    for column in range(columns):
        if state.clusters.values[column, slot] >= settings.l:
            continue
        at = np.int64(state.clusters.first[other])
        while at >= 0:
            key = np.uint64(state.rows.sensitive[at, column])
            if count_of(state.tallies.values, slot * columns + column, key) == 0:
                return True
            at = np.int64(state.rows.next[at])
    return False


@kernel
def prefer_new_values(state: State, settings: Settings, slot: int, work: Work) -> int:
    """Of the marked clusters keep those that add a missing value, if there are any; how many are left."""
    gain = work.gain
    marked = 0
    adding = 0
    for other in range(gain.size):
        if gain[other] == 0.0:
            marked += 1
            if adds_value(state, settings, slot, other):
                adding += 1
            else:
                gain[other] = 2.0
    for other in range(gain.size):
        if gain[other] == 2.0 and adding == 0:
            gain[other] = 0.0
    return adding if adding > 0 else marked


@kernel
def nearest_cluster(state: State, settings: Settings, work: Work, slot: int, event: int) -> int:
    """The open cluster whose union with `slot` loses least."""
    clusters = state.clusters
    gain = work.gain
    columns = clusters.lower.shape[0]
    own = 0.0
    for column in range(columns):
        own += value_loss(state.domain, column, clusters.lower[column, slot], clusters.upper[column, slot])
    for other in range(gain.size):
        gain[other] = np.inf
        if clusters.born[other] < 0 or other == slot:
            continue
        total = 0.0
        for column in range(columns):
            low = min(clusters.lower[column, slot], clusters.lower[column, other])
            high = max(clusters.upper[column, slot], clusters.upper[column, other])
            total += value_loss(state.domain, column, low, high)
        gain[other] = total / columns - own / columns
    found = keep_least(clusters, gain, EPS)
    if settings.diversity_aware and settings.l > 1 and clusters.persons[slot] >= settings.k:
        found = prefer_new_values(state, settings, slot, work)
    if found > 1:
        found = smallest_of(clusters, gain)
    return nth_oldest(clusters, gain, pick(state.draws, MERGE_TIE, event, found) if settings.random_ties else 0)


@kernel
def merge_clusters(state: State, settings: Settings, work: Work, slot: int, event: int) -> None:
    """Absorb neighbours until the cluster is ready. The caller has made sure that all clusters together would be."""
    while not is_ready(state, settings, work, slot):
        absorb_cluster(state, slot, nearest_cluster(state, settings, work, slot, event))
