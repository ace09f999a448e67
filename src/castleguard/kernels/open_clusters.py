"""Insert rows into open clusters and remove them, keeping bounds, person counts and value counts exact.

Bounds shrink when a row leaves: a cluster is the box of its current rows, and a stale bound would attract later rows to
a value that is gone.
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.counts import count_in, count_out
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import CREATED, GONE, OPEN, PENDING, WAITING, State
from castleguard.kernels.views import Clusters, Rows, Tallies, clusters_of, rows_of, tallies_of


@kernel
def new_cluster(counters: Ints, clusters: Clusters) -> Int:
    """Take a free slot; the caller ensures that one exists."""
    slot = 0
    while clusters.born[slot] >= 0:
        slot += 1
    clusters.born[slot] = counters[CREATED]
    counters[CREATED] += 1
    counters[OPEN] += 1
    clusters.rows[slot] = 0
    clusters.persons[slot] = 0
    for column in range(clusters.values.shape[0]):
        clusters.values[column, slot] = 0
    clusters.first[slot] = -1
    clusters.last[slot] = -1
    return slot


@kernel
def free_cluster(counters: Ints, clusters: Clusters, slot: Int) -> None:
    """Free the slot of an empty cluster."""
    clusters.born[slot] = -1
    counters[OPEN] -= 1
    for column in range(clusters.lower.shape[0]):
        clusters.lower[column, slot] = 0.0
        clusters.upper[column, slot] = 0.0


@kernel
def tally_in(tallies: Tallies, clusters: Clusters, rows: Rows, at: Int, slot: Int) -> None:
    """Count the row's person and values for a cluster, or (slot = slots) for all clusters together.

    A row of NO_PERSON counts for neither.
    """
    if rows.person[at] == NO_PERSON:
        return
    if count_in(tallies.persons, slot, rows.person[at]) == 1:
        clusters.persons[slot] += 1
    for column in range(rows.sensitive.shape[1]):
        owner = slot * rows.sensitive.shape[1] + column
        if count_in(tallies.values, owner, np.uint64(rows.sensitive[at, column])) == 1:
            clusters.values[column, slot] += 1


@kernel
def tally_out(tallies: Tallies, clusters: Clusters, rows: Rows, at: Int, slot: Int) -> None:
    """Subtract the row's person and values from the counts."""
    if rows.person[at] == NO_PERSON:
        return
    if count_out(tallies.persons, slot, rows.person[at]) == 0:
        clusters.persons[slot] -= 1
    for column in range(rows.sensitive.shape[1]):
        owner = slot * rows.sensitive.shape[1] + column
        if count_out(tallies.values, owner, np.uint64(rows.sensitive[at, column])) == 0:
            clusters.values[column, slot] -= 1


@kernel
def append_row(clusters: Clusters, rows: Rows, at: Int, slot: Int) -> None:
    """Link a row after the last member and widen the bounds to include it."""
    rows.cluster[at] = slot
    rows.next[at] = -1
    rows.previous[at] = clusters.last[slot]
    if clusters.last[slot] >= 0:
        rows.next[clusters.last[slot]] = at
    else:
        clusters.first[slot] = at
    clusters.last[slot] = at
    clusters.rows[slot] += 1
    alone = clusters.rows[slot] == 1
    for column in range(rows.quasi.shape[1]):
        value = rows.quasi[at, column]
        if alone or value < clusters.lower[column, slot]:
            clusters.lower[column, slot] = value
        if alone or value > clusters.upper[column, slot]:
            clusters.upper[column, slot] = value


@kernel
def insert_row(clusters: Clusters, rows: Rows, tallies: Tallies, at: Int, slot: Int) -> None:
    """Add an arriving row to a cluster."""
    append_row(clusters, rows, at, slot)
    tally_in(tallies, clusters, rows, at, slot)
    tally_in(tallies, clusters, rows, at, clusters.born.size)


@kernel
def _shrink(clusters: Clusters, rows: Rows, slot: Int, column: Int) -> None:
    """Make one range interval minimal again."""
    at = clusters.first[slot]
    low = rows.quasi[at, column]
    high = low
    while at >= 0:
        value = rows.quasi[at, column]
        if value < low:
            low = value
        if value > high:
            high = value
        at = rows.next[at]
    clusters.lower[column, slot] = low
    clusters.upper[column, slot] = high


@kernel
def remove_row(state: State, at: Int) -> None:
    """Remove one pending row from its cluster, which shrinks, or is freed with its last row."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    tallies = tallies_of(state)
    slot = rows.cluster[at]
    rows.cluster[at] = GONE
    state.counters[PENDING] -= 1
    if slot < 0:
        state.counters[WAITING] -= 1
        return
    before = rows.previous[at]
    after = rows.next[at]
    if before >= 0:
        rows.next[before] = after
    else:
        clusters.first[slot] = after
    if after >= 0:
        rows.previous[after] = before
    else:
        clusters.last[slot] = before
    clusters.rows[slot] -= 1
    tally_out(tallies, clusters, rows, at, slot)
    tally_out(tallies, clusters, rows, at, clusters.born.size)
    if clusters.rows[slot] == 0:
        free_cluster(state.counters, clusters, slot)
        return
    for column in range(rows.quasi.shape[1]):
        value = rows.quasi[at, column]
        if value == clusters.lower[column, slot] or value == clusters.upper[column, slot]:
            _shrink(clusters, rows, slot, column)


@kernel
def absorb_cluster(state: State, into: Int, other: Int) -> None:
    """Move all rows of `other` into `into` and free `other`."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    tallies = tallies_of(state)
    at = clusters.first[other]
    while at >= 0:
        after = rows.next[at]
        tally_out(tallies, clusters, rows, at, other)
        append_row(clusters, rows, at, into)
        tally_in(tallies, clusters, rows, at, into)
        at = after
    free_cluster(state.counters, clusters, other)


@kernel
def empty_cluster(state: State, slot: Int) -> None:
    """Free a cluster after all its rows were released."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    tallies = tallies_of(state)
    at = clusters.first[slot]
    while at >= 0:
        after = rows.next[at]
        rows.cluster[at] = GONE
        tally_out(tallies, clusters, rows, at, slot)
        tally_out(tallies, clusters, rows, at, clusters.born.size)
        at = after
    state.counters[PENDING] -= clusters.rows[slot]
    free_cluster(state.counters, clusters, slot)
