"""best_selection (CASTLE, section 4.1): find the open cluster that an arriving row enlarges least."""

import numpy as np

from castleguard.kernels.arrays import Floats
from castleguard.kernels.chacha import TIE, begin_event, pick
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.loss import LEAVES, NUMERIC, PAIR_LOSSES, Domain, value_loss
from castleguard.kernels.state import EPS, OPEN, Settings, State
from castleguard.kernels.views import Clusters, clusters_of, draws_of


@kernel
def enlargements(clusters: Clusters, domain: Domain, point: Floats, gain: Floats) -> None:
    """Compute the growth of each slot's loss times the number of attributes; free slots get arbitrary values.

    Runs attribute by attribute along all clusters, without branches for numbers: this loop dominates the run time.
    """
    slots = gain.size
    for slot in range(slots):
        gain[slot] = 0.0
    for column in range(point.size):
        value = point[column]
        lower = clusters.lower[column]
        upper = clusters.upper[column]
        layout = domain.layout[column]
        if layout[NUMERIC] == 1:
            width = domain.bounds[1, column] - domain.bounds[0, column]
            scale = 1.0 / width if width > 0.0 else 0.0
            for slot in range(slots):
                below = lower[slot] - value
                above = value - upper[slot]
                beyond = below if below > above else above
                gain[slot] += (beyond if beyond > 0.0 else 0.0) * scale
        elif layout[PAIR_LOSSES] >= 0:
            leaves = layout[LEAVES]
            table = domain.pool[layout[PAIR_LOSSES] : layout[PAIR_LOSSES] + leaves * leaves]
            for slot in range(slots):
                low = lower[slot]
                high = upper[slot]
                if value < low or value > high:
                    wide = table[np.int64(min(value, low)) * leaves + np.int64(max(value, high))]
                    gain[slot] += wide - table[np.int64(low) * leaves + np.int64(high)]
        else:
            for slot in range(slots):
                low = lower[slot]
                high = upper[slot]
                if value < low or value > high:
                    wide = value_loss(domain, column, min(value, low), max(value, high))
                    gain[slot] += wide - value_loss(domain, column, low, high)


@kernel
def loss_with(clusters: Clusters, domain: Domain, slot: Int, point: Floats) -> float:
    """InfoLoss of the cluster after adding `point`."""
    total = 0.0
    for column in range(point.size):
        low = min(point[column], clusters.lower[column, slot])
        high = max(point[column], clusters.upper[column, slot])
        total += value_loss(domain, column, low, high)
    return total / point.size


@kernel
def nth_oldest(clusters: Clusters, gain: Floats, number: Int) -> Int:
    """Slot of the candidate (gain 0) with the number-th smallest creation number."""
    floor = np.int64(-1)
    best = -1
    for _ in range(number + 1):
        best = -1
        for slot in range(gain.size):
            born = clusters.born[slot]
            if gain[slot] == 0.0 and born > floor and (best < 0 or born < clusters.born[best]):
                best = slot
        floor = clusters.born[best]
    return best


@kernel
def smallest_of(clusters: Clusters, gain: Floats) -> Int:
    """Keep only the candidates with the fewest persons; return the number left."""
    fewest = np.int64(-1)
    for slot in range(gain.size):
        if gain[slot] == 0.0 and (fewest < 0 or clusters.persons[slot] < fewest):
            fewest = clusters.persons[slot]
    left = 0
    for slot in range(gain.size):
        if gain[slot] == 0.0:
            if clusters.persons[slot] == fewest:
                left += 1
            else:
                gain[slot] = 1.0
    return left


@kernel
def keep_least(clusters: Clusters, gain: Floats, slack: float) -> Int:
    """Turn gains into marks, 0 for every open cluster within `slack` of the least gain, else 1; return the zeros."""
    least = np.inf
    for slot in range(gain.size):
        if clusters.born[slot] >= 0 and gain[slot] < least:
            least = gain[slot]
    found = 0
    for slot in range(gain.size):
        if clusters.born[slot] >= 0 and gain[slot] <= least + slack:
            gain[slot] = 0.0
            found += 1
        else:
            gain[slot] = 1.0
    return found


@kernel
def mark_fitting(clusters: Clusters, domain: Domain, point: Floats, threshold: float, full: bool, gain: Floats) -> Int:
    """Mark (gain 0) the clusters that may take the row, among those it enlarges least; return their number."""
    found = keep_least(clusters, gain, EPS * point.size)
    fitting: Int = 0
    for slot in range(gain.size):
        if gain[slot] == 0.0:
            if loss_with(clusters, domain, slot, point) <= threshold + EPS:
                fitting += 1
            else:
                gain[slot] = 2.0
    if fitting == 0 and full:
        for slot in range(gain.size):
            if gain[slot] == 2.0:
                gain[slot] = 0.0
        fitting = found
    return smallest_of(clusters, gain) if fitting > 1 else fitting


@kernel
def best_selection(state: State, settings: Settings, point: Floats, position: Int, gain: Floats) -> Int:
    """Return the slot of the cluster that takes the row; -1 = a new one."""
    clusters = clusters_of(state)
    threshold = state.levels[0]
    full = state.counters[OPEN] >= clusters.born.size
    enlargements(clusters, state.domain, point, gain)
    least = np.inf
    nearest: Int = -1
    for slot in range(gain.size):
        if clusters.born[slot] >= 0 and gain[slot] < least:
            least = gain[slot]
            nearest = slot
    if nearest < 0:
        return -1
    ties = 0
    for slot in range(gain.size):
        ties += clusters.born[slot] >= 0 and gain[slot] <= least + EPS * point.size
    if ties == 1:
        fits = full or loss_with(clusters, state.domain, nearest, point) <= threshold + EPS
        return nearest if fits else -1
    found = mark_fitting(clusters, state.domain, point, threshold, full, gain)
    if found == 0:
        return -1
    draws = draws_of(state)
    begin_event(draws)
    return nth_oldest(clusters, gain, pick(draws, TIE, position, found) if settings.random_ties else 0)
