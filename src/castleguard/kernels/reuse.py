"""Published generalisations that are used again (CASTLE, section 3.2.2), in a bounded table.

The entry used least recently makes room for a new one, in its place; equal generalisations are one entry. Losing an
entry costs information, never privacy.
"""

import numpy as np

from castleguard.kernels.chacha import REUSE, pick
from castleguard.kernels.compile import kernel
from castleguard.kernels.loss import Point
from castleguard.kernels.publish import add_group, add_row
from castleguard.kernels.state import ARRIVALS, REUSABLE, REUSED, USES, Output, Reusables, Settings, State, Work


@kernel
def _find(reusables: Reusables, entries: int, work: Work, by_interval: bool) -> int:
    """The entry that equals the box in `work`, -1 if none does."""
    for entry in range(entries):
        same = True
        for column in range(work.low.size):
            same = (
                reusables.box_lower[column, entry] == work.box_low[column]
                and reusables.box_upper[column, entry] == work.box_high[column]
                and (not by_interval or reusables.lower[column, entry] == work.low[column])
                and (not by_interval or reusables.upper[column, entry] == work.high[column])
            )
            if not same:
                break
        if same:
            return entry
    return -1


@kernel
def remember(state: State, settings: Settings, work: Work, loss: float) -> None:
    """Admit the generalisation in `work` (range intervals low, high; published as box_low, box_high)."""
    reusables = state.reusables
    entries = state.counters[REUSABLE]
    entry = _find(reusables, entries, work, settings.by_interval)
    if entry < 0:
        if entries < reusables.loss.size:
            entry = entries
            state.counters[REUSABLE] = entries + 1
        else:
            entry = np.int64(np.argmin(reusables.used))
        for column in range(work.low.size):
            reusables.lower[column, entry] = work.low[column] if settings.by_interval else work.box_low[column]
            reusables.upper[column, entry] = work.high[column] if settings.by_interval else work.box_high[column]
            reusables.box_lower[column, entry] = work.box_low[column]
            reusables.box_upper[column, entry] = work.box_high[column]
        reusables.loss[entry] = loss
    state.counters[USES] += 1
    reusables.used[entry] = state.counters[USES]
    reusables.born[entry] = state.counters[ARRIVALS]


@kernel
def mark_containing(state: State, settings: Settings, work: Work, point: Point) -> int:
    """Mark the entries that contain the row; how many do."""
    reusables = state.reusables
    entries = state.counters[REUSABLE]
    inside = work.inside
    for entry in range(entries):
        inside[entry] = True
    for column in range(point.size):
        value = point[column]
        lower = reusables.lower[column]
        upper = reusables.upper[column]
        for entry in range(entries):
            inside[entry] = inside[entry] & (lower[entry] <= value) & (value <= upper[entry])
    found = 0
    for entry in range(entries):
        if settings.reusable_age >= 0:
            age = state.counters[ARRIVALS] - reusables.born[entry]
            inside[entry] = inside[entry] & (age <= settings.reusable_age)
        found += inside[entry]
    return found


@kernel
def try_reuse(state: State, settings: Settings, work: Work, output: Output, at: int, event: int) -> bool:
    """Publish the row in any one of the generalisations that contain it; the caller removes it from its cluster."""
    if not settings.reuse:
        return False
    found = mark_containing(state, settings, work, state.rows.quasi[at])
    if found == 0:
        return False
    skip = pick(state.draws, REUSE, event, found)
    entry = 0
    while True:
        if work.inside[entry]:
            if skip == 0:
                break
            skip -= 1
        entry += 1
    reusables = state.reusables
    for column in range(work.low.size):
        work.box_low[column] = reusables.box_lower[column, entry]
        work.box_high[column] = reusables.box_upper[column, entry]
    state.counters[USES] += 1
    reusables.used[entry] = state.counters[USES]
    group = add_group(output, REUSED, work.box_low, work.box_high, reusables.loss[entry], event)
    add_row(state.counters, output, state.rows.position[at], group)
    return True
