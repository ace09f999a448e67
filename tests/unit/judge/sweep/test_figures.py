"""The figures of a setting: through a file and back, and over several runs."""

import json
from dataclasses import replace

import pytest

from castleguard.errors import InputError
from castleguard.judge.sweep.figures import from_json, over_runs
from tests.unit.judge.sweep.made_up import FIGURES


def test_figures_survive_a_round_trip_through_json() -> None:
    given = replace(FIGURES, loss=1 / 3, smallest_group=None)
    assert from_json(json.loads(json.dumps(given.as_json()))) == given


@pytest.mark.parametrize("change", [{"loss": "much"}, {"more": 1}])
def test_other_json_is_refused_as_figures(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        from_json({**FIGURES.as_json(), **change})


def test_runs_are_averaged_and_their_worst_case_is_kept() -> None:
    runs = [
        replace(FIGURES, loss=0.2, smallest_group=7, highest_risk=0.1, longest_wait=10, mean_risk=0.05),
        replace(FIGURES, loss=0.4, smallest_group=5, highest_risk=0.2, longest_wait=30, mean_risk=0.07),
    ]
    found = over_runs(runs)
    assert found.loss == pytest.approx(0.3)
    assert found.mean_risk == pytest.approx(0.06)
    assert (found.smallest_group, found.highest_risk, found.longest_wait) == (5, 0.2, 30)
    assert (found.rows, found.delay, found.epsilon) == (1000, 50, None)
