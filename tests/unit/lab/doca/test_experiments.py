"""DOCA's experiment: verdicts follow from ratios; the figures themselves are tested in tests/statistical."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from castleguard.lab import backblaze
from castleguard.lab.doca import EXPERIMENTS, hours
from castleguard.lab.doca.publishers import SENSITIVITY, Figures, compare, mean, methods
from castleguard.lab.result import Scale

FIGURES = Figures(error=1.0, error_by_rank=0.5, common=0.86, common_wide=0.9, rows=100, seconds=0.5)
VALUES = np.random.default_rng(5).integers(backblaze.LOWER, backblaze.UPPER + 1, 1500).astype(np.float64)


def found(naive: float, doca: float, *, common: float = 0.86) -> hours.Runs:
    return {
        "naive": [replace(FIGURES, error=naive)] * 2,
        "DOCA, paper": [replace(FIGURES, error=doca, common=common)] * 2,
    }


def test_both_of_the_papers_results_are_there() -> None:
    (experiment,) = EXPERIMENTS
    assert experiment.figures == ("Table 1", "2")


@pytest.mark.parametrize(("doca", "verdict"), [(7.0, "reproduced"), (15.0, "partly"), (50.0, "not reproduced")])
def test_the_fall_of_the_error_is_compared_as_a_ratio(doca: float, verdict: str) -> None:
    assert hours.judge_fall(found(1000.0, doca)).verdict == verdict


def test_errors_are_compared_as_multiples_of_the_sensitivity() -> None:
    square = SENSITIVITY**2
    assert hours.judge_naive(found(2.0 * square, 1.0)).verdict == "reproduced"
    assert hours.judge_naive(found(2.2 * square, 1.0)).verdict == "partly"
    assert hours.judge_naive(found(3.0 * square, 1.0)).verdict == "not reproduced"
    assert hours.judge_doca(found(1.0, 0.0140 * square)).verdict == "reproduced"
    assert hours.judge_doca(found(1.0, 0.0200 * square)).verdict == "partly"
    assert hours.judge_doca(found(1.0, 0.1 * square)).verdict == "not reproduced"


@pytest.mark.parametrize(("common", "verdict"), [(0.87, "reproduced"), (0.9, "partly"), (0.5, "not reproduced")])
def test_histograms_are_compared_in_points(common: float, verdict: str) -> None:
    assert hours.judge_common(found(1.0, 1.0, common=common)).verdict == verdict
    assert hours.judge_shown(found(1.0, 1.0, common=common)).verdict == verdict


@pytest.mark.compiled
def test_every_method_is_run_on_every_stream_and_the_first_is_kept() -> None:
    compared = methods(delay=100)[:3]
    streams = [VALUES[:600], VALUES[600:1200]]
    runs, firsts = compare(compared, streams, [0, 1])
    assert [len(part) for part in runs] == [2, 2, 2]
    assert [part.size for part in firsts] == [600, 600, 600]
    assert mean(runs[0]).error > 2 * mean(runs[1]).error
    assert runs[0][0] != runs[0][1]


@pytest.mark.compiled
def test_a_run_has_a_row_for_every_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backblaze, "hours", lambda: VALUES)
    table, histogram = hours.run(Scale(quick=True))
    assert (table.figure, histogram.figure) == ("Table 1", "2")
    for result in (table, histogram):
        assert [row[0] for row in result.rows] == [method.name for method in methods()]
        assert all(len(row) == len(result.columns) for row in result.rows)
    assert table.rows[0][2] == ""  # naive against naive
    assert table.rows[1][2].startswith("-")
    assert histogram.draw is not None


def test_bin_beyond_the_panel_is_labelled_with_its_height() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure: Any = Figure()
    hours.draw(VALUES, [("same", VALUES), ("far", VALUES - 1e6), ("one bin", np.full(9, 700.0))], figure)
    same, far, one, blank = figure.axes
    assert (same.get_title(loc="left") or same.get_title()) == "same: 100.00% in common"
    assert "100.0% outside" in (far.get_title(loc="left") or far.get_title())
    assert [text.get_text() for text in one.texts] == [" 100.0"]
    assert not blank.axison
