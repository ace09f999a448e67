"""Which settings nothing beats: the Pareto set, and the point of it that lies nearest to the ideal."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Points = NDArray[np.float64]  # (settings, criteria), less is better in each


def pareto(points: ArrayLike) -> NDArray[np.bool_]:
    """Whether each point is in the Pareto set: no other is at most as large in all criteria and smaller in one.

    Equal points are in it together, or not at all.

    >>> pareto([[1, 4], [2, 2], [3, 3], [4, 1]]).tolist()
    [True, True, False, True]
    """
    given = np.asarray(points, dtype=np.float64)
    beaten = [bool(((given <= point).all(axis=1) & (given < point).any(axis=1)).any()) for point in given]
    return ~np.array(beaten, dtype=np.bool_)


def distances_to_ideal(points: ArrayLike) -> NDArray[np.float64]:
    """How far each point is from the one that has the least of every criterion, each scaled to reach from 0 to 1.

    A criterion in which all are equal does not count.

    >>> distances_to_ideal([[0, 10], [10, 0], [1, 1]]).round(2).tolist()
    [1.0, 1.0, 0.14]
    """
    given = np.asarray(points, dtype=np.float64)
    least = given.min(axis=0)
    width = given.max(axis=0) - least
    scaled = (given - least) / np.where(width > 0, width, 1.0)
    found: NDArray[np.float64] = np.sqrt((scaled**2).sum(axis=1))
    return found
