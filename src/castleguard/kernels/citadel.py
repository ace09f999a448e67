"""Citadel: rows wait until they are due, and then groups are grown from what is pending (docs/concepts/citadel.md).

One call takes in a batch. Every `every` arrivals the rows that would be late at the next release are settled: around
each a group of k persons is grown, rows that find none join a group of the same release or the root, criteria are
judged over all groups, and the whole release is shuffled. Nothing is known between releases but the pending rows, with
narrow reuse the boxes that were published, and for closeness the values of the rows that have left.
"""

import numpy as np

from castleguard.kernels.chacha import SEED_BUCKET, begin_content, pick, ratchet
from castleguard.kernels.citadel_state import (
    AGAIN,
    BECOMES,
    DROPPED,
    EXHAUSTED,
    FAR,
    FEWEST,
    GROUP,
    GROUPS,
    HOME,
    LEFT,
    LEFT_OVER,
    LIVE,
    MEMBER,
    MOST,
    PENDING_ROW,
    PLACE,
    REUSES,
    ROWS,
    SCORE,
    SEED,
    SEEDS,
    START,
    STAYS,
    Axes,
    Settings,
    Work,
)
from castleguard.kernels.compile import Int, entry_kernel, inlined_kernel, kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest
from castleguard.kernels.forest import NOT_PUBLISHED, judge_groups
from castleguard.kernels.growth import grow, take_all
from castleguard.kernels.leftover import NO_GROUP, count_all, join_groups, make_root
from castleguard.kernels.library import (
    NO_ENTRY,
    box_rows,
    find_entry,
    is_crowded,
    is_narrower,
    join_box,
    publish_again,
)
from castleguard.kernels.publish import add_drop, add_group, add_root, add_row, order_rows
from castleguard.kernels.reference import refer
from castleguard.kernels.reuse import admit
from castleguard.kernels.ring import is_pending, skip_gone, take_in
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.sorting import lower_half, make_key, sort_keys
from castleguard.kernels.state import (
    ARRIVALS,
    AT_ROOT,
    GONE,
    NEW,
    NO_DISTANCE,
    OLDEST,
    PENDING,
    SHUFFLED,
    Batch,
    Output,
    State,
)
from castleguard.kernels.tree import make_tree, part_of, take_out
from castleguard.kernels.views import box_of, draws_of, rows_of


@kernel
def list_due(state: State, work: Work, limit: Int) -> None:
    """List the pending rows before `limit` by arrival: those that look for a group, and those for the root alone."""
    rows = rows_of(state)
    work.sizes[SEEDS] = 0
    work.sizes[LEFT] = 0
    for position in range(state.counters[OLDEST], limit):
        at = position % rows.position.size
        if rows.cluster[at] == PENDING_ROW:
            work.slots[SEED, work.sizes[SEEDS]] = at
            work.sizes[SEEDS] += 1
        elif rows.cluster[at] == AT_ROOT:
            work.slots[LEFT_OVER, work.sizes[LEFT]] = at
            work.sizes[LEFT] += 1


@kernel
def digest_due(state: State, limit: Int) -> np.int64:
    """The digest of the rows that are due, without their sensitive values: these must not steer anything."""
    rows = rows_of(state)
    quasi = rows.quasi.view(np.int64)
    columns = quasi.shape[1]
    digest = begin_digest(draws_of(state))
    words = 0
    for position in range(state.counters[OLDEST], limit):
        if is_pending(rows, position):
            at = position % rows.position.size
            digest = add_number(add_number(digest, position), rows.person[at])
            for column in range(columns):
                digest = add_number(digest, quasi[at, column])
            words += 2 + columns
    return end_digest(digest, words)


