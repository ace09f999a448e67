"""Compare settings by loss, risk, delay and the delta of a claim, and find the Pareto set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.parameter_grid import Setting

Points = NDArray[np.float64]  # (settings, criteria), less is better in each


@dataclass(frozen=True)
class Outcome:
    """A setting and its figures."""

    setting: Setting
    figures: Figures


@dataclass(frozen=True, eq=False)
class Weighed:
    """All settings of a sweep on the same axes."""

    outcomes: tuple[Outcome, ...]
    by_epsilon: bool
    """Whether the risk is epsilon; otherwise it is the mean re-identification risk."""
    points: Points
    """(settings, 4): loss, risk, delay, delta."""
    best: tuple[int, ...]
    """Indices of the settings in the Pareto set, lowest risk first."""

    @property
    def risk_name(self) -> str:
        """Name of the risk."""
        return "epsilon of the guarantee" if self.by_epsilon else "mean re-identification risk"

    @property
    def claims(self) -> tuple[str, ...]:
        """Distinct claims of the settings; only epsilons of the same claim are comparable."""
        return tuple(dict.fromkeys(outcome.setting.claim for outcome in self.outcomes))

    def loss(self, at: int) -> float:
        """Loss of a setting."""
        return float(self.points[at, 0])

    def risk(self, at: int) -> float:
        """Risk of a setting."""
        return float(self.points[at, 1])

    def delta(self, at: int) -> float:
        """Delta of a setting, if epsilon is its risk."""
        return float(self.points[at, 3])


NO_DELTA = 1e-9
"""A smaller delta counts as 0, because lowering it further brings no benefit."""


def weigh(outcomes: Sequence[Outcome]) -> Weighed:
    """Put all settings on the same axes.

    The risk is epsilon if every setting claims differential privacy, and otherwise 1/(persons of the group) as the mean
    over published rows. A delay in seconds is not comparable with arrivals, so it counts as the longest.
    """
    by_epsilon = all(outcome.figures.epsilon for outcome in outcomes)
    points = np.array([_point(outcome.figures, by_epsilon) for outcome in outcomes], dtype=np.float64)
    longest = points[np.isfinite(points[:, 2]), 2].max(initial=0.0)
    points[:, 2] = np.where(np.isfinite(points[:, 2]), points[:, 2], longest + 1)
    best = sorted(np.flatnonzero(pareto(points)).tolist(), key=lambda at: tuple(points[at, [1, 0, 2, 3]]))
    return Weighed(tuple(outcomes), by_epsilon, points, tuple(best))


def _point(figures: Figures, by_epsilon: bool) -> tuple[float, float, float, float]:
    risk = figures.epsilon if by_epsilon else figures.mean_risk
    assert risk is not None
    delay = np.inf if figures.delay is None else figures.delay
    delta = figures.delta if by_epsilon else None
    return figures.loss, risk, delay, 0.0 if delta is None or delta < NO_DELTA else delta


def pareto(points: ArrayLike) -> NDArray[np.bool_]:
    """True for points of the Pareto set: no other point is at most as large in all criteria and smaller in one.

    Equal points are both in the set, or both not.

    >>> pareto([[1, 4], [2, 2], [3, 3], [4, 1]]).tolist()
    [True, True, False, True]
    """
    given = np.asarray(points, dtype=np.float64)
    beaten = [bool(((given <= point).all(axis=1) & (given < point).any(axis=1)).any()) for point in given]
    return ~np.array(beaten, dtype=np.bool_)


def distances_to_ideal(points: ArrayLike) -> NDArray[np.float64]:
    """Distance of each point from the minimum of all criteria, each criterion scaled to the range 0 to 1.

    A criterion that is equal for all points does not count.

    >>> distances_to_ideal([[0, 10], [10, 0], [1, 1]]).round(2).tolist()
    [1.0, 1.0, 0.14]
    """
    given = np.asarray(points, dtype=np.float64)
    least = given.min(axis=0)
    width = given.max(axis=0) - least
    scaled = (given - least) / np.where(width > 0, width, 1.0)
    found: NDArray[np.float64] = np.sqrt((scaled**2).sum(axis=1))
    return found
