"""Append decided groups and rows to the engine's output, in the order of one release."""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.chacha import SHUFFLE, begin_content, pick
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest
from castleguard.kernels.loss import Domain, root_box
from castleguard.kernels.sorting import sort_with
from castleguard.kernels.state import ARRIVALS, LONGEST_WAIT, REUSED, ROOT, SHUFFLED, Output, State
from castleguard.kernels.views import Box, draws_of, rows_of


@kernel
def add_group(counters: Ints, output: Output, kind: Int, box: Box, loss: float, event: Int) -> Int:
    """Open a group with the published box; return its number."""
    group = output.used[1]
    output.used[1] = group + 1
    for column in range(box.low.size):
        output.bounds[0, group, column] = box.published_low[column]
        output.bounds[1, group, column] = box.published_high[column]
    output.loss[group] = loss
    output.marks[0, group] = kind
    output.marks[1, group] = 1 if kind == REUSED else 0
    output.marks[2, group] = event
    output.marks[3, group] = counters[ARRIVALS]
    return group


@kernel
def add_row(counters: Ints, output: Output, position: Int, group: Int) -> None:
    """Publish a row in a group."""
    at = output.used[0]
    output.used[0] = at + 1
    output.rows[0, at] = position
    output.rows[1, at] = group
    wait = counters[ARRIVALS] - 1 - position
    if wait > counters[LONGEST_WAIT]:
        counters[LONGEST_WAIT] = wait


@kernel
def add_root(counters: Ints, domain: Domain, box: Box, output: Output, event: Int) -> Int:
    """Open a group at the root, which reveals nothing about the row."""
    root_box(domain, box.published_low, box.published_high)
    return add_group(counters, output, ROOT, box, 1.0, event)


@kernel
def add_drop(output: Output, position: Int, seen: Int) -> None:
    """Record a row that is not published."""
    output.dropped[0, output.used[2]] = position
    output.dropped[1, output.used[2]] = seen
    output.used[2] += 1


@kernel
def digest_release(state: State, position: Ints) -> np.int64:
    """Digest of the positions and contents of rows that are released together."""
    rows = rows_of(state)
    quasi = rows.quasi.view(np.int64)
    columns, sensitive = quasi.shape[1], rows.sensitive.shape[1]
    digest = begin_digest(draws_of(state))
    for row in range(position.size):
        at = position[row] % rows.position.size
        digest = add_number(add_number(digest, position[row]), rows.person[at])
        for column in range(columns):
            digest = add_number(digest, quasi[at, column])
        for column in range(sensitive):
            digest = add_number(digest, rows.sensitive[at, column])
    return end_digest(digest, position.size * (2 + columns + sensitive))


@kernel
def order_rows(state: State, output: Output, start: Int, event: Int, order: Int) -> None:
    """Put the rows of one release, all from `start` on, into output order.

    The ring still holds these rows: nothing arrives before they are in order.
    """
    position = output.rows[0, start : output.used[0]]
    group = output.rows[1, start : output.used[0]]
    if position.size < 2:
        return
    if order == SHUFFLED:
        draws = draws_of(state)
        begin_content(draws, digest_release(state, position))
        for last in range(position.size - 1, 0, -1):
            other = pick(draws, SHUFFLE, event, last + 1)
            position[last], position[other] = position[other], position[last]
            group[last], group[other] = group[other], group[last]
    else:
        sort_with(position, group)