@kernel
def order_seeds(state: State, work: Work, limit: Int) -> None:
    """Put the rows that look for a group into their order: those in narrow parts first, of equals by secret draws."""
    draws = draws_of(state)
    count = work.sizes[SEEDS]
    seeds = work.slots[SEED]
    begin_content(draws, digest_due(state, limit))
    for last in range(count - 1, 0, -1):
        other = pick(draws, SEED_BUCKET, state.counters[ARRIVALS], last + 1)
        seeds[last], seeds[other] = seeds[other], seeds[last]
    width = work.near[SCORE]
    bits = width.view(np.uint32)
    keys = work.keys[0]
    drawn = work.slots[MEMBER]
    for number in range(count):
        at = seeds[number]
        width[number] = FAR if state.person[at] == NO_PERSON else work.spread[part_of(work, work.slots[PLACE, at])]
        keys[number] = make_key(bits[number], number)
        drawn[number] = at
    sort_keys(keys, 0, count)
    for number in range(count):
        seeds[number] = drawn[lower_half(keys[number])]


@kernel
def add_grown(work: Work, count: Int, most: Int) -> None:
    """Enter the group in hand. Its rows leave the company."""
    group = work.sizes[GROUPS]
    work.sizes[GROUPS] = group + 1
    work.groups[ROWS, group] = count
    work.groups[MOST, group] = most
    for axis in range(work.grown.shape[1]):
        work.centre[0, axis, group] = work.grown[0, axis]
        work.centre[1, axis, group] = work.grown[1, axis]
    for row in range(count):
        at = work.slots[MEMBER, row]
        work.slots[GROUP, at] = group
        if work.slots[PLACE, at] >= 0:
            take_out(work, at)


@kernel
def make_group(state: State, settings: Settings, work: Work, seed: Int, limit: Int, spare: bool) -> tuple[Int, Int]:
    """A group around a seed, which is not in the tree any more: its rows, listed as members, and the most rows that a
    person has in it. (0, 0): there is none. `spare`: the rows that are left need not all go with it.
    """
    live = work.sizes[LIVE] + (state.person[seed] != NO_PERSON)
    if settings.k <= live < 2 * settings.k and not spare:
        count, most = take_all(state, settings, settings.axes, work, seed)
        if count > 0:
            return count, most
    if work.sizes[EXHAUSTED] == 1:
        return 0, 0
    count = grow(state, settings, settings.axes, work, seed, limit)
    if count == 0:
        work.sizes[EXHAUSTED] = 1
    return count, min(count, 1)


@kernel
def settle_seed(state: State, settings: Settings, axes: Axes, work: Work, seed: Int, limit: Int) -> None:
    """Find a group for a due row: a box that is published already, a new group, or none."""
    work.sizes[HOME] = 0
    if work.slots[PLACE, seed] >= 0:
        work.sizes[HOME] = part_of(work, work.slots[PLACE, seed])
        take_out(work, seed)
    entry = find_entry(state, work, seed) if settings.narrow else NO_ENTRY
    if entry == NO_ENTRY or is_crowded(state, settings, axes, work, seed, entry):
        count, most = make_group(state, settings, work, seed, limit, entry != NO_ENTRY)
        if count > 0 and (entry == NO_ENTRY or is_narrower(state, work, count, entry)):
            add_grown(work, count, most)
            return
    if entry == NO_ENTRY:
        work.slots[LEFT_OVER, work.sizes[LEFT]] = seed
        work.sizes[LEFT] += 1
    else:
        work.slots[GROUP, seed] = REUSES
        join_box(state, settings, work, seed, entry)


@kernel
def missing_groups(settings: Settings, work: Work, root: Int) -> Int:
    """How many groups of k rows a release is short of whole trees: of `whole` groups, or of half as many, and so on,
    if the company that is left does not suffice.
    """
    count = 0
    for group in range(work.sizes[GROUPS]):
        count += group != root and work.groups[ROWS, group] == settings.k
    if count == 0:
        return 0
    spare = work.sizes[LIVE] // settings.k
    step = settings.whole
    while step >= FEWEST:
        if -count % step <= spare:
            return -count % step
        step //= 2
    return 0


