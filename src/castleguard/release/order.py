"""Rows that wait for their turn: output in input order (CASTLE, Theorem 3).

A row that is decided early is held until every earlier row has been decided. It is then out no later than its own
expiry, so the delay still holds; but the members of a group trickle out, so k holds once the last of them is out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Leaving(NamedTuple):
    """Rows on their way out, in order of output. Groups are indices into the boxes."""

    position: NDArray[np.int64]  # (rows,)
    group: NDArray[np.int64]  # (rows,)
    lower: NDArray[np.float64]  # (groups, columns)
    upper: NDArray[np.float64]
    loss: NDArray[np.float64]  # (groups,)
    kind: NDArray[np.int64]  # (groups,)


def nothing_leaving(columns: int) -> Leaving:
    """No rows at all."""
    none = np.empty(0, dtype=np.int64)
    return Leaving(none, none, np.empty((0, columns)), np.empty((0, columns)), np.empty(0), none)


def join(one: Leaving, other: Leaving) -> Leaving:
    """Both, one after the other."""
    shifted = other._replace(group=other.group + one.loss.size)
    return Leaving(*(np.concatenate(pair) for pair in zip(one, shifted, strict=True)))


def select(leaving: Leaving, rows: NDArray[np.int64]) -> Leaving:
    """Only these rows, in this order, with only the boxes that they need."""
    groups, group = np.unique(leaving.group[rows], return_inverse=True)
    return Leaving(
        position=leaving.position[rows],
        group=group.astype(np.int64),
        lower=leaving.lower[groups],
        upper=leaving.upper[groups],
        loss=leaving.loss[groups],
        kind=leaving.kind[groups],
    )


class InputOrder:
    """Holds rows back until all earlier ones have been decided."""

    def __init__(self, columns: int) -> None:
        self.held = nothing_leaving(columns)

    def release(self, decided: Leaving, oldest: int) -> Leaving:
        """Take over decided rows; those before `oldest`, the first undecided position, leave in input order."""
        waiting = join(self.held, decided)
        order = np.argsort(waiting.position, kind="stable")
        turn = np.searchsorted(waiting.position[order], oldest)
        self.held = select(waiting, order[turn:])
        return select(waiting, order[:turn])
