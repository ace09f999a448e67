"""CASTLE's Algorithm 1 for a batch of rows: assign every arriving row and release what expires.

`run` is the entry point of the engine. Output arrays are large enough by construction: a call cannot decide more rows
than are pending plus those that arrive.
"""

import numpy as np

from castleguard.kernels.assign import best_selection
from castleguard.kernels.chacha import begin_event, ratchet
from castleguard.kernels.compile import Int, entry_kernel, inlined_kernel, kernel
from castleguard.kernels.expire import expire, output_cluster
from castleguard.kernels.loss import observe
from castleguard.kernels.merge import can_be_ready, is_ready
from castleguard.kernels.open_clusters import absorb_cluster, insert_row, new_cluster, remove_row
from castleguard.kernels.publish import order_rows
from castleguard.kernels.reference import refer
from castleguard.kernels.reuse import try_reuse
from castleguard.kernels.ring import is_pending, skip_gone, take_in
from castleguard.kernels.state import (
    ARRIVALS,
    AT_ROOT,
    GONE,
    NO_DISTANCE,
    OLDEST,
    OPEN,
    PENDING,
    WAITING,
    Batch,
    Output,
    Settings,
    State,
    Work,
)
from castleguard.kernels.suppress import suppress
from castleguard.kernels.views import clusters_of, draws_of, rows_of, tallies_of


@inlined_kernel
def arrive(state: State, settings: Settings, work: Work, at: Int, to_root: bool) -> None:
    """Assign the row just written to ring slot `at`."""
    rows = rows_of(state)
    clusters = clusters_of(state)
    state.counters[PENDING] += 1
    if settings.shape.distance != NO_DISTANCE:
        refer(state, settings.shape, at)
    if to_root:
        rows.cluster[at] = AT_ROOT
        state.counters[WAITING] += 1
        return
    point = rows.quasi[at]
    observe(state.domain, point)
    slot = best_selection(state, settings, point, rows.position[at], work.gain)
    if slot < 0:
        slot = new_cluster(state.counters, clusters)
    insert_row(clusters, rows, tallies_of(state), at, slot)


@kernel
def oldest_ready(state: State, settings: Settings, work: Work) -> Int:
    """Slot of the ready cluster that was created first, -1 if none is ready."""
    clusters = clusters_of(state)
    best = -1
    for slot in range(clusters.born.size):
        born = clusters.born[slot]
        if born >= 0 and (best < 0 or born < clusters.born[best]) and is_ready(state, settings, work, slot):
            best = slot
    return best


@kernel
def first_position(state: State, slot: Int) -> Int:
    """Position of the oldest row in a cluster."""
    rows = rows_of(state)
    at = clusters_of(state).first[slot]
    lowest = rows.position[at]
    while at >= 0:
        lowest = min(lowest, rows.position[at])
        at = rows.next[at]
    return lowest


@inlined_kernel
def release_whole(state: State, settings: Settings, work: Work, output: Output, slot: Int) -> None:
    """Release a whole cluster, as one event of the flush."""
    event = first_position(state, slot)
    start = output.used[0]
    begin_event(draws_of(state))
    output_cluster(state, settings, work, output, slot, event)
    order_rows(state, output, start, event, settings.order)


@kernel
def merge_all(state: State) -> Int:
    """Merge all open clusters into one; return its slot."""
    born = clusters_of(state).born
    into = -1
    for slot in range(born.size):
        if born[slot] >= 0 and (into < 0 or born[slot] < born[into]):
            into = slot
    for slot in range(born.size):
        if born[slot] >= 0 and slot != into:
            absorb_cluster(state, into, slot)
    return into


@inlined_kernel
def flush(state: State, settings: Settings, work: Work, output: Output) -> None:
    """End the stream: publish all rows that can be published and suppress the rest.

    (1) Clusters that are ready. (2) Rows covered by a published generalisation. (3) All remaining rows as one cluster,
    if that is ready. (4) Otherwise row by row: at the root, or dropped.
    """
    rows = rows_of(state)
    capacity = rows.position.size
    # (1)
    slot = oldest_ready(state, settings, work)
    while slot >= 0:
        release_whole(state, settings, work, output, slot)
        slot = oldest_ready(state, settings, work)
    # (2)
    skip_gone(state)
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        at = position % capacity
        if is_pending(rows, position) and rows.cluster[at] != AT_ROOT:
            begin_event(draws_of(state))
            if try_reuse(state, settings, work, output, at, position):
                remove_row(state, at)
    # (3)
    if state.counters[OPEN] > 0 and can_be_ready(state, settings, work):
        release_whole(state, settings, work, output, merge_all(state))
    # (4)
    skip_gone(state)
    while state.counters[OLDEST] < state.counters[ARRIVALS]:
        position = state.counters[OLDEST]
        start = output.used[0]
        begin_event(draws_of(state))
        suppress(state, settings, work, output, position % capacity, position)
        order_rows(state, output, start, position, settings.order)
        skip_gone(state)


@kernel
def next_waiting(state: State, max_wait: float, now: float) -> Int:
    """Position of the oldest pending row if it has waited `max_wait` seconds, else -1."""
    skip_gone(state)
    position = state.counters[OLDEST]
    if position == state.counters[ARRIVALS]:
        return -1
    rows = rows_of(state)
    return position if rows.arrived[position % rows.position.size] + max_wait <= now else -1


@entry_kernel
def run(state: State, settings: Settings, work: Work, output: Output, batch: Batch, now: float, last: bool) -> None:
    """Release rows that have waited too long, accept a batch that arrives `now`, and flush if it is the last.

    One entry point for all three, so that the code below is compiled once.
    """
    rows = rows_of(state)
    capacity = rows.position.size
    arriving = 0
    while True:
        # Each iteration is an expiry by time while any is due, then an arrival with the expiry that it causes.
        due = next_waiting(state, settings.max_wait, now) if arriving == 0 and settings.max_wait < np.inf else -1
        if due < 0:
            if arriving == batch.person.size:
                break
            ratchet(draws_of(state), state.counters[ARRIVALS])
            position = take_in(state, batch, arriving, now)
            if batch.present[arriving]:
                arrive(state, settings, work, position % capacity, batch.to_root[arriving])
            else:
                rows.cluster[position % capacity] = GONE
            arriving += 1
            due = position - settings.delay
        if due >= 0 and is_pending(rows, due):
            expire(state, settings, work, output, due % capacity)
    if last:
        flush(state, settings, work, output)
