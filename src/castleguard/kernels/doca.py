"""DOCA as printed (Algorithms 1 and 2): online clusters by enlargement, and one Laplace draw per published cluster.

The published algorithm, for research: it computes in floating point, and its groups depend on the data.
`tests/reference/doca.py` is its slow twin; docs/concepts/doca.md lists the choices that the paper leaves open.
"""

from typing import NamedTuple

import numpy as np

from castleguard.kernels.arrays import Flags, Floats, Floats2, Floats3, Ints, Ints2, Words2
from castleguard.kernels.chacha import Draws, begin_content, ratchet
from castleguard.kernels.compile import Bool, Int, entry_kernel, kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest
from castleguard.kernels.perturb import laplace

# Elements of `counters`.
ARRIVALS = 0  # rows so far = position of the next row
PENDING = 1
OLDEST = 2  # no pending row has a smaller position
OPEN = 3  # clusters
RELEASED = 4  # clusters published so far
LONGEST_WAIT = 5
COUNTERS = 6

GONE = -1

# Rows of `link`, per pending row.
CLUSTER, NEXT = 0, 1
# Rows of `book`, per cluster.
SIZE, FIRST, LAST = 0, 1, 2
# Rows of `seen` and `bounds`.
LOW, HIGH = 0, 1


class Settings(NamedTuple):
    """The policy as numbers."""

    delay: int
    max_wait: float
    admit_equal: bool
    sensitivity: Floats  # (columns,) times the rows of a person that the noise covers
    epsilon: Floats  # (columns,)


class State(NamedTuple):
    """Pending rows are in a ring, at position % capacity; the members of a cluster form a list through the ring."""

    counters: Ints
    levels: Floats  # (1 + loss_window,) tau, then a ring of the losses of recently published clusters
    seen: Floats2  # (2, columns) min_t and max_t
    values: Floats2  # (capacity, columns)
    arrived: Floats  # (capacity,) seconds
    link: Ints2  # (2, capacity)
    bounds: Floats3  # (2, slots, columns)
    sums: Floats2  # (slots, columns)
    book: Ints2  # (3, slots)
    order: Ints  # (slots,) slots of the open clusters in order of creation, then the free slots
    words: Words2
    drawn: Ints2  # (3, PURPOSES)


class Batch(NamedTuple):
    """Arriving rows."""

    values: Floats2  # (rows, columns)
    present: Flags


class Output(NamedTuple):
    """Output arrays, large enough for all decisions of one call."""

    used: Ints  # (2,) rows, groups
    rows: Ints2  # (2, rows) position, group
    centroid: Floats2  # (groups, columns) with noise
    loss: Floats  # (groups,)
    marks: Ints2  # (2, groups) the row that expired, arrivals at that time


@kernel
def _draws_of(state: State) -> Draws:
    return Draws(state.words, state.drawn[0], state.drawn[1], state.drawn[2])


@kernel
def _growth(state: State, slot: Int, at: Int) -> float:
    """GetEnlargement: growth of a cluster's loss when the row in ring slot `at` is added."""
    total = 0.0
    columns = state.values.shape[1]
    for column in range(columns):
        width = state.seen[HIGH, column] - state.seen[LOW, column]
        if width > 0:
            low, high = state.bounds[LOW, slot, column], state.bounds[HIGH, slot, column]
            value = state.values[at, column]
            total += ((max(high, value) - min(low, value)) - (high - low)) / width
    return total / columns


@kernel
def _loss_with(state: State, slot: Int, at: Int) -> float:
    """Loss of a cluster after adding the row in ring slot `at` (Algorithm 2, line 9)."""
    total = 0.0
    columns = state.values.shape[1]
    for column in range(columns):
        width = state.seen[HIGH, column] - state.seen[LOW, column]
        if width > 0:
            value = state.values[at, column]
            low, high = min(state.bounds[LOW, slot, column], value), max(state.bounds[HIGH, slot, column], value)
            total += (high - low) / width
    return total / columns


