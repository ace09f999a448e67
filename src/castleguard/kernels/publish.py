"""How a decision leaves the engine: groups and rows appended to the output, in the order of one release."""

import numpy as np

from castleguard.kernels.chacha import SHUFFLE, Draws, pick
from castleguard.kernels.compile import Int, allocating_kernel, kernel
from castleguard.kernels.loss import Domain, root_box
from castleguard.kernels.state import ARRIVALS, LONGEST_WAIT, REUSED, ROOT, SHUFFLED, Ints, Output
from castleguard.kernels.views import Box


@kernel
def add_group(counters: Ints, output: Output, kind: Int, box: Box, loss: float, event: Int) -> Int:
    """Open a published group under the box as it is published; its number."""
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
    """Open a group at the root, where nothing is said about the row."""
    root_box(domain, box.published_low, box.published_high)
    return add_group(counters, output, ROOT, box, 1.0, event)


@kernel
def add_drop(output: Output, position: Int) -> None:
    """Note a row that is not published at all."""
    output.dropped[output.used[2]] = position
    output.used[2] += 1


@allocating_kernel
def _sort_rows(position: Ints, group: Ints) -> None:
    """Sort rows by arrival, together with their groups."""
    ranks = np.argsort(position)
    position[:] = position[ranks]
    group[:] = group[ranks]


@kernel
def order_rows(draws: Draws, output: Output, start: Int, event: Int, order: Int) -> None:
    """Put the rows of one release, all from `start` on, into their order of output."""
    position = output.rows[0, start : output.used[0]]
    group = output.rows[1, start : output.used[0]]
    if position.size < 2:
        return
    if order == SHUFFLED:
        for last in range(position.size - 1, 0, -1):
            other = pick(draws, SHUFFLE, event, last + 1)
            position[last], position[other] = position[other], position[last]
            group[last], group[other] = group[other], group[last]
    else:
        _sort_rows(position, group)
