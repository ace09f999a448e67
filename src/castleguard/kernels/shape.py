"""Shortfall of a group's sensitive values against entropy or (c, l)-diversity and t-closeness.

CASTLE counts distinct (person, value) pairs, Citadel counts rows; one sensitive column at a time. A lack is 0 if the
criteria are met and positive otherwise, so that a merge can tell whether a neighbour helps.
"""

import numpy as np

from castleguard.kernels.arrays import Floats, Ints
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.counts import count_in
from castleguard.kernels.reference import smoothing, value_at
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import (
    DISTINCT,
    ENTROPY,
    EPS,
    EQUAL,
    NO_DISTANCE,
    NODES,
    ORDERED,
    REFERRED,
    CountScratch,
    Criteria,
    State,
)
from castleguard.kernels.views import size_of, tally_of, values_of

_LEAST_LACK = 1e-9  # minimum lack of a group that misses (c, l): equality misses it too


@kernel
def entropy_of(counts: Floats, less: Floats, total: float) -> float:
    """Shannon entropy in nats of counts minus `less`."""
    found = 0.0
    for value in range(counts.size):
        count = counts[value] - less[value]
        if count > 0.0:
            share = count / total
            found -= share * np.log(share)
    return found


@kernel
def excess_of(counts: Floats, less: Floats, total: float, settings: Criteria, top: Floats) -> float:
    """Count of the most frequent value minus c times the counts from the l-th value on; `top` is scratch space."""
    kept = settings.l - 1
    for place in range(kept):
        top[place] = 0.0
    for value in range(counts.size):
        count = counts[value] - less[value]
        for place in range(kept):
            if count > top[place]:
                count, top[place] = top[place], count
    tail = total
    for place in range(kept):
        tail -= top[place]
    return top[0] - settings.shape.c * tail


@kernel
def climb(state: State, work: CountScratch, column: Int) -> float:
    """Hierarchical distance, from the surplus of each leaf in the tally."""
    tally = tally_of(work)
    values = values_of(state)
    moved = 0.0
    # A child comes after its parent, so the reverse order visits all children of a node before the node itself.
    for node in range(np.int64(values.facts[column, NODES]) - 1, -1, -1):
        extra = tally.extra[node]
        too_much = tally.too_much[node]
        moved += values.heights[column, node] * min(too_much, too_much - extra)
        if node > 0:
            above = np.int64(values.parents[column, node])
            tally.extra[above] += extra
            if extra > 0.0:
                tally.too_much[above] += extra
    return moved


@kernel
def distance_of(
    state: State, settings: Criteria, work: CountScratch, column: Int, counts: Floats, total: float
) -> float:
    """Earth mover's distance between the counts and the reference."""
    shape = settings.shape
    factor, offset = smoothing(state, shape, column)
    values = values_of(state)
    reference = values.reference[column]
    moved = 0.0
    if shape.distance == EQUAL:
        for value in range(counts.size):
            more = counts[value] / total - (reference[value] * factor + offset)
            if more > 0.0:
                moved += more
        return moved
    if shape.distance == ORDERED:
        ahead = 0.0
        for value in range(counts.size - 1):
            ahead += counts[value] / total - (reference[value] * factor + offset)
            moved += abs(ahead)
        return moved / (counts.size - 1)
    tally = tally_of(work)
    for node in range(np.int64(values.facts[column, NODES])):
        tally.extra[node] = 0.0
        tally.too_much[node] = 0.0
    for value in range(counts.size):
        tally.extra[np.int64(values.nodes[column, value])] = counts[value] / total - (
            reference[value] * factor + offset
        )
    return climb(state, work, column)


@kernel
def lack_of_diversity(settings: Criteria, counts: Floats, less: Floats, top: Floats) -> float:
    """Shortfall of counts minus `less` against entropy or (c, l)-diversity; `top` is scratch space."""
    total = 0.0
    for value in range(counts.size):
        total += counts[value] - less[value]
    if settings.shape.diversity == ENTROPY:
        short = np.log(settings.l) - (entropy_of(counts, less, total) if total > 0.0 else 0.0)
        return short if short > EPS else 0.0
    excess = excess_of(counts, less, total, settings, top)
    return max(excess / max(total, 1.0), _LEAST_LACK) if excess >= 0.0 else 0.0


@kernel
def lack_of_counts(
    state: State, settings: Criteria, work: CountScratch, column: Int, counts: Floats, no_person: Floats
) -> float:
    """Shortfall of one column's value counts; 0 = criteria met.

    `no_person` is 1 for a value whose counts include a pair of NO_PERSON: diversity must hold with and without these
    pairs, so that NO_PERSON cannot add to l. For closeness NO_PERSON is one person.
    """
    shape = settings.shape
    total = 0.0
    unnamed = 0.0
    for value in range(counts.size):
        total += counts[value]
        unnamed += no_person[value]
    lack = 0.0
    if shape.diversity != DISTINCT:
        tally = tally_of(work)
        lack = lack_of_diversity(settings, counts, tally.nothing[: counts.size], tally.extra)
        if unnamed > 0.0:
            lack = max(lack, lack_of_diversity(settings, counts, no_person, tally.extra))
    if shape.distance != NO_DISTANCE:
        far = distance_of(state, settings, work, column, counts, total) - shape.t
        lack += far if far > EPS else 0.0
    return lack


@kernel
def is_burnt_in(state: State, settings: Criteria) -> Bool:
    """Whether the reference has counted enough rows to be meaningful."""
    return state.counters[REFERRED] >= settings.shape.burn_in


@kernel
def lack_of_rows(state: State, settings: Criteria, work: CountScratch, slots: Ints) -> float:
    """Shortfall of rows, by their ring slots, as one group, over all sensitive columns."""
    capacity = 16
    while capacity < 2 * slots.size:
        capacity *= 2
    seen = work.table[:capacity]
    lack = 0.0
    for column in range(state.sensitive.shape[1]):
        counts = tally_of(work).alone[: size_of(state, column)]
        no_person = tally_of(work).no_person_alone[: counts.size]
        for place in range(counts.size):
            counts[place] = 0.0
            no_person[place] = 0.0
        for place in range(capacity):
            seen[place, 1] = np.uint64(0)
        for at in slots:
            value = value_at(state, at, column)
            if count_in(seen, value, state.person[at]) == 1:
                counts[value] += 1.0
                no_person[value] += state.person[at] == NO_PERSON
        lack += lack_of_counts(state, settings, work, column, counts, no_person)
    return lack


@kernel
def lack_by_row(state: State, settings: Criteria, work: CountScratch, slots: Ints) -> float:
    """Shortfall of rows, by their ring slots, counting every row of any person: verdicts are symmetric in the rows."""
    tally = tally_of(work)
    lack = 0.0
    for column in range(state.sensitive.shape[1]):
        counts = tally.alone[: size_of(state, column)]
        for place in range(counts.size):
            counts[place] = 0.0
        for at in slots:
            counts[value_at(state, at, column)] += 1.0
        lack += lack_of_counts(state, settings, work, column, counts, tally.nothing[: counts.size])
    return lack