@kernel
def _new_cluster(state: State) -> Int:
    """Open a cluster, last in the order; return its slot."""
    slot = state.order[state.counters[OPEN]]
    state.counters[OPEN] += 1
    state.book[SIZE, slot] = 0
    for column in range(state.values.shape[1]):
        state.bounds[LOW, slot, column] = np.inf
        state.bounds[HIGH, slot, column] = -np.inf
        state.sums[slot, column] = 0.0
    return slot


@kernel
def _best_selection(state: State, growth: Floats, admit_equal: Bool, at: Int) -> Int:
    """Algorithm 2: slot of the cluster that takes the row in ring slot `at`. `growth` is scratch space."""
    clusters = state.counters[OPEN]
    least = np.inf
    for number in range(clusters):
        growth[number] = _growth(state, state.order[number], at)
        least = min(least, growth[number])
    tau = state.levels[0]
    smallest, best = -1, -1  # of C_min and C_best: the first cluster with the fewest rows
    for number in range(clusters):
        if growth[number] == least:
            slot = state.order[number]
            size = state.book[SIZE, slot]
            if smallest < 0 or size < state.book[SIZE, smallest]:
                smallest = slot
            loss = _loss_with(state, slot, at)
            if (loss < tau or (admit_equal and loss == tau)) and (best < 0 or size < state.book[SIZE, best]):
                best = slot
    if best >= 0:
        return best
    return _new_cluster(state) if clusters < state.order.size else smallest


@kernel
def _add(state: State, slot: Int, at: Int) -> None:
    """Add the row in ring slot `at` to a cluster."""
    for column in range(state.values.shape[1]):
        value = state.values[at, column]
        state.bounds[LOW, slot, column] = min(state.bounds[LOW, slot, column], value)
        state.bounds[HIGH, slot, column] = max(state.bounds[HIGH, slot, column], value)
        state.sums[slot, column] += value
    if state.book[SIZE, slot] == 0:
        state.book[FIRST, slot] = at
    else:
        state.link[NEXT, state.book[LAST, slot]] = at
    state.book[LAST, slot] = at
    state.book[SIZE, slot] += 1
    state.link[CLUSTER, at] = slot
    state.link[NEXT, at] = -1
    state.counters[PENDING] += 1


@kernel
def _remove(state: State, slot: Int) -> None:
    """Remove a cluster from the order."""
    number = 0
    while state.order[number] != slot:
        number += 1
    state.counters[OPEN] -= 1
    for later in range(number, state.counters[OPEN]):
        state.order[later] = state.order[later + 1]
    state.order[state.counters[OPEN]] = slot


@kernel
def _enter_loss(state: State, loss: float) -> None:
    """Lines 10 and 11 of Algorithm 1: tau is the mean of recent losses."""
    window = state.levels.size - 1
    released = state.counters[RELEASED]
    state.levels[1 + released % window] = loss
    state.counters[RELEASED] = released + 1
    count = min(released + 1, window)
    total = 0.0
    for back in range(count - 1, -1, -1):
        total += state.levels[1 + (released - back) % window]
    state.levels[0] = total / count


@kernel
def _position(state: State, at: Int) -> Int:
    """Position of a pending row: the latest position that maps to ring slot `at`."""
    last = state.counters[ARRIVALS] - 1
    return last - (last - at) % state.arrived.size


@kernel
def _digest_cluster(state: State, slot: Int) -> np.int64:
    """Digest of the positions and values of a cluster's rows."""
    values = state.values.view(np.int64)
    columns = values.shape[1]
    digest = begin_digest(_draws_of(state))
    at = state.book[FIRST, slot]
    while at >= 0:
        digest = add_number(digest, _position(state, at))
        for column in range(columns):
            digest = add_number(digest, values[at, column])
        at = state.link[NEXT, at]
    return end_digest(digest, state.book[SIZE, slot] * (1 + columns))


