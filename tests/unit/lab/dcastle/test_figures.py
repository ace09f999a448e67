"""Figures of methods with known losses, and all figures once of real methods on made-up rows."""

import io
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from castleguard.drawing import canvas
from castleguard.lab.dcastle import EXPERIMENTS, contributions, effectiveness, l_diversity, run_part, traffic
from castleguard.lab.dcastle.contenders import ALONE, DISTRIBUTED, STRICT_FEW, Outcome, Task
from castleguard.lab.dcastle.design import SWEEPS, Setting, Sweep, shortened
from castleguard.lab.dcastle.runs import Runs
from castleguard.lab.dcastle.study import Study
from castleguard.lab.result import Result, Scale
from tests.unit.lab.dcastle.made_up import METHODS, known_method, made_up

PARTS = (contributions, traffic, l_diversity, effectiveness)


def study_of(**methods: object) -> Study:
    """Known methods at the ends of every curve."""
    runs = Runs(made_up(100), methods={**METHODS, **methods})  # type: ignore[dict-item]
    sweeps = {letter: replace(sweep, values=(sweep.values[0], sweep.values[-1])) for letter, sweep in SWEEPS.items()}
    return Study(runs=runs, sweeps=sweeps)


def results_of(part: ModuleType, **methods: object) -> dict[str, Result]:
    return {result.figure: result for result in run_part(part, study_of(**methods))}


# Section 6.1


def by_formula(task: Task) -> Outcome:
    """The loss is known, and with it every share: 0.04 QI + 0.0002 k - 0.000002 delay + 0.002 n."""
    one = task.setting
    loss = 0.04 * one.columns + 0.0002 * one.k - 0.000002 * one.delay + 0.002 * one.sites
    return Outcome(loss=loss, suppressed=100 if one.l > 7 else 0)


def test_shares_of_a_known_loss_are_found() -> None:
    """Half ranges 4, 190, 14,500, 4 times the slopes: effects 0.16, 0.038, -0.029, 0.008; squares: 0.027949."""
    found = results_of(contributions, distributed=by_formula)["6.1-k"]
    rows = {row[0]: row for row in found.rows}
    assert rows["QI"] == ("QI", "58.0%", "91.6%", "+0.1600")
    assert rows["k"][2:] == ("5.2%", "+0.0380")
    assert rows["delay"][2:] == ("3.0%", "-0.0290")
    assert rows["n"][2:] == ("0.2%", "+0.0080")
    assert rows["QI-k"][2] == "0.0%"
    directions, largest, k, delay, n, pairs = found.claims
    assert directions.verdict == "reproduced"
    assert largest.verdict == "partly"  # the largest, but not 58 %
    assert (k.verdict, delay.verdict, n.verdict) == ("not reproduced", "not reproduced", "reproduced")
    assert pairs.verdict == "partly"


def test_loss_that_falls_with_k_is_not_reproduced() -> None:
    def falling(task: Task) -> Outcome:
        one = task.setting
        return Outcome(loss=1 / one.k + 0.001 * one.columns + 0.0000001 * one.delay + 0.00001 * one.sites)

    directions, largest, *_ = results_of(contributions, distributed=falling)["6.1-k"].claims
    assert directions.verdict == "not reproduced"
    assert directions.reason == "It is the other way round for k and delay."
    assert largest.verdict == "not reproduced"


def test_l_above_the_number_of_values_is_not_comparable() -> None:
    impossible, *_ = results_of(contributions, distributed=by_formula)["6.1-l"].claims
    assert impossible.verdict == "not comparable"
    assert "in 16 of 16 runs with l=10 every row was suppressed" in impossible.ours
    assert "7 values" in impossible.ours


# Figures 5 to 7


def test_bytes_are_judged_by_trend_and_limit() -> None:
    found = results_of(traffic)
    assert found["5g"].claims[0].verdict == "reproduced"  # 3,000 bytes per site
    assert found["5a"].claims[0].verdict == "not reproduced"  # the same for all columns
    most, more, clusters = found["5"].claims
    assert most.verdict == "partly"  # 6,000 with two sites, 24,000 and 30,000 with more
    assert most.ours.startswith("At most 30,000 bytes")
    assert more.verdict == "reproduced"
    assert clusters.verdict == "reproduced"
    small = results_of(traffic, distributed=known_method(0.4, sent=100, clusters=90))
    assert [claim.verdict for claim in small["5"].claims] == ["reproduced", "reproduced", "not reproduced"]


