"""How a decision leaves the engine: groups and rows appended to the output, in the order of one release."""

import numpy as np

from castleguard.kernels.chacha import SHUFFLE, Draws, pick
from castleguard.kernels.compile import allocating_kernel, kernel
from castleguard.kernels.loss import Point, root_box
from castleguard.kernels.state import (
    ARRIVALS,
    LONGEST_WAIT,
    REUSED,
    ROOT,
    SHUFFLED,
    Ints,
    Output,
    Slots,
    State,
    Work,
)


@kernel
def add_group(output: Output, kind: int, low: Point, high: Point, loss: float, event: int) -> int:
    """Open a published group; its number."""
    group = output.used[1]
    output.used[1] = group + 1
    for column in range(low.size):
        output.lower[group, column] = low[column]
        output.upper[group, column] = high[column]
    output.loss[group] = loss
    output.kind[group] = kind
    output.kept[group] = kind == REUSED
    output.event[group] = event
    return group


@kernel
def add_row(counters: Ints, output: Output, position: int, group: int) -> None:
    """Publish a row in a group."""
    at = output.used[0]
    output.used[0] = at + 1
    output.position[at] = position
    output.group[at] = group
    wait = counters[ARRIVALS] - 1 - position
    if wait > counters[LONGEST_WAIT]:
        counters[LONGEST_WAIT] = wait


@kernel
def add_root(state: State, work: Work, output: Output, event: int) -> int:
    """Open a group at the root, where nothing is said about the row."""
    root_box(state.domain, work.box_low, work.box_high)
    return add_group(output, ROOT, work.box_low, work.box_high, 1.0, event)


@kernel
def add_drop(output: Output, position: int) -> None:
    """Note a row that is not published at all."""
    output.dropped[output.used[2]] = position
    output.used[2] += 1


@allocating_kernel
def _sort_rows(position: Ints, group: Slots) -> None:
    """Sort rows by arrival, together with their groups."""
    ranks = np.argsort(position)
    position[:] = position[ranks]
    group[:] = group[ranks]


@kernel
def order_rows(draws: Draws, output: Output, start: int, event: int, order: int) -> None:
    """Put the rows of one release, all from `start` on, into their order of output."""
    count = output.used[0] - start
    if count < 2:
        return
    if order == SHUFFLED:
        for last in range(count - 1, 0, -1):
            other = start + pick(draws, SHUFFLE, event, last + 1)
            at = start + last
            output.position[at], output.position[other] = output.position[other], output.position[at]
            output.group[at], output.group[other] = output.group[other], output.group[at]
    else:
        _sort_rows(output.position[start : start + count], output.group[start : start + count])
