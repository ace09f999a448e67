"""Reuse of published generalisations (CASTLE, section 3.2.2), in a bounded table.

A new entry replaces the least recently used one; equal generalisations share an entry. Losing an entry costs
information, never privacy. If criteria on the distribution of sensitive values are set, a row joins only
generalisations that still meet them with this row.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import REUSE, pick
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.loss import Point, box_loss, largest_inside
from castleguard.kernels.publish import add_group, add_row
from castleguard.kernels.published_pairs import begin_memory, can_join, make_room, memory_of_box, note_row
from castleguard.kernels.state import ARRIVALS, REUSABLE, REUSED, USES, Output, Settings, State, Work
from castleguard.kernels.views import Box, Reusables, box_of, draws_of, reusables_of, rows_of


@kernel
def _find(reusables: Reusables, entries: Int, box: Box, by_interval: bool) -> Int:
    """Index of the entry that equals the box, -1 if none does."""
    for entry in range(entries):
        same = True
        for column in range(box.low.size):
            same = (
                reusables.box_lower[column, entry] == box.published_low[column]
                and reusables.box_upper[column, entry] == box.published_high[column]
                and (not by_interval or reusables.lower[column, entry] == box.low[column])
                and (not by_interval or reusables.upper[column, entry] == box.high[column])
            )
            if not same:
                break
        if same:
            return entry
    return -1


@kernel
def admit(state: State, box: Box, by_interval: bool) -> tuple[Int, Bool]:
    """Admit a published generalisation; return its entry, and whether that is new."""
    reusables = reusables_of(state)
    entries = state.counters[REUSABLE]
    entry = _find(reusables, entries, box, by_interval)
    new = entry < 0
    if new:
        if entries < reusables.born.size:
            entry = entries
            state.counters[REUSABLE] = entries + 1
        else:
            entry = np.int64(np.argmin(reusables.used))
        for column in range(box.low.size):
            inside = largest_inside(state.domain, column, box.published_high[column])
            reusables.lower[column, entry] = box.low[column] if by_interval else box.published_low[column]
            reusables.upper[column, entry] = box.high[column] if by_interval else inside
            reusables.box_lower[column, entry] = box.published_low[column]
            reusables.box_upper[column, entry] = box.published_high[column]
    state.counters[USES] += 1
    reusables.used[entry] = state.counters[USES]
    reusables.born[entry] = state.counters[ARRIVALS]
    return entry, new


@kernel
def remember(state: State, settings: Settings, box: Box) -> None:
    """Admit a published generalisation, and keep the pairs published in it if criteria need them.

    Generalisations that are compared by their intervals can have the same published box. The new entry may replace the
    last one with its box: the pairs of the box must outlive that.
    """
    known: Int = memory_of_box(state, box) if settings.shape.on else -1
    entry, new = admit(state, box, settings.by_interval)
    if new and settings.shape.on:
        begin_memory(state, entry, known)


@kernel
def mark_containing(reusables: Reusables, entries: Int, point: Point, oldest: Int, inside: NDArray[np.bool_]) -> Int:
    """Mark the entries, admitted at `oldest` arrivals or later, that contain the row; return their number."""
    for entry in range(entries):
        inside[entry] = reusables.born[entry] >= oldest
    for column in range(point.size):
        value = point[column]
        lower = reusables.lower[column]
        upper = reusables.upper[column]
        for entry in range(entries):
            inside[entry] = inside[entry] & (lower[entry] <= value) & (value <= upper[entry])
    found = 0
    for entry in range(entries):
        found += inside[entry]
    return found


@kernel
def keep_joinable(state: State, settings: Settings, work: Work, at: Int) -> Int:
    """Keep the marked entries that meet the criteria with the row; return the number left."""
    memory = reusables_of(state).memory
    left = 0
    for entry in range(state.counters[REUSABLE]):
        if work.inside[entry]:
            work.inside[entry] = can_join(state, settings, work, memory[entry], at)
            left += work.inside[entry]
    return left


@kernel
def try_reuse(state: State, settings: Settings, work: Work, output: Output, at: Int, event: Int) -> Bool:
    """Publish the row in a random generalisation that contains it; the caller removes it from its cluster."""
    if not settings.reuse:
        return False
    reusables = reusables_of(state)
    oldest = state.counters[ARRIVALS] - settings.reusable_age if settings.reusable_age >= 0 else 0
    found = mark_containing(reusables, state.counters[REUSABLE], state.quasi[at], oldest, work.inside)
    if found > 0 and settings.shape.on:
        found = keep_joinable(state, settings, work, at)
    if found == 0:
        return False
    skip = pick(draws_of(state), REUSE, event, found)
    entry = 0
    while skip > 0 or not work.inside[entry]:
        if work.inside[entry]:
            skip -= 1
        entry += 1
    box = box_of(work)
    for column in range(box.low.size):
        box.published_low[column] = reusables.box_lower[column, entry]
        box.published_high[column] = reusables.box_upper[column, entry]
    state.counters[USES] += 1
    reusables.used[entry] = state.counters[USES]
    # Compute the loss again: an observed domain may have grown since the box was first published.
    loss = box_loss(state.domain, box.published_low, box.published_high)
    group = add_group(state.counters, output, REUSED, box, loss, event)
    add_row(state.counters, output, rows_of(state).position[at], group)
    if settings.shape.on:
        make_room(state, settings, 1)
        note_row(state, box, at)
    return True
