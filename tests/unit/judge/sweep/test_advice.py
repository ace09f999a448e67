"""Recommended settings and their explanation."""

import pytest

from castleguard.judge.sweep.advice import Limits, advise, number
from tests.unit.judge.sweep.made_up import castle_grid, weighed

GRID = castle_grid(k=[5, 10, 20], delay=[50])
# Scaled to (0..1): k=5 (0, 1), k=10 (0.2, 0.25), k=20 (1, 0): k=10 is the knee.
FIGURES = {
    (5, 50): {"loss": 0.10, "mean_risk": 0.20},
    (10, 50): {"loss": 0.14, "mean_risk": 0.08},
    (20, 50): {"loss": 0.30, "mean_risk": 0.04},
}


def test_knee_is_recommended_with_the_effect_of_each_step() -> None:
    found = advise(weighed(GRID, FIGURES), GRID, Limits())
    assert found.sentences == (
        "Take k=10: loss 0.140, mean re-identification risk 0.080. "
        "It is the setting of the Pareto set nearest to the ideal.",
        "k 5 instead of 10 lowers the loss by 0.040 and raises the mean re-identification risk from 0.080 to 0.200.",
        "k 20 instead of 10 raises the loss by 0.160 and lowers the mean re-identification risk from 0.080 to 0.040.",
    )
    assert not found.warnings


def test_limit_excludes_settings() -> None:
    found = advise(weighed(GRID, FIGURES), GRID, Limits(risk=0.05))
    assert (found.chosen, found.met) == (2, True)
    assert found.sentences[0].startswith("Take k=20: loss 0.300")
    assert "meets --max-risk 0.05" in found.sentences[0]


def test_unmet_limits_are_reported_with_the_closest_setting() -> None:
    # Exceeded by: k=5 the risk by 300 %, k=10 by 60 %, k=20 the loss by 50 %.
    found = advise(weighed(GRID, FIGURES), GRID, Limits(loss=0.2, risk=0.05))
    assert (found.chosen, found.met) == (2, False)
    assert found.sentences[0] == (
        "No setting meets both --max-loss 0.2 and --max-risk 0.05. The closest is k=20: "
        "loss 0.300, mean re-identification risk 0.040."
    )


def test_unmet_single_limit_is_reported() -> None:
    found = advise(weighed(GRID, FIGURES), GRID, Limits(loss=0.05))
    assert found.sentences[0].startswith("No setting meets --max-loss 0.05. The closest is k=5:")


def test_step_that_is_refused_says_why() -> None:
    grid = castle_grid(k=[5, 50], delay=[20])
    found = advise(weighed(grid, {(5, 20): {"delay": 20}}), grid, Limits())
    assert any(s.startswith("k 50 instead of 5 is refused: delay must be at least k - 1") for s in found.sentences)


def test_step_that_changes_nothing_says_so() -> None:
    grid = castle_grid(k=[5], delay=[50, 60])
    found = advise(weighed(grid, {(5, 50): {}, (5, 60): {"delay": 60}}), grid, Limits())
    assert found.sentences[1] == (
        "delay 60 instead of 50 does not change the loss and keeps the mean re-identification risk at 0.100."
    )


def test_unordered_values_have_all_others_as_steps() -> None:
    grid = castle_grid(k=[5], delay=[50], order=["shuffled", "arrival", "input"])
    figures: dict[tuple[int, int, str], dict[str, float]] = {
        (5, 50, order): {} for order in ("shuffled", "arrival", "input")
    }
    found = advise(weighed(grid, figures), grid, Limits())
    assert [sentence.split()[1] for sentence in found.sentences[1:]] == ["arrival", "input"]


def test_sample_too_small_for_the_delay_is_a_warning() -> None:
    grid = castle_grid(k=[5], delay=[50, 500])
    (warning,) = advise(weighed(grid, {(5, 50): {}, (5, 500): {"delay": 500}}), grid, Limits()).warnings
    assert warning.startswith("The sample of 1,000 rows is small for a delay of 500:")
    assert "Use 5,000 rows" in warning


def test_delta_that_exposes_a_person_is_not_recommended() -> None:
    figures = {
        (5, 50): {"epsilon": 1.0, "delta": 0.1, "loss": 0.1},
        (10, 50): {"epsilon": 1.0, "delta": 0.01, "loss": 0.2},
        (20, 50): {"epsilon": 1.0, "delta": 1e-5, "loss": 0.6},
    }
    found = advise(weighed(GRID, figures), GRID, Limits())
    assert found.chosen == 2
    assert found.sentences[1] == (
        "k 10 instead of 20 lowers the loss by 0.400, keeps the epsilon of the guarantee at 1.00 "
        "and raises delta from 1e-05 to 0.01."
    )
    assert any("k is not part of the risk" in warning for warning in found.warnings)


def test_warning_if_every_delta_exposes_a_person() -> None:
    figures = {(k, 50): {"epsilon": 1.0, "delta": 0.1} for k in (5, 10, 20)}
    found = advise(weighed(GRID, figures), GRID, Limits())
    assert any(warning.startswith("Every claim has a delta above 1 in 1,000 rows") for warning in found.warnings)


def test_paper_mode_is_not_recommended_beside_strict_mode() -> None:
    grid = castle_grid(mode=["strict", "paper"], k=[5], delay=[50])
    figures = {("strict", 5, 50): {"loss": 0.3}, ("paper", 5, 50): {"loss": 0.2}}  # beats the other
    found = advise(weighed(grid, figures), grid, Limits())
    assert found.sentences[0].startswith("Take mode=strict:")
    assert any(warning.startswith("Paper mode is for research") for warning in found.warnings)


def test_warning_that_l_is_not_part_of_the_risk() -> None:
    grid = castle_grid(k=[5], l=[1, 2], delay=[50])
    found = advise(weighed(grid, {(5, 1, 50): {}, (5, 2, 50): {"loss": 0.3}}), grid, Limits())
    assert any(warning.startswith("l is not part of the risk") for warning in found.warnings)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.000"), (0.0431, "0.043"), (0.00012, "0.00012"), (12.5, "12.50"), (1234.5, "1,234")]
)
def test_numbers_have_enough_digits_to_compare(value: float, text: str) -> None:
    assert number(value) == text
