"""The running distribution of sensitive values that t-closeness compares a group with.

Every arriving row counts once per sensitive column: for ever, while it is among the latest ones, or with a weight that
falls as rows follow. Falling weights are kept by letting the weight of the newest row grow instead; when it has become
large, everything is scaled down by a power of two, which rounds nothing. So what is known after n rows depends on
these rows alone, however they came.
"""

from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.state import ANYHOW, DECAY, PUBLIC, REFERRED, WINDOW, Shape, State

_LARGE = 2.0**100


@kernel
def value_at(state: State, at: Int, column: Int) -> Int:
    """The value of a pending row; a code that is none of the column's values is a missing one."""
    code = state.sensitive[at, column]
    last = state.values.sizes[column, 0] - 1
    return code if 0 <= code < last else last


@kernel
def refer(state: State, shape: Shape, at: Int) -> None:
    """Count the row that has just been written to ring slot `at`."""
    if shape.distance == ANYHOW:
        return
    number = state.counters[REFERRED]
    state.counters[REFERRED] = number + 1
    if shape.reference == PUBLIC:
        return
    columns = state.sensitive.shape[1]
    scale = state.reference[columns]  # the newest row's weight, and the sum of all
    if shape.reference == DECAY:
        while scale[0] > _LARGE:
            for column in range(columns + 1):
                for place in range(state.reference.shape[1]):
                    state.reference[column, place] /= _LARGE
        scale[0] /= shape.decay
    window = state.recent.shape[1]
    for column in range(columns):
        value = value_at(state, at, column)
        if shape.reference == WINDOW:
            place = number % window
            if number >= window:
                state.reference[column, state.recent[column, place]] -= 1.0
            state.recent[column, place] = value
        state.reference[column, value] += scale[0]
    if shape.reference != WINDOW or number < window:
        scale[1] += scale[0]


@kernel
def smoothing(state: State, shape: Shape, column: Int) -> tuple[float, float]:
    """(factor, offset): a value's share is its weight times the factor, plus the offset."""
    if shape.reference == PUBLIC:
        return 1.0, 0.0
    scale = state.reference[state.sensitive.shape[1]]
    divisor = scale[1] / scale[0] + shape.alpha * state.values.sizes[column, 0]
    return 1.0 / (scale[0] * divisor), shape.alpha / divisor
