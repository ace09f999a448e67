"""The experiment of dCASTLE's paper: its figures are computed as they are explained, and on Adult it is repeated.

All 42 settings, one run each: the loss of dCASTLE as printed is 2 % below to 72 % above that of centralised CASTLE
(median 12 % above), sites that do not communicate lose between a third less and a fifth more than dCASTLE (median 1 %
more), and 457 of its 12,566 groups have fewer than k persons.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.dcastle import __main__ as command
from benchmarks.dcastle import methods
from benchmarks.dcastle.experiment import Experiment, processes, run_setting
from benchmarks.dcastle.figure import draw
from benchmarks.dcastle.methods import (
    ALONE,
    ALONE_STRICT,
    CENTRALISED,
    CENTRALISED_STRICT,
    CLUSTERS,
    DISTRIBUTED,
    STRICT,
    STRICT_FEW,
    Outcome,
    Runner,
    Task,
)
from benchmarks.dcastle.report import broken_promises, tabulate_claims, tabulate_losses, tabulate_sharing
from benchmarks.dcastle.settings import CATEGORIES, DOMAINS, Setting, Sweep, make_schema, shortened
from castleguard.engine.dcastle_policy import Dcastle
from castleguard.release.report import Report
from castleguard.sites.simulation import Simulated

QUASI_IDENTIFIERS = [*DOMAINS, "education", "marital-status", "occupation", "native-country"]


def made_up(rows: int) -> pa.Table:
    random = np.random.default_rng(4)
    columns = {name: random.integers(0, upper + 1, rows) for name, upper in DOMAINS.items()}
    labels = {name: random.choice([f"{name} {leaf}" for leaf in range(6)], rows) for name in CATEGORIES}
    return pa.table({**columns, **labels, "pid": np.arange(rows)})


@pytest.fixture(autouse=True)
def _without_hierarchies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up labels are in no hierarchy of the data folder."""
    if "data_folder" not in request.fixturenames:
        monkeypatch.delenv("CASTLEGUARD_DATA", raising=False)


def told(loss: float, *, l_costs: float = 0.0, sent: int = 0, clusters: int = 0, **counts: int) -> Runner:
    """A method whose figures are known: its loss grows with k and with l, its bytes with the number of sites."""

    def run(task: Task) -> Outcome:
        setting = task.setting
        grown = loss * setting.k / 100 * (1 + l_costs * (setting.l > 1)) + task.seed / 1000
        return Outcome(
            loss=grown,
            bytes=sent * setting.sites,
            most_clusters=clusters and clusters + setting.sites,
            groups=counts.get("groups", 0),
            groups_below_k=counts.get("below", 0),
        )

    return run


METHODS: Mapping[str, Runner] = {
    CENTRALISED: told(0.4),
    DISTRIBUTED: told(0.4, l_costs=0.25, sent=3_000, below=2, clusters=30),
    ALONE: told(0.6),
    CENTRALISED_STRICT: told(0.8),
    STRICT: told(0.8, l_costs=0.25, sent=300_000, groups=10),
    STRICT_FEW: told(0.8, sent=900_000, groups=10),
    ALONE_STRICT: told(1.2),
}


def printed(table: Table) -> list[str]:
    console = Console(width=250)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


# What is run


def test_quasi_identifiers_are_the_papers_without_the_sensitive_one() -> None:
    table = made_up(50)
    schema = make_schema(table, Setting())
    assert [role.name for role in schema.quasi_identifiers] == QUASI_IDENTIFIERS
    assert [role.name for role in schema.sensitive] == ["workclass"]
    other = make_schema(table, Setting(sensitive="occupation", columns=8))
    assert [role.name for role in other.quasi_identifiers] == [*DOMAINS, "workclass", "education"]
    plain = make_schema(table, Setting(l=1))
    assert plain.quasi_identifiers == schema.quasi_identifiers
    assert plain.sensitive == ()


def test_a_sweep_changes_one_thing() -> None:
    sweep = Sweep("delay", (5, 7), Setting(sites=3))
    assert sweep.settings() == [Setting(sites=3, delay=5), Setting(sites=3, delay=7)]
    assert str(sweep) == "delay varied, n=3, k=100, |QI|=10, l=2, workclass sensitive"
    assert shortened(Sweep("k", (2, 3, 4), Setting())).values == (2, 4)


class Scripted:
    """Stands in for the simulation: publishes ages, some often enough for k = 2, and reports what it is told to."""

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
    table, setting = made_up(rows), setting or Setting(sites=3, k=2, delay=90)
    return Task(table, make_schema(table, setting), setting, seed=0)


