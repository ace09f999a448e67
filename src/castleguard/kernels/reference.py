"""Running reference distribution of sensitive values for t-closeness.

Every arriving row counts once per sensitive column (Citadel: every released row, after its release): for ever, while
it is in the window of recent rows, or with a weight that decays as rows follow. Decay is implemented by increasing the
weight of the newest row instead; when it becomes large, everything is divided by a power of two, which is exact. The
state after n rows therefore depends on these rows alone, not on how they were batched.
"""

from castleguard.kernels.arrays import Floats
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.state import DECAY, NEWEST, PUBLIC, REFERRED, SIZE, SUM, WINDOW, Shape, State
from castleguard.kernels.views import size_of, values_of

_LARGE = 2.0**100


@kernel
def value_at(state: State, at: Int, column: Int) -> Int:
    """Value of a pending row; an unknown code counts as missing."""
    code = state.sensitive[at, column]
    last = size_of(state, column) - 1
    return code if 0 <= code < last else last


@kernel
def age(weights: Floats, facts: Floats, decay: float) -> None:
    """Increase the weight of the next row relative to all rows so far."""
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
    """Return (factor, offset): a value's share is its weight times the factor, plus the offset."""
    if shape.reference == PUBLIC:
        return 1.0, 0.0
    facts = values_of(state).facts[column]
    divisor = facts[SUM] / facts[NEWEST] + shape.alpha * facts[SIZE]
    return 1.0 / (facts[NEWEST] * divisor), shape.alpha / divisor
