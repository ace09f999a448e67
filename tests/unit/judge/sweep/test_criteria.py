"""What settings are weighed by."""

from castleguard.judge.sweep.criteria import NO_DELTA
from tests.unit.judge.sweep.made_up import castle_grid, weighed

GRID = castle_grid(k=[2, 3], delay=[50])


def test_without_a_claim_the_risk_is_that_of_re_identification() -> None:
    found = weighed(GRID, {(2, 50): {"mean_risk": 0.3}, (3, 50): {"mean_risk": 0.2, "epsilon": 1.0}})
    assert not found.by_epsilon
    assert [found.risk(0), found.risk(1)] == [0.3, 0.2]
    assert found.delta(1) == 0


def test_with_claims_throughout_the_risk_is_epsilon_and_delta_counts() -> None:
    figures = {(2, 50): {"epsilon": 1.0, "delta": 1e-3}, (3, 50): {"epsilon": 1.0, "delta": 1e-5, "loss": 0.3}}
    found = weighed(GRID, figures)
    assert found.by_epsilon
    assert [found.risk(0), found.delta(0)] == [1.0, 1e-3]
    assert found.best == (0, 1)  # more loss, but a delta that is a hundred times smaller


def test_a_delta_of_nearly_nothing_counts_as_none() -> None:
    figures = {(2, 50): {"epsilon": 1.0, "delta": NO_DELTA / 2}, (3, 50): {"epsilon": 1.0, "delta": 0.0, "loss": 0.3}}
    assert weighed(GRID, figures).best == (0,)


def test_a_claim_of_epsilon_zero_is_no_axis() -> None:
    """Paper mode may promise (0, sample_rate): to be exposed fully with that probability."""
    figures = {(2, 50): {"epsilon": 0.0, "delta": 0.5}, (3, 50): {"epsilon": 0.0, "delta": 0.5}}
    assert not weighed(GRID, figures).by_epsilon


def test_the_set_is_in_the_order_of_risk_and_knows_the_delay() -> None:
    grid = castle_grid(k=[2, 3], delay=[50, 100])
    figures = {
        (2, 50): {"loss": 0.1, "mean_risk": 0.5, "delay": 50},
        (2, 100): {"loss": 0.1, "mean_risk": 0.5, "delay": 100},  # beaten: as good, and waits longer
        (3, 50): {"loss": 0.3, "mean_risk": 0.3, "delay": 50},
        (3, 100): {"loss": 0.2, "mean_risk": 0.3, "delay": 100},
    }
    assert weighed(grid, figures).best == (3, 2, 0)