@kernel
def top_up(state: State, settings: Settings, work: Work, limit: Int, root: Int) -> None:
    """Grow further groups around the oldest company rows, so that criteria are judged over large trees alone.

    A small block often lacks the criteria as a whole, and its rows are suppressed. Values are not looked at.
    """
    if settings.narrow or (settings.l == 1 and not settings.shape.on) or work.sizes[EXHAUSTED] == 1:
        return
    missing = missing_groups(settings, work, root)
    capacity = state.person.size
    position = state.counters[OLDEST]
    while missing > 0 and position < state.counters[ARRIVALS]:
        at = position % capacity
        position += 1
        if work.slots[PLACE, at] < 0 or work.slots[GROUP, at] != STAYS:
            continue
        work.sizes[HOME] = part_of(work, work.slots[PLACE, at])
        take_out(work, at)
        count = grow(state, settings, settings.axes, work, at, limit)
        if count == 0:
            return  # too few persons are left, and the row waits on
        add_grown(work, count, 1)
        missing -= 1


@kernel
def list_by_group(state: State, work: Work) -> None:
    """List the rows of all groups as members, group by group, in each by arrival."""
    groups = work.groups
    count = work.sizes[GROUPS]
    start = 0
    for group in range(count):
        groups[START, group] = start
        start += groups[ROWS, group]
        groups[BECOMES, group] = groups[START, group]
    capacity = state.person.size
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        at = position % capacity
        group = work.slots[GROUP, at]
        if group >= 0:
            work.slots[MEMBER, groups[BECOMES, group]] = at
            groups[BECOMES, group] += 1


@kernel
def find_centres(axes: Axes, work: Work) -> None:
    """The centre of every group."""
    half = np.float32(0.5)
    for axis in range(axes.scale.size):
        for group in range(work.sizes[GROUPS]):
            low, high = work.centre[0, axis, group], work.centre[1, axis, group]
            work.centre[2, axis, group] = half * (low + high) * axes.scale[axis]


@kernel
def unite_groups(state: State, work: Work) -> None:
    """Give rows the numbers of the groups that they are published with, and list them again."""
    groups = work.groups
    for group in range(work.sizes[GROUPS]):
        into = groups[BECOMES, group]
        for row in range(groups[START, group], groups[START, group] + groups[ROWS, group]):
            work.slots[GROUP, work.slots[MEMBER, row]] = DROPPED if into == NOT_PUBLISHED else into
    for group in range(work.sizes[GROUPS]):
        into = groups[BECOMES, group]
        if into != group:
            rows = groups[ROWS, group]
            groups[ROWS, group] = 0
            if into != NOT_PUBLISHED:
                groups[ROWS, into] += rows
    list_by_group(state, work)


@kernel
def publish_groups(state: State, settings: Settings, work: Work, output: Output, root: Int) -> None:
    """Append the release to the output, and shuffle its rows."""
    rows = rows_of(state)
    event = state.counters[ARRIVALS]
    begin = output.used[0]
    for number in range(work.sizes[AGAIN]):
        publish_again(state, work, output, number, event)
    for number in range(work.sizes[GROUPS]):
        count = work.groups[ROWS, number]
        if count == 0 or number == root:
            continue
        start = work.groups[START, number]
        members = work.slots[MEMBER, start : start + count]
        loss = box_rows(state, work, members)
        group = add_group(state.counters, output, NEW, box_of(work), loss, event)
        if settings.narrow:
            admit(state, box_of(work), False)
            output.marks[1, group] = 1
        for at in members:
            add_row(state.counters, output, rows.position[at], group)
    if root != NO_GROUP and work.groups[ROWS, root] > 0:
        start = work.groups[START, root]
        group = add_root(state.counters, state.domain, box_of(work), output, event)
        for at in work.slots[MEMBER, start : start + work.groups[ROWS, root]]:
            add_row(state.counters, output, rows.position[at], group)
    order_rows(state, output, begin, event, SHUFFLED)


