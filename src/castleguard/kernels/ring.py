"""Ring of pending rows: slot = position % capacity. Rows enter at one end and leave from anywhere."""

from castleguard.kernels.compile import Bool, Int, entry_kernel, inlined_kernel, kernel
from castleguard.kernels.state import ARRIVALS, GONE, OLDEST, Batch, State
from castleguard.kernels.views import Rows, rows_of


@kernel
def is_pending(rows: Rows, position: Int) -> Bool:
    """Whether the row with this position is still pending."""
    at = position % rows.position.size
    return rows.position[at] == position and rows.cluster[at] != GONE


@kernel
def skip_gone(state: State) -> None:
    """Move OLDEST to the first pending row, or to the end."""
    rows = rows_of(state)
    arrivals = state.counters[ARRIVALS]
    position = max(state.counters[OLDEST], arrivals - rows.position.size)
    while position < arrivals and not is_pending(rows, position):
        position += 1
    state.counters[OLDEST] = position


@entry_kernel
def oldest_pending(state: State) -> Int:
    """Return the position of the oldest pending row; the next position if none is pending."""
    skip_gone(state)
    return state.counters[OLDEST]


@inlined_kernel
def take_in(state: State, batch: Batch, row: Int, now: float) -> Int:
    """Write one row of the batch into the ring; return its position."""
    rows = rows_of(state)
    position = state.counters[ARRIVALS]
    state.counters[ARRIVALS] = position + 1
    at = position % rows.position.size
    for column in range(batch.quasi.shape[1]):
        rows.quasi[at, column] = batch.quasi[row, column]
    rows.person[at] = batch.person[row]
    for column in range(batch.sensitive.shape[1]):
        rows.sensitive[at, column] = batch.sensitive[row, column]
    rows.position[at] = position
    rows.arrived[at] = now
    return position
