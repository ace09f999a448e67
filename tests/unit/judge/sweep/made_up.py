"""Small schemas, settings and figures for tests of sweeps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.parameter_grid import Grid, Value, make_grid
from castleguard.judge.sweep.weighing import Outcome, Weighed, weigh

AGES = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)],
    sensitive=[cg.Sensitive("ward", values=["a", "b", "c"])],
)

FIGURES = Figures(
    rows=1000, published=1.0, suppressed=0.0, sampled_out=0.0, over_budget=0.0, rejected=0.0, information_loss=0.2,
    loss=0.2, untrue=0.0, groups=10, smallest_group=5, mean_risk=0.1, highest_risk=0.2, largest_share=0.5, epsilon=None,
    delta=None, delay=50, longest_wait=50, rows_per_second=1000.0,
)  # fmt: skip


def castle(given: dict[str, Value]) -> Policy:
    """The policy of a combination."""
    parameters: dict[str, Any] = dict(given)
    return cg.Castle(**parameters)


def castle_grid(**lists: Sequence[Value]) -> Grid:
    """CASTLE on ages."""
    return make_grid(lists, castle, AGES)


def weighed(grid: Grid, figures: Mapping[Any, Mapping[str, Any]]) -> Weighed:
    """All settings of a grid, with figures by their values."""
    outcomes = [
        Outcome(setting, replace(FIGURES, **figures[tuple(value for _, value in setting.parameters)]))
        for setting in grid.settings
    ]
    return weigh(outcomes)
