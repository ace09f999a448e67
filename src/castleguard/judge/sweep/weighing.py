"""Settings weighed against one another by loss, risk, delay and the delta of a claim, and those that nothing beats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.grid import Setting

Points = NDArray[np.float64]  # (settings, criteria), less is better in each


@dataclass(frozen=True)
class Outcome:
    """A setting and what came of it."""

    setting: Setting
    figures: Figures


@dataclass(frozen=True, eq=False)
class Weighed:
    """All settings of a sweep on the same axes."""

    outcomes: tuple[Outcome, ...]
    by_epsilon: bool
    """Whether the risk is epsilon; otherwise it is the mean risk of re-identification."""
    points: Points
    """(settings, 4): loss, risk, delay, delta."""
    best: tuple[int, ...]
    """The numbers of the settings in the Pareto set, the one with the least risk first."""

    @property
    def risk_name(self) -> str:
        """What the risk is, in words."""
        return "epsilon of the guarantee" if self.by_epsilon else "mean re-identification risk"

    @property
    def claims(self) -> tuple[str, ...]:
        """What the epsilons protect: comparable are those of one kind."""
        return tuple(dict.fromkeys(outcome.setting.claim for outcome in self.outcomes))

    def loss(self, at: int) -> float:
        """The loss of a setting."""
        return float(self.points[at, 0])

    def risk(self, at: int) -> float:
        """The risk of a setting."""
        return float(self.points[at, 1])

    def delta(self, at: int) -> float:
        """The delta of a setting, where epsilon is its risk."""
        return float(self.points[at, 3])


NO_DELTA = 1e-9
"""A delta that is smaller counts as none: nobody gains by an even smaller one."""


def weigh(outcomes: Sequence[Outcome]) -> Weighed:
    """Put all settings on the same axes.

    The risk is epsilon where every setting claims differential privacy of a row's values, and 1/(persons of the group),
    the mean over published rows, otherwise. A delay in seconds is no delay in arrivals: where one setting has none, it
    is taken for the longest.
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