def test_the_cost_of_l_is_judged_by_its_range() -> None:
    found = results_of(l_diversity)
    assert found["6"].claims[0].verdict == "reproduced"  # 25 % everywhere
    assert [claim.verdict for claim in found["6c"].claims] == ["reproduced", "reproduced"]
    assert found["6a"].claims[0].verdict == "not reproduced"  # does not grow with the columns
    assert found["6g"].claims[0].verdict == "reproduced"  # does not grow with the sites
    free = results_of(l_diversity, distributed=known_method(0.4))
    assert free["6"].claims[0].verdict == "not reproduced"
    assert free["6c"].claims[1].verdict == "not reproduced"


def test_sites_that_talk_are_judged_by_one_site_and_by_silent_ones() -> None:
    found = results_of(effectiveness)
    near, more = found["7a"].claims
    assert near.verdict == "not reproduced"  # 25 % above
    assert near.ours.startswith("+25.0% to +25.0%")
    assert more.verdict == "reproduced"
    near, lower, more, gain, gap, promise = found["7"].claims
    assert (near.verdict, lower.verdict, more.verdict) == ("not reproduced", "reproduced", "reproduced")
    assert gain.verdict == "partly"  # 20 % of the stated 35 %
    assert gap.verdict == "partly"  # half of the gap between 0.6 and 0.4
    assert promise.verdict == "not reproduced"
    assert "of 320 groups of strict sites none" in promise.ours
    better = results_of(effectiveness, **{DISTRIBUTED: known_method(0.4), ALONE: known_method(0.6)})["7"]
    assert [claim.verdict for claim in better.claims] == ["reproduced"] * 6


def test_slow_methods_are_left_out_between_ends_and_middle() -> None:
    given = study_of()
    sweep = Sweep("k", (20, 50, 100, 200, 400), Setting())
    given = replace(given, sweeps=dict.fromkeys(SWEEPS, sweep))
    found = run_part(effectiveness, given)[0]
    column = found.columns.index(f"loss, {STRICT_FEW}")
    assert [row[column] == "-" for row in found.rows] == [False, True, False, True, False]
    everywhere = run_part(effectiveness, replace(given, full=True))[0]
    assert all(row[column] != "-" for row in everywhere.rows)


@pytest.mark.parametrize("part", PARTS)
def test_every_announced_figure_is_produced_and_drawn(part: ModuleType) -> None:
    pytest.importorskip("matplotlib")
    found = results_of(part)
    assert tuple(found) == part.FIGURES
    for result in found.values():
        assert result.claims
        assert all(len(row) == len(result.columns) for row in result.rows)
    target = io.BytesIO()
    (first, *_) = found.values()
    assert first.draw is not None
    with canvas(target, width=first.size[0], height=first.size[1]) as figure:
        first.draw(figure)
    assert target.getvalue().startswith(b"\x89PNG")


def test_the_papers_figures_are_announced() -> None:
    figures = [figure for experiment in EXPERIMENTS for figure in experiment.figures]
    wanted = [*(f"5{x}" for x in "abcdefg"), *(f"6{x}" for x in "abcdefgh"), *(f"7{x}" for x in "abcdefghi")]
    assert set(wanted) < set(figures)
    assert len(set(figures)) == len(figures)


@pytest.mark.compiled
def test_bytes_and_losses_of_few_made_up_rows() -> None:
    sweeps = {letter: shortened(SWEEPS[letter]) for letter in SWEEPS}
    given = Study(runs=Runs(made_up(60)), sweeps=sweeps, quick=True)
    for part in (traffic, effectiveness):
        results = run_part(part, given)
        assert tuple(result.figure for result in results) == part.FIGURES
    for setting in sweeps["g"].settings():
        for method in METHODS:
            loss = given.loss(method, setting)
            assert (loss is None) == (method == STRICT_FEW and setting.sites > 2)
            assert loss is None or 0 < loss <= 1


def test_the_figures_need_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from castleguard.errors import InputError

    monkeypatch.setenv("CASTLEGUARD_DATA", str(tmp_path))
    monkeypatch.setenv("CASTLEGUARD_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"adult\.data"):
        EXPERIMENTS[0].run(Scale(seed=99))