def test_rows_that_strict_sites_do_not_publish_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "simulate", Scripted([4, 4, 4, 6, 6, 6], suppressed=2, undecided=2))
    found = methods.strict(strict_task(10), shared_from="k")
    assert found == Outcome(loss=0.7, messages=7, bytes=700, groups=2, suppressed=4)
    monkeypatch.setattr(methods, "simulate", Scripted([], suppressed=10))
    assert methods.strict(strict_task(10), shared_from="k").loss == 1.0


def test_groups_of_strict_sites_are_counted_in_what_they_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "simulate", Scripted([4, 4, 5, 6, 6, 6, 7]))
    found = methods.strict(strict_task(7), shared_from="k")
    assert (found.groups, found.groups_below_k) == (4, 2)


def test_rows_that_strict_sites_publish_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "simulate", Scripted([4, 4, 4, 4], suppressed=1))
    with pytest.raises(RuntimeError, match="4 rows are published, the sites' reports say otherwise"):
        methods.strict(strict_task(4), shared_from="k")


def test_strict_sites_share_boxes_from_k_persons_on_or_from_the_papers_few(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted([1] * 10)
    monkeypatch.setattr(methods, "simulate", scripted)
    task = strict_task(10, Setting(sites=3, k=10, delay=90, l=3))
    for name in (STRICT, STRICT_FEW):
        methods.METHODS[name](task)
    asked = Dcastle(k=10, l=3, delay=90, sites=3, max_clusters=25, loss_window=100)
    assert scripted.policies == [asked, replace(asked, share_threshold=4)]


@pytest.mark.compiled
def test_strict_sites_keep_k_where_the_papers_do_not_promise_it() -> None:
    """Seeded, so that it repeats."""
    table, setting = made_up(300), Setting(sites=3, k=6, delay=60, columns=2)
    for name in (STRICT, STRICT_FEW):
        found = run_setting(methods.METHODS[name], table, setting, 1)
        assert found.groups > 1
        assert found.groups_below_k == 0
        assert 0 < found.loss < 1
        assert found.bytes > found.messages > 0


@pytest.mark.compiled
def test_other_processes_find_the_same() -> None:
    table, sweep = made_up(60), Sweep("k", (3, 5), Setting(sites=2))
    compared = {name: methods.METHODS[name] for name in (CENTRALISED, ALONE_STRICT)}
    here, elsewhere = Experiment(table, methods=compared), Experiment(table, methods=compared)
    with processes(1, table) as workers:
        elsewhere.find_ahead([sweep], workers)
        for name in compared:
            for setting in sweep.settings():
                assert elsewhere.outcome(name, setting) == here.outcome(name, setting)


def test_a_setting_is_run_once_and_its_runs_are_averaged() -> None:
    calls: list[int] = []

    def run(task: Task) -> Outcome:
        calls.append(task.seed)
        return Outcome(
            loss=task.seed / 4, messages=2 * task.seed, most_clusters=task.seed, groups_below_k=task.seed == 1
        )

    experiment = Experiment(made_up(10), runs=3, methods={"it": run})
    found = experiment.outcome("it", Setting())
    assert found == experiment.outcome("it", Setting())
    assert found == Outcome(loss=0.25, messages=2, most_clusters=2, groups_below_k=1)
    assert calls == [0, 1, 2]


def test_the_data_are_as_large_as_their_lines() -> None:
    table = pa.table({"a": [10, 200], "b": ["x", "yz"], "pid": [0, 1]})
    assert Experiment(table).data_bytes == len("10,x\n200,yz\n")


# What is shown


def cells(table: Table, *, starts: str) -> list[str]:
    """Of the only line that starts so."""
    (line,) = [line for line in printed(table) if line.startswith(f"│ {starts} ")]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_table_of_losses_has_a_column_per_method() -> None:
    table = tabulate_losses(Experiment(made_up(100), methods=METHODS), Sweep("k", (50, 100), Setting(sites=4)))
    assert cells(table, starts="100") == ["100", "0.4000", "0.5000", "0.6000", "0.8000", "1.0000", "0.8000", "1.2000"]


def test_sites_that_talk_are_judged_by_their_mode_and_their_messages_weighed() -> None:
    experiment = Experiment(made_up(100), methods=METHODS)
    table = tabulate_sharing(experiment, Sweep("k", (50, 100), Setting(sites=4)))
    found = cells(table, starts="100")
    assert found[1:7] == ["distributed", "0.5000", "+25.0%", "+20.0%", "0.4000", "+25.0%"]
    assert found[8:10] == ["12,000", f"{12_000 / experiment.data_bytes:.2%}"]
    assert found[11:14] == ["34", "0", "2"]
    lines = [line for line in printed(table) if f" {STRICT} " in line]
    found = [cell.strip() for cell in lines[1].strip("│").split("│")]
    assert found[1:7] == [STRICT, "1.0000", "+25.0%", "+20.0%", "0.8000", "+25.0%"]
    assert found[8] == "1,200,000"
    assert found[11:14] == ["-", "10", "0"]


def test_claims_are_judged_over_all_settings_and_ways_of_talking() -> None:
    sweeps = [Sweep("sites", (2, 8), Setting()), Sweep("k", (50, 100, 200), Setting(sites=2))]
    table = tabulate_claims(Experiment(made_up(100), methods=METHODS), sweeps)
    assert table.title == "the paper's claims, 4 settings"
    _, paper, strict, few = (list(column.cells) for column in table.columns)
    assert paper[0] == "+25.0% to +25.0%, median +25.0% against centralised"
    assert strict[0] == "+25.0% to +25.0%, median +25.0% against centralised, strict"
    assert few[0] == "+0.0% to +0.0%, median +0.0% against centralised, strict"
    assert paper[1] == "+20.0% to +20.0%, median +20.0%; more in 4 settings"
    assert few[1] == "+50.0% to +50.0%, median +50.0%; more in 4 settings"
    assert str(paper[2]).startswith("at most 24,000 bytes")
    assert str(paper[2]).endswith("within 20,000 in 3 settings")
    assert str(few[2]).endswith("within 20,000 in 0 settings")
    assert (paper[3], strict[3]) == ("at most 38", "not counted")
    assert (strict[4], few[4]) == ("+25.0% to +25.0%, median +25.0%", "+0.0% to +0.0%, median +0.0%")
    assert paper[6] == "8 of 0 groups below k, in 4 settings"
    assert strict[6] == "0 of 40 groups below k, in 0 settings"
    assert paper[8] == "loss 0.250 to 1.000, bytes 6,000 to 6,000"


def test_a_strict_group_below_k_is_a_broken_promise_and_one_of_the_papers_is_not() -> None:
    table, sweeps = made_up(100), [Sweep("k", (50, 100), Setting())]
    assert broken_promises(Experiment(table, methods=METHODS), sweeps) == []
    worse = {**METHODS, STRICT_FEW: told(0.8, below=1)}
    broken = broken_promises(Experiment(table, methods=worse), sweeps)
    assert len(broken) == 4  # each with l and without
    assert broken[0] == f"{STRICT_FEW}, {Setting(k=50)}: 1 groups below k"


def test_the_figure_is_drawn_where_matplotlib_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "new folder" / "figure.png"
    sweeps = [Sweep("sites", (2, 8), Setting(k=k)) for k in (10, 20, 30, 40, 50, 60)]
    draw(path, Experiment(made_up(100), methods=METHODS), sweeps)
    assert path.read_bytes().startswith(b"\x89PNG")


# The command


def test_without_the_data_one_line_says_what_is_missing() -> None:
    with pytest.raises(SystemExit, match="CASTLEGUARD_DATA must name the folder with adult"):
        command.main([])


@pytest.mark.compiled
def test_the_command_prints_a_table_for_every_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweeps = (Sweep("k", (5, 10, 20), Setting(sites=3, delay=200)), Sweep("l", (2, 3), Setting(sites=2, k=10)))
    monkeypatch.setattr(command, "load", lambda: made_up(120))
    monkeypatch.setattr(command, "SWEEPS", sweeps)
    command.main(["--only", "k", "--quick", "--jobs", "1"])
    text = capsys.readouterr().out
    assert "information loss: k varied, n=3, delay=200" in text
    assert "l varied" not in text
    points = [line for line in text.splitlines() if line.startswith(("│  5 ", "│ 10 ", "│ 20 "))]
    assert [line.startswith("│  5 ") for line in points] == [True, False] * 2
    assert text.count(f" {STRICT_FEW} ") == 3  # two points, and the claims


def test_the_command_fails_where_strict_publishes_a_group_below_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda: made_up(10))
    monkeypatch.setattr(command, "SWEEPS", (Sweep("k", (50, 100), Setting()),))
    monkeypatch.setattr("benchmarks.dcastle.experiment.METHODS", {**METHODS, STRICT: told(0.8, below=3)})
    with pytest.raises(SystemExit, match=r"but did:\ndistributed, strict, from k, n=8, k=50.*: 3 groups below k"):
        command.main(["--jobs", "1"])


@pytest.mark.compiled
def test_adult_over_eight_sites_comes_near_the_paper(data_folder: Path) -> None:
    """Seeded, so that it repeats: near the centralised loss, and little is sent; but groups below k are published."""
    experiment, setting = Experiment(command.load()), Setting()
    central, shared, alone = (experiment.outcome(name, setting) for name in (CENTRALISED, DISTRIBUTED, ALONE))
    assert central.loss == pytest.approx(0.411, rel=0.03)
    assert shared.loss == pytest.approx(0.461, rel=0.03)
    assert alone.loss == pytest.approx(0.483, rel=0.03)
    assert shared.bytes < 0.01 * experiment.data_bytes
    assert shared.most_clusters < 2 * CLUSTERS
    assert shared.groups_below_k > 0
