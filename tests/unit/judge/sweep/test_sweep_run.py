"""Whole sweeps, with and without an interruption."""

import json
import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.errors import CastleguardError
from castleguard.judge.sweep import sweep_run
from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.folder import RESULTS, Folder
from castleguard.judge.sweep.parameter_grid import Grid, make_grid
from castleguard.judge.sweep.trial import Ground, measure
from castleguard.judge.sweep.weighing import Outcome
from castleguard.testing.streams import visits, visits_schema
from tests.unit.judge.sweep.made_up import FIGURES, castle

WHO = {"sample": 200}


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground(pa.concat_tables(visits(200, seed=5, flaws=0.05)), visits_schema(), (0,))


@pytest.fixture(scope="module")
def grid() -> Grid:
    return make_grid({"k": [3, 5], "delay": [40, 80]}, castle, visits_schema())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    opened = Folder(tmp_path, WHO)
    yield opened
    opened.close()


def without_speed(outcomes: tuple[Outcome, ...]) -> list[Figures]:
    return [replace(outcome.figures, rows_per_second=0.0) for outcome in outcomes]


@pytest.mark.compiled
def test_every_setting_is_measured_and_its_books_balance(ground: Ground, grid: Grid, folder: Folder) -> None:
    done: list[int] = []
    outcomes = sweep_run.sweep(ground, grid.settings, folder, jobs=1, progress=lambda: done.append(len(folder.done)))
    assert [outcome.setting for outcome in outcomes] == list(grid.settings)
    assert done == [1, 2, 3, 4]  # each is kept before the next one is begun
    for outcome in outcomes:
        found = outcome.figures
        assert found.rows == 200
        assert 0.01 < found.rejected < 0.2
        assert found.published + found.suppressed + found.rejected == pytest.approx(1)
        assert found.smallest_group is not None
        assert found.smallest_group >= int(outcome.setting.value("k"))
        assert found.information_loss is not None
        lost = (found.information_loss * found.published + found.suppressed) / (1 - found.rejected)
        assert found.loss == pytest.approx(lost)
        assert found.mean_risk is not None
        assert found.highest_risk is not None
        assert found.mean_risk <= found.highest_risk <= 1 / int(outcome.setting.value("k"))
        assert found.longest_wait <= int(outcome.setting.value("delay"))


@pytest.mark.compiled
def test_sweep_without_a_folder_recommends_the_same(ground: Ground, grid: Grid, folder: Folder) -> None:
    kept, found = sweep_run.recommend(ground, grid, folder), sweep_run.recommend(ground, grid)
    assert found.advice == kept.advice
    data = json.loads(json.dumps(found.as_json()))
    assert data["lists"] == {"k": [3, 5], "delay": [40, 80]}
    assert [each["parameters"] for each in data["settings"]] == [dict(each.parameters) for each in grid.settings]
    assert [each["pareto"] for each in data["settings"]].count(1) == 1
    recommended = [each["parameters"] for each in data["settings"] if each["recommended"]]
    assert recommended == [dict(grid.settings[found.advice.chosen].parameters)]
    assert data["refused"] == []


@pytest.mark.compiled
def test_interrupted_sweep_measures_only_missing_settings(
    ground: Ground, grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Policy] = []

    def counted(ground: Ground, policy: Policy) -> Figures:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(policy)
        return measure(ground, policy)

    monkeypatch.setattr(sweep_run, "measure", counted)
    folder = Folder(tmp_path, WHO)
    with pytest.raises(KeyboardInterrupt):
        sweep_run.sweep(ground, grid.settings, folder, jobs=1)
    folder.close()
    assert len((tmp_path / RESULTS).read_bytes().splitlines()) == 2
    with open(tmp_path / RESULTS, "ab") as file:
        file.write(b'{"setting": [["k", 5]')  # the power failed while the third was written

    def listed(ground: Ground, policy: Policy) -> Figures:
        asked.append(policy)
        return measure(ground, policy)

    monkeypatch.setattr(sweep_run, "measure", listed)
    again = Folder(tmp_path, WHO)
    outcomes = sweep_run.sweep(ground, grid.settings, again, jobs=1)
    assert [policy.fingerprint() for policy in asked] == [setting.policy.fingerprint() for setting in grid.settings]
    third = Folder(tmp_path / "straight", WHO)
    monkeypatch.setattr(sweep_run, "measure", measure)
    assert without_speed(outcomes) == without_speed(sweep_run.sweep(ground, grid.settings, third, jobs=1))
    again.close()
    third.close()


def test_finished_sweep_measures_nothing(
    ground: Ground, grid: Grid, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in grid.settings:
        folder.add(setting, FIGURES)
    monkeypatch.setattr(sweep_run, "workers", None)
    assert [outcome.figures for outcome in sweep_run.sweep(ground, grid.settings, folder, jobs=2)] == [FIGURES] * 4


def test_broken_promise_names_its_setting_and_keeps_finished_ones(
    ground: Ground, grid: Grid, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(ground: Ground, policy: Policy) -> Figures:
        assert isinstance(policy, cg.Castle)
        if policy.k == 5:
            raise CastleguardError("a publication of the sweep did not keep its promise")
        return FIGURES

    monkeypatch.setattr(sweep_run, "measure", broken)
    with pytest.raises(CastleguardError, match=r"k=5 delay=40: a publication"):
        sweep_run.sweep(ground, grid.settings, folder, jobs=1)
    assert len(folder.done) == 2


@pytest.mark.compiled
def test_several_seeds_are_several_runs(ground: Ground, grid: Grid) -> None:
    policy = grid.settings[0].policy
    both = measure(Ground(ground.sample, ground.schema, (0, 1)), policy)
    losses = [measure(Ground(ground.sample, ground.schema, (seed,)), policy).loss for seed in (0, 1)]
    assert both.loss == pytest.approx(sum(losses) / 2)


def test_column_named_like_the_link_is_allowed(ground: Ground) -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("row", lower=0, upper=10, step=1)], public=("_row",))
    sample = pa.table({"row": [1, 2, 3, 4], "_row": ["a", "b", "c", "d"]})
    found = measure(Ground(sample, schema, (0,)), cg.Castle(k=2, delay=3))
    assert found.published == 1


@pytest.mark.compiled
def test_single_setting_runs_in_this_process(ground: Ground, folder: Folder) -> None:
    grid = make_grid({"k": [3], "delay": [40]}, castle, ground.schema)
    before = len(multiprocessing.active_children())
    during: list[int] = []
    sweep_run.sweep(
        ground, grid.settings, folder, jobs=8, progress=lambda: during.append(len(multiprocessing.active_children()))
    )
    assert during == [before]