@kernel
def _expire(state: State, settings: Settings, output: Output, position: Int) -> None:
    """Publish the cluster of the expiring row."""
    capacity = state.arrived.size
    slot = state.link[CLUSTER, position % capacity]
    size = state.book[SIZE, slot]
    total = 0.0
    columns = state.values.shape[1]
    for column in range(columns):
        width = state.seen[HIGH, column] - state.seen[LOW, column]
        if width > 0:
            total += (state.bounds[HIGH, slot, column] - state.bounds[LOW, slot, column]) / width
    loss = total / columns
    _enter_loss(state, loss)
    draws = _draws_of(state)
    begin_content(draws, _digest_cluster(state, slot))
    group = output.used[1]
    output.used[1] += 1
    for column in range(columns):
        scale = settings.sensitivity[column] / size / settings.epsilon[column]
        output.centroid[group, column] = state.sums[slot, column] / size + laplace(draws, position, scale)
    output.loss[group] = loss
    output.marks[0, group] = position
    output.marks[1, group] = state.counters[ARRIVALS]
    at = state.book[FIRST, slot]
    last = state.counters[ARRIVALS] - 1
    while at >= 0:
        here = _position(state, at)
        output.rows[0, output.used[0]] = here
        output.rows[1, output.used[0]] = group
        output.used[0] += 1
        state.counters[LONGEST_WAIT] = max(state.counters[LONGEST_WAIT], last - here)
        state.link[CLUSTER, at] = GONE
        at = state.link[NEXT, at]
    state.counters[PENDING] -= size
    _remove(state, slot)


@kernel
def _skip_gone(state: State) -> Int:
    """Advance OLDEST to the oldest pending position, or to the number of arrivals; return it."""
    capacity = state.arrived.size
    oldest = state.counters[OLDEST]
    while oldest < state.counters[ARRIVALS] and state.link[CLUSTER, oldest % capacity] == GONE:
        oldest += 1
    state.counters[OLDEST] = oldest
    return oldest


@kernel
def _take_in(state: State, growth: Floats, settings: Settings, batch: Batch, row: Int, now: float) -> None:
    """Lines 3 to 5 of Algorithm 1; an absent row only advances the position."""
    position = state.counters[ARRIVALS]
    state.counters[ARRIVALS] = position + 1
    at = position % state.arrived.size
    state.link[CLUSTER, at] = GONE
    if not batch.present[row]:
        return
    state.arrived[at] = now
    for column in range(batch.values.shape[1]):
        value = batch.values[row, column]
        state.values[at, column] = value
        state.seen[LOW, column] = min(state.seen[LOW, column], value)
        state.seen[HIGH, column] = max(state.seen[HIGH, column], value)
    _add(state, _best_selection(state, growth, settings.admit_equal, at), at)


@entry_kernel
def run(state: State, settings: Settings, growth: Floats, output: Output, batch: Batch, now: float, last: bool) -> None:
    """Release rows that have waited too long, accept a batch that arrives `now`, and flush if it is the last."""
    capacity = state.arrived.size
    timed = settings.max_wait < np.inf
    oldest = _skip_gone(state)
    while timed and oldest < state.counters[ARRIVALS] and state.arrived[oldest % capacity] + settings.max_wait <= now:
        _expire(state, settings, output, oldest)
        oldest = _skip_gone(state)
    for row in range(batch.present.size):
        ratchet(_draws_of(state), state.counters[ARRIVALS])
        _take_in(state, growth, settings, batch, row, now)
        due = state.counters[ARRIVALS] - 1 - settings.delay
        if due >= 0 and state.link[CLUSTER, due % capacity] != GONE:
            _expire(state, settings, output, due)
        # The next row overwrites this ring slot, so OLDEST must have moved past it.
        state.counters[OLDEST] = max(state.counters[OLDEST], due + 1)
    oldest = _skip_gone(state)
    while last and oldest < state.counters[ARRIVALS]:
        _expire(state, settings, output, oldest)
        oldest = _skip_gone(state)


@entry_kernel
def oldest_pending(state: State) -> Int:
    """Return the oldest pending position, or the number of arrivals if none is pending."""
    return _skip_gone(state)
