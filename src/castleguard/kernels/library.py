"""Narrow reuse: boxes of earlier releases that a due row may join.

Less is lost that way, and less is promised: a row that joins a published box leaves alone, and who knows when it
arrived knows its values. The boxes are kept as CASTLE keeps its generalisations (`reuse.py`).
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.chacha import REUSE, begin_event, pick
from castleguard.kernels.citadel_state import AGAIN, ENTRY, MEMBER, REUSER, Axes, Settings, Work
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.growth import point_at
from castleguard.kernels.loss import box_loss, publish_box, stretch
from castleguard.kernels.neighbours import count_near
from castleguard.kernels.publish import add_group, add_row
from castleguard.kernels.reuse import mark_containing
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import REUSABLE, REUSED, USES, Output, State
from castleguard.kernels.views import box_of, draws_of, reusables_of

NO_ENTRY = -1
_CROWDED = np.float32(0.3)  # k rows within this share of a box's width may make a narrower one


@kernel
def entry_loss(state: State, entry: Int) -> float:
    """The loss of a published box."""
    reusables = reusables_of(state)
    return box_loss(state.domain, reusables.box_lower[:, entry], reusables.box_upper[:, entry])


@kernel
def find_entry(state: State, work: Work, at: Int) -> Int:
    """The narrowest published box that contains the row in ring slot `at`; NO_ENTRY if none does."""
    entries = state.counters[REUSABLE]
    if mark_containing(reusables_of(state), entries, state.quasi[at], 0, work.inside) == 0:
        return NO_ENTRY
    best = NO_ENTRY
    least = np.inf
    for entry in range(entries):
        if work.inside[entry]:
            loss = entry_loss(state, entry)
            if loss < least:
                least = loss
                best = entry
    return best


@kernel
def is_crowded(state: State, settings: Settings, axes: Axes, work: Work, at: Int, entry: Int) -> Bool:
    """Whether so many pending rows are near a row that they may make a narrower box than the published one."""
    needed = settings.k if state.person[at] == NO_PERSON else settings.k - 1
    radius = _CROWDED * np.float32(entry_loss(state, entry) * axes.column.size)
    point_at(state, axes, at, work.grown[0])
    return count_near(state.domain, axes, work, work.grown[0], radius) >= needed


@kernel
def box_rows(state: State, work: Work, slots: Ints) -> float:
    """The box of rows by their ring slots, as `views.Box`; its loss as it is published."""
    box = box_of(work)
    for column in range(box.low.size):
        box.low[column] = state.quasi[slots[0], column]
        box.high[column] = state.quasi[slots[0], column]
    for at in slots:
        stretch(box.low, box.high, state.quasi[at])
    publish_box(state.domain, box.low, box.high, box.published_low, box.published_high)
    return box_loss(state.domain, box.published_low, box.published_high)


@kernel
def is_narrower(state: State, work: Work, count: Int, entry: Int) -> Bool:
    """Whether the group in hand is published with less loss than a published box."""
    return box_rows(state, work, work.slots[MEMBER, :count]) < entry_loss(state, entry)


@kernel
def join_box(state: State, settings: Settings, work: Work, at: Int, narrowest: Int) -> None:
    """Let a row join one of the published boxes that contain it and are little wider than the narrowest, at random."""
    most = entry_loss(state, narrowest) * (1.0 + settings.slack)
    found = 0
    for entry in range(state.counters[REUSABLE]):
        work.inside[entry] = work.inside[entry] and entry_loss(state, entry) <= most
        found += work.inside[entry]
    draws = draws_of(state)
    begin_event(draws)
    skip = pick(draws, REUSE, state.link[0, at], found)
    entry = 0
    while skip > 0 or not work.inside[entry]:
        skip -= work.inside[entry]
        entry += 1
    state.counters[USES] += 1
    reusables_of(state).used[entry] = state.counters[USES]
    work.slots[REUSER, work.sizes[AGAIN]] = at
    work.slots[ENTRY, work.sizes[AGAIN]] = entry
    work.sizes[AGAIN] += 1


@kernel
def publish_again(state: State, work: Work, output: Output, number: Int, event: Int) -> None:
    """Publish a row that has joined a published box."""
    reusables = reusables_of(state)
    at = work.slots[REUSER, number]
    entry = work.slots[ENTRY, number]
    box = box_of(work)
    for column in range(box.low.size):
        box.published_low[column] = reusables.box_lower[column, entry]
        box.published_high[column] = reusables.box_upper[column, entry]
    loss = box_loss(state.domain, box.published_low, box.published_high)
    group = add_group(state.counters, output, REUSED, box, loss, event)
    add_row(state.counters, output, state.link[0, at], group)
