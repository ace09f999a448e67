"""The running distribution of sensitive values that t-closeness compares a group with.

Every arriving row counts once per sensitive column (Citadel: every row that leaves, once its release is made): for
ever, while it is among the latest ones, or with a weight that falls as rows follow. Falling weights are kept by letting
the weight of the newest row grow instead; when it has become large, everything is scaled down by a power of two, which
rounds nothing. So what is known after n rows depends on these rows alone, however they came.
"""

from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.state import DECAY, NEWEST, PUBLIC, REFERRED, SIZE, SUM, WINDOW, Floats, Shape, State
from castleguard.kernels.views import size_of, values_of

_LARGE = 2.0**100


@kernel
def value_at(state: State, at: Int, column: Int) -> Int:
    """The value of a pending row; a code that is none of the column's values is a missing one."""
    code = state.sensitive[at, column]
    last = size_of(state, column) - 1
    return code if 0 <= code < last else last


@kernel
def age(weights: Floats, facts: Floats, decay: float) -> None:
    """Let all rows so far weigh less than the one that comes."""
    while facts[NEWEST] > _LARGE:
        for value in range(weights.size):
            weights[value] /= _LARGE
        facts[NEWEST] /= _LARGE
        facts[SUM] /= _LARGE
    facts[NEWEST] /= decay


@kernel
def refer(state: State, shape: Shape, at: Int) -> None:
    """Count the row in ring slot `at`."""
    number = state.counters[REFERRED]
    state.counters[REFERRED] = number + 1
    if shape.reference == PUBLIC:
        return
    window = state.recent.shape[1]
    for column in range(state.sensitive.shape[1]):
        value = value_at(state, at, column)
        weights = values_of(state).reference[column]
        facts = values_of(state).facts[column]
        if shape.reference == DECAY:
            age(weights, facts, shape.decay)
        if shape.reference == WINDOW:
            place = number % window
            if number >= window:
                weights[state.recent[column, place]] -= 1.0
                facts[SUM] -= 1.0
            state.recent[column, place] = value
        weights[value] += facts[NEWEST]
        facts[SUM] += facts[NEWEST]


@kernel
def smoothing(state: State, shape: Shape, column: Int) -> tuple[float, float]:
    """(factor, offset): a value's share is its weight times the factor, plus the offset."""
    if shape.reference == PUBLIC:
        return 1.0, 0.0
    facts = values_of(state).facts[column]
    divisor = facts[SUM] / facts[NEWEST] + shape.alpha * facts[SIZE]
    return 1.0 / (facts[NEWEST] * divisor), shape.alpha / divisor
