"""CASTLE's Algorithm 1, one call for a batch: assign every arriving row, and let go whatever expires.

The entry points of the engine. Output arrays are large enough by construction: a call cannot decide more rows than are
pending plus those that arrive.
"""

import numpy as np

from castleguard.kernels.assign import best_selection, choose
from castleguard.kernels.chacha import begin_event, ratchet
from castleguard.kernels.clusters import absorb_cluster, insert_row, new_cluster, remove_row
from castleguard.kernels.compile import kernel
from castleguard.kernels.expire import expire, output_cluster
from castleguard.kernels.loss import observe
from castleguard.kernels.merge import can_be_ready, is_ready
from castleguard.kernels.publish import order_rows
from castleguard.kernels.reuse import try_reuse
from castleguard.kernels.state import (
    ARRIVALS,
    AT_ROOT,
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
from castleguard.kernels.suppress import is_pending, suppress


@kernel
def arrive(state: State, settings: Settings, work: Work, at: int, to_root: bool) -> None:
    """Find a place for the row that has just been written to ring slot `at`."""
    rows = state.rows
    position = rows.position[at]
    state.counters[PENDING] += 1
    if to_root:
        rows.cluster[at] = AT_ROOT
        state.counters[WAITING] += 1
        return
    point = rows.quasi[at]
    observe(state.domain, point)
    full = state.counters[OPEN] >= state.clusters.born.size
    found = best_selection(state.clusters, state.domain, point, state.threshold[0], full, work.gain)
    if found == 0:
        slot = new_cluster(state.counters, state.clusters)
    else:
        if found > 1 and settings.random_ties:
            begin_event(state.draws)
        slot = choose(state.clusters, state.draws, position, found, settings.random_ties, work.gain)
    insert_row(state.counters, state.clusters, rows, state.tallies, at, slot)


@kernel
def walk(state: State, settings: Settings, work: Work, output: Output, batch: Batch, now: float) -> None:
    """Take in a batch of rows that arrive at time `now`."""
    rows = state.rows
    capacity = rows.position.size
    for row in range(batch.person.size):
        position = state.counters[ARRIVALS]
        ratchet(state.draws, position)
        state.counters[ARRIVALS] = position + 1
        at = position % capacity
        for column in range(batch.quasi.shape[1]):
            rows.quasi[at, column] = batch.quasi[row, column]
        rows.person[at] = batch.person[row]
        for column in range(batch.sensitive.shape[1]):
            rows.sensitive[at, column] = batch.sensitive[row, column]
        rows.position[at] = position
        rows.arrived[at] = now
        arrive(state, settings, work, at, batch.to_root[row])
        expiring = position - settings.delay
        if expiring >= 0 and is_pending(rows, expiring):
            expire(state, settings, work, output, expiring % capacity)


@kernel
def skip_gone(state: State) -> None:
    """Move OLDEST to the first pending row, or to the end."""
    rows = state.rows
    arrivals = state.counters[ARRIVALS]
    position = max(state.counters[OLDEST], arrivals - rows.position.size)
    while position < arrivals and not is_pending(rows, position):
        position += 1
    state.counters[OLDEST] = position


@kernel
def expire_waiting(state: State, settings: Settings, work: Work, output: Output, now: float) -> None:
    """Let every row leave that has waited `max_wait` seconds."""
    rows = state.rows
    skip_gone(state)
    while state.counters[OLDEST] < state.counters[ARRIVALS]:
        at = state.counters[OLDEST] % rows.position.size
        if rows.arrived[at] + settings.max_wait > now:
            return
        expire(state, settings, work, output, at)
        skip_gone(state)


@kernel
def oldest_ready(state: State, settings: Settings, work: Work) -> int:
    """The ready cluster that was created first, -1 if none is ready."""
    best = -1
    for slot in range(state.clusters.born.size):
        born = state.clusters.born[slot]
        if born >= 0 and (best < 0 or born < state.clusters.born[best]) and is_ready(state, settings, work, slot):
            best = slot
    return best


@kernel
def first_position(state: State, slot: int) -> int:
    """The position of the oldest row in a cluster."""
    at = np.int64(state.clusters.first[slot])
    lowest = state.rows.position[at]
    while at >= 0:
        lowest = min(lowest, state.rows.position[at])
        at = np.int64(state.rows.next[at])
    return lowest


@kernel
def release_whole(state: State, settings: Settings, work: Work, output: Output, slot: int) -> None:
    """One event of the flush: a whole cluster leaves."""
    event = first_position(state, slot)
    start = output.used[0]
    begin_event(state.draws)
    output_cluster(state, settings, work, output, slot, event)
    order_rows(state.draws, output, start, event, settings.order)


@kernel
def merge_all(state: State) -> int:
    """Make one cluster of all open ones; its slot."""
    into = -1
    for slot in range(state.clusters.born.size):
        if state.clusters.born[slot] >= 0 and (into < 0 or state.clusters.born[slot] < state.clusters.born[into]):
            into = slot
    for slot in range(state.clusters.born.size):
        if state.clusters.born[slot] >= 0 and slot != into:
            absorb_cluster(state, into, slot)
    return into


@kernel
def flush(state: State, settings: Settings, work: Work, output: Output) -> None:
    """The end of a stream: publish what can be published, and let the rest go.

    (1) Clusters that are ready. (2) Rows that a published generalisation contains. (3) All that remains as one
    cluster, if that is ready. (4) Otherwise row by row: the root, or nothing.
    """
    rows = state.rows
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
            begin_event(state.draws)
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
        begin_event(state.draws)
        suppress(state, settings, work, output, position % capacity, position)
        order_rows(state.draws, output, start, position, settings.order)
        skip_gone(state)
