"""Every point is run once, in this or other processes, and a broken promise stops the run."""

import logging

import pytest

from castleguard.lab.dcastle import contenders
from castleguard.lab.dcastle.contenders import ALONE_STRICT, CENTRALISED, DISTRIBUTED, STRICT, Outcome, Task
from castleguard.lab.dcastle.design import Setting, Sweep
from castleguard.lab.dcastle.runs import Runs, kept
from tests.unit.lab.dcastle.made_up import METHODS, known_method, made_up


@pytest.mark.compiled
def test_results_are_the_same_in_other_processes() -> None:
    data, sweep = made_up(60), Sweep("k", (3, 5), Setting(sites=2))
    points = [(name, setting) for name in (CENTRALISED, ALONE_STRICT) for setting in sweep.settings()]
    here, elsewhere = Runs(data), Runs(data)
    here.find(points, jobs=1)
    elsewhere.find(points, jobs=2)
    for point in points:
        assert elsewhere.outcome(*point) == here.outcome(*point)
        assert 0 < here.outcome(*point).loss <= 1


def test_a_point_is_run_once_and_its_runs_are_averaged() -> None:
    calls: list[int] = []

    def run(task: Task) -> Outcome:
        calls.append(task.seed)
        number = task.seed - 7
        return Outcome(loss=number / 4, messages=2 * number, most_clusters=number, groups_below_k=number == 1)

    runs = Runs(made_up(10), seed=7, repeats=3, methods={"it": run})
    assert not runs.has("it", Setting())
    for _ in range(2):
        runs.find([("it", Setting()), ("it", Setting())], jobs=1)
    assert runs.outcome("it", Setting()) == Outcome(loss=0.25, messages=2, most_clusters=2, groups_below_k=1)
    assert calls == [7, 8, 9]


def test_one_site_with_all_rows_is_run_once_for_any_number_of_sites() -> None:
    calls: list[int] = []

    def run(task: Task) -> Outcome:
        calls.append(task.setting.sites)
        return Outcome(loss=0.5)

    runs = Runs(made_up(10), methods={CENTRALISED: run, DISTRIBUTED: run})
    runs.find([(name, Setting(sites=sites)) for name in (CENTRALISED, DISTRIBUTED) for sites in (2, 8)], jobs=1)
    assert calls == [1, 2, 8]
    assert runs.outcome(CENTRALISED, Setting(sites=8)) == Outcome(loss=0.5)


def test_group_below_k_stops_strict_methods_only() -> None:
    data, settings = made_up(100), Sweep("k", (50, 100), Setting()).settings()
    points = [(name, setting) for name in (DISTRIBUTED, STRICT) for setting in settings]
    Runs(data, methods=METHODS).find(points, jobs=1)
    worse = {**METHODS, STRICT: known_method(0.8, below=1)}
    with pytest.raises(RuntimeError, match=r"but did: distributed, strict, from k, n=8, k=50.*: 1 groups below k"):
        Runs(data, methods=worse).find(points, jobs=1)


def test_every_strict_method_promises_k() -> None:
    for name in contenders.PROMISE_K:
        with pytest.raises(RuntimeError, match="strict must never publish a group below k"):
            kept((name, Setting()), Outcome(loss=0.5, groups_below_k=1))


def test_log_level_is_restored() -> None:
    level = logging.getLogger("castleguard").level
    Runs(made_up(10), methods=METHODS).find([(DISTRIBUTED, Setting())], jobs=1)
    assert logging.getLogger("castleguard").level == level
