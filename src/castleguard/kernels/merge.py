"""Check whether a cluster meets the privacy criteria, and merge_clusters (CASTLE, section 4.1)."""

import numpy as np

from castleguard.kernels.arrays import Floats, Ints
from castleguard.kernels.assign import keep_least, nth_oldest, smallest_of
from castleguard.kernels.chacha import MERGE_TIE, pick
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_of
from castleguard.kernels.loss import value_loss
from castleguard.kernels.open_clusters import absorb_cluster
from castleguard.kernels.person_matching import persons_match_values
from castleguard.kernels.published_pairs import values_suffice_now
from castleguard.kernels.shape import lack_of_rows
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.sorting import sort_keys
from castleguard.kernels.state import EPS, Settings, State, Work
from castleguard.kernels.views import Clusters, cluster_of, clusters_of, draws_of, rows_of, tally_of


@kernel
def list_members(state: State, work: Work, slot: Int) -> Int:
    """Write the ring slots of a cluster's rows to the current cluster, in order of arrival; return their number."""
    rows = rows_of(state)
    slots = cluster_of(work).slot
    capacity = rows.position.size
    in_order = True
    count = 0
    at = clusters_of(state).first[slot]
    while at >= 0:
        slots[count] = rows.position[at]
        in_order = in_order and (count == 0 or slots[count] > slots[count - 1])
        count += 1
        at = rows.next[at]
    if not in_order:
        sort_keys(slots.view(np.uint64), 0, count)  # positions are not negative
    for row in range(count):
        slots[row] = slots[row] % capacity
    return count


@kernel
def list_all_members(state: State, work: Work) -> Int:
    """Write the ring slots of the rows of all clusters, in no particular order; return their number."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    slots = cluster_of(work).slot
    count = 0
    for slot in range(clusters.born.size):
        if clusters.born[slot] >= 0:
            at = clusters.first[slot]
            while at >= 0:
                slots[count] = at
                count += 1
                at = rows.next[at]
    return count


@kernel
def has_enough(clusters: Clusters, settings: Settings, slot: Int) -> Bool:
    """Whether a cluster, or (slot = slots) all clusters together, has k persons and l values in every column."""
    enough = clusters.persons[slot] >= settings.k
    if settings.l > 1:
        for column in range(clusters.values.shape[0]):
            enough = enough and clusters.values[column, slot] >= settings.l
    return enough


@kernel
def only_counts_matter(settings: Settings) -> Bool:
    """Whether k persons and l values are the only criteria."""
    return not settings.shape.on and (settings.l < 2 or not settings.per_person)


@kernel
def meet_criteria(state: State, settings: Settings, work: Work, slots: Ints) -> Bool:
    """Whether rows with k persons and l values also meet the other criteria as one group."""
    if settings.l > 1 and settings.per_person:
        if not persons_match_values(work, rows_of(state), slots, settings.l):
            return False
    return not settings.shape.on or values_suffice_now(state, settings, work, slots)


@kernel
def is_ready(state: State, settings: Settings, work: Work, slot: Int) -> Bool:
    """Whether a cluster meets all criteria."""
    if not has_enough(clusters_of(state), settings, slot):
        return False
    if only_counts_matter(settings):
        return True
    count = list_members(state, work, slot)
    return meet_criteria(state, settings, work, cluster_of(work).slot[:count])


@kernel
def can_be_ready(state: State, settings: Settings, work: Work) -> Bool:
    """Whether all open clusters together meet the criteria."""
    clusters = clusters_of(state)
    if not has_enough(clusters, settings, clusters.born.size):
        return False
    if only_counts_matter(settings):
        return True
    count = list_all_members(state, work)
    return meet_criteria(state, settings, work, cluster_of(work).slot[:count])


@kernel
def adds_value(state: State, settings: Settings, slot: Int, other: Int) -> Bool:
    """Whether `other` has a value that `slot` still needs for l."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    columns = rows.sensitive.shape[1]
    for column in range(columns):
        if clusters.values[column, slot] >= settings.l:
            continue
        at = clusters.first[other]
        while at >= 0:
            key = np.uint64(rows.sensitive[at, column])
            if rows.person[at] != NO_PERSON and count_of(state.value_table, slot * columns + column, key) == 0:
                return True
            at = rows.next[at]
    return False


@kernel
def prefer_new_values(state: State, settings: Settings, slot: Int, gain: Floats) -> Int:
    """Keep the marked clusters that add a missing value, or all if none does; return the number left."""
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
def list_both(state: State, work: Work, slot: Int, other: Int) -> Int:
    """Write the ring slots of two clusters' rows to the current cluster, in no particular order; return the number."""
    rows = rows_of(state)
    slots = cluster_of(work).slot
    count = 0
    for cluster in (slot, other):
        at = clusters_of(state).first[cluster]
        while at >= 0:
            slots[count] = at
            count += 1
            at = rows.next[at]
    return count


@kernel
def prefer_helpful(state: State, settings: Settings, work: Work, slot: Int) -> None:
    """Rule out clusters that would not bring the distribution of values closer to the criteria, unless all fail."""
    gain = work.gain
    born = clusters_of(state).born
    slots = cluster_of(work).slot
    lack = tally_of(work).lack
    own = lack_of_rows(state, settings, work, slots[: list_members(state, work, slot)])
    helpful = 0
    for other in range(gain.size):
        if born[other] >= 0 and other != slot:
            lack[other] = lack_of_rows(state, settings, work, slots[: list_both(state, work, slot, other)])
            helpful += lack[other] < own - EPS
    for other in range(gain.size):
        if helpful > 0 and born[other] >= 0 and other != slot and not lack[other] < own - EPS:
            gain[other] = np.inf


@kernel
def nearest_cluster(state: State, settings: Settings, work: Work, slot: Int, event: Int) -> Int:
    """Slot of the open cluster whose union with `slot` has the least loss.

    If only the distribution of values falls short, clusters that improve it are preferred.
    """
    gain = work.gain
    clusters = clusters_of(state)
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
    if settings.shape.on and settings.diversity_aware and has_enough(clusters, settings, slot):
        prefer_helpful(state, settings, work, slot)
    found = keep_least(clusters, gain, EPS)
    if settings.diversity_aware and settings.l > 1 and clusters.persons[slot] >= settings.k:
        found = prefer_new_values(state, settings, slot, gain)
    if found > 1:
        found = smallest_of(clusters, gain)
    return nth_oldest(clusters, gain, pick(draws_of(state), MERGE_TIE, event, found) if settings.random_ties else 0)


@kernel
def merge_clusters(state: State, settings: Settings, work: Work, slot: Int, event: Int) -> None:
    """Absorb neighbours until the cluster is ready. The caller ensures that all clusters together would be."""
    while not is_ready(state, settings, work, slot):
        absorb_cluster(state, slot, nearest_cluster(state, settings, work, slot, event))
