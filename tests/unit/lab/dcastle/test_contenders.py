"""The compared methods: their counts, and their distance from the paper on Adult."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.books import Report
from castleguard.lab.dcastle import contenders
from castleguard.lab.dcastle.contenders import (
    ALONE,
    CENTRALISED,
    CLUSTERS,
    DISTRIBUTED,
    STRICT,
    STRICT_FEW,
    Outcome,
    Task,
)
from castleguard.lab.dcastle.design import Setting, load
from castleguard.lab.dcastle.runs import run_setting
from castleguard.sites.simulation import Simulated
from tests.unit.lab.dcastle.made_up import made_up


class Scripted:
    """Stands in for the simulation: publishes ages, some often enough for k = 2, and returns given reports."""

    def __init__(self, ages: list[int], *, suppressed: int = 0, undecided: int = 0) -> None:
        self.policies: list[Dcastle] = []
        self._ages, self._suppressed, self._undecided = ages, suppressed, undecided

    def __call__(self, table: pa.Table, schema: object, policy: Dcastle, *, seed: int) -> Simulated:
        self.policies.append(policy)
        report = Report(
            rows_in=len(self._ages) + self._suppressed + self._undecided,
            published=len(self._ages),
            suppressed=self._suppressed,
            undecided=self._undecided,
            information_loss=0.5 if self._ages else None,
        )
        output = pa.table({"age": pa.array(self._ages, pa.int64()), "workclass": ["x"] * len(self._ages)})
        return Simulated(reports={"one": report}, messages=7, bytes=700, output=output)


def strict_task(rows: int, setting: Setting | None = None) -> Task:
    data, setting = made_up(rows), setting or Setting(sites=3, k=2, delay=90)
    return Task(data.table, data.schema(setting), setting, seed=0)


def test_rows_that_strict_sites_do_not_publish_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "simulate", Scripted([4, 4, 4, 6, 6, 6], suppressed=2, undecided=2))
    found = contenders.strict(strict_task(10), shared_from="k")
    assert found == Outcome(loss=0.7, messages=7, bytes=700, groups=2, suppressed=4)
    monkeypatch.setattr(contenders, "simulate", Scripted([], suppressed=10))
    assert contenders.strict(strict_task(10), shared_from="k").loss == 1.0


def test_groups_of_strict_sites_are_counted_in_published_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "simulate", Scripted([4, 4, 5, 6, 6, 6, 7]))
    found = contenders.strict(strict_task(7), shared_from="k")
    assert (found.groups, found.groups_below_k) == (4, 2)


def test_rows_that_strict_sites_publish_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "simulate", Scripted([4, 4, 4, 4], suppressed=1))
    with pytest.raises(RuntimeError, match="4 rows are published, the sites' reports say otherwise"):
        contenders.strict(strict_task(4), shared_from="k")


def test_strict_sites_share_boxes_from_k_persons_on_or_from_the_papers_few(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted([1] * 10)
    monkeypatch.setattr(contenders, "simulate", scripted)
    task = strict_task(10, Setting(sites=3, k=10, delay=90, l=3))
    for name in (STRICT, STRICT_FEW):
        contenders.METHODS[name](task)
    asked = Dcastle(k=10, l=3, delay=90, sites=3, max_clusters=25, loss_window=100)
    assert scripted.policies == [asked, replace(asked, share_threshold=4)]


@pytest.mark.compiled
def test_strict_sites_keep_k_where_the_papers_do_not_promise_it() -> None:
    """Seeded, so that it repeats."""
    data, setting = made_up(300), Setting(sites=3, k=6, delay=60, columns=2)
    for name in (STRICT, STRICT_FEW):
        found = run_setting(contenders.METHODS[name], data, setting)
        assert found.groups > 1
        assert found.groups_below_k == 0
        assert 0 < found.loss < 1
        assert found.bytes > found.messages > 0


@pytest.mark.compiled
def test_adult_over_eight_sites_is_close_to_the_paper(data_folder: Path) -> None:
    """Seeded, so that it repeats: near the centralised loss, and little is sent; but groups below k are published."""
    data, setting = load(), Setting()
    central, shared, alone = (
        run_setting(contenders.METHODS[name], data, setting) for name in (CENTRALISED, DISTRIBUTED, ALONE)
    )
    assert central.loss == pytest.approx(0.411, rel=0.03)
    assert shared.loss == pytest.approx(0.461, rel=0.03)
    assert alone.loss == pytest.approx(0.483, rel=0.03)
    assert shared.bytes < 0.01 * data.bytes
    assert shared.most_clusters < 2 * CLUSTERS
    assert shared.groups_below_k > 0


@pytest.mark.compiled
def test_ten_of_seven_values_are_never_published(data_folder: Path) -> None:
    data = load(quick=True)
    assert data.values("workclass") <= 7
    found = run_setting(contenders.METHODS[DISTRIBUTED], data, Setting(sites=2, k=10, delay=200, l=10))
    assert (found.loss, found.groups, found.suppressed) == (1.0, 0, data.table.num_rows)