@kernel
def let_go(state: State, settings: Settings, work: Work, output: Output) -> None:
    """Take the rows of the release out of the ring, and note those that are not published.

    All of them, published or not, enter the reference of closeness together: later releases are compared with it.
    """
    rows = rows_of(state)
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        at = position % rows.position.size
        if rows.cluster[at] == GONE or work.slots[GROUP, at] == STAYS:
            continue
        if work.slots[GROUP, at] == DROPPED:
            add_drop(output, position, state.counters[ARRIVALS])
        if settings.shape.distance != NO_DISTANCE:
            refer(state, settings.shape, at)
        rows.cluster[at] = GONE
        state.counters[PENDING] -= 1
    skip_gone(state)


@kernel
def settle(state: State, settings: Settings, work: Work, output: Output, limit: Int) -> None:
    """One release: all pending rows before position `limit` leave, and others with them."""
    axes = settings.axes
    skip_gone(state)
    list_due(state, work, limit)
    if work.sizes[SEEDS] + work.sizes[LEFT] == 0:
        return
    make_tree(state, axes, work)
    order_seeds(state, work, limit)
    work.sizes[GROUPS] = 0
    work.sizes[AGAIN] = 0
    work.sizes[EXHAUSTED] = 0
    capacity = state.person.size
    for position in range(state.counters[OLDEST], state.counters[ARRIVALS]):
        work.slots[GROUP, position % capacity] = STAYS
    for number in range(work.sizes[SEEDS]):
        if work.slots[GROUP, work.slots[SEED, number]] == STAYS:  # it has not left as company
            settle_seed(state, settings, axes, work, work.slots[SEED, number], limit)
    root: Int = NO_GROUP
    if work.sizes[LEFT] > 0:
        count_all(state, work)
        join_groups(state, settings, axes, work)
        root = make_root(state, settings, work)
    top_up(state, settings, work, limit, root)
    list_by_group(state, work)
    find_centres(axes, work)
    judge_groups(state, settings, axes, work, work.sizes[GROUPS], root)
    unite_groups(state, work)
    publish_groups(state, settings, work, output, root)
    let_go(state, settings, work, output)


@inlined_kernel
def arrive(state: State, batch: Batch, row: Int, now: float) -> Int:
    """Let a row of the batch wait in the ring; its position."""
    rows = rows_of(state)
    ratchet(draws_of(state), state.counters[ARRIVALS])
    position = take_in(state, batch, row, now)
    at = position % rows.position.size
    rows.cluster[at] = GONE
    if batch.present[row]:
        rows.cluster[at] = AT_ROOT if batch.to_root[row] else PENDING_ROW
        state.counters[PENDING] += 1
    return position


@kernel
def first_in_time(state: State, max_wait: float, now: float) -> Int:
    """The position of the first pending row that has not waited `max_wait` seconds yet, or the end."""
    skip_gone(state)
    rows = rows_of(state)
    position = state.counters[OLDEST]
    while position < state.counters[ARRIVALS]:
        at = position % rows.position.size
        if rows.cluster[at] != GONE and rows.arrived[at] + max_wait > now:
            break
        position += 1
    return position


@entry_kernel
def run(state: State, settings: Settings, work: Work, output: Output, batch: Batch, now: float, last: bool) -> None:
    """Let rows leave that have waited too long, take in a batch that arrives `now`, and flush if it is the last.

    One entry for all three: the compiler builds the machinery below it once.
    """
    arriving = 0
    turn = 0 if settings.max_wait < np.inf else 1
    while turn < 3:
        # A turn is a release by time, then arrivals up to the next release, then the flush.
        limit: Int = state.counters[OLDEST]
        if turn == 0:
            limit = first_in_time(state, settings.max_wait, now)
            turn = 1
        elif turn == 1:
            if arriving == batch.person.size:
                turn = 2
                continue
            position = arrive(state, batch, arriving, now)
            arriving += 1
            if (position + 1) % settings.every == 0:
                limit = position + settings.every - settings.delay
        else:
            turn = 3
            limit = state.counters[ARRIVALS] if last else limit
        if limit > state.counters[OLDEST]:
            settle(state, settings, work, output, limit)
