"""`castleguard sweep`: what it writes and says, how it goes on, and how it ends."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import castleguard as cg
from castleguard.judge.first_rows import read_sample
from castleguard.judge.sweep.trial import Ground, measure
from castleguard.testing.streams import visits, visits_schema
from tests.patience import WHOLE_RUN, eventually
from tests.unit.cli.conftest import Outcome, Run

FILES = {"sweep.json", "results.jsonl", "results.csv", "report.md", "picture.png"}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than all the rest."""
    monkeypatch.setattr("castleguard.judge.sweep.pareto_picture.draw", lambda *_, **__: b"")


@pytest.fixture
def sweep(run: Run, folder: Path) -> Run:
    """Run `castleguard sweep` on 250 rows of the small stream, with more arguments."""

    def sweep(*more: str | Path) -> Outcome:
        options = ["--schema", folder / "schema.yaml", "--delay", "30,100", "--sample", "250", "--jobs", "1", *more]
        return run("sweep", folder / "visits.csv", "-o", folder / "out", *options)

    return sweep


def rows_of(folder: Path) -> list[dict[str, str]]:
    with open(folder / "out" / "results.csv", encoding="utf-8") as file:
        return [{**row, "rows_per_second": ""} for row in csv.DictReader(file)]


@pytest.mark.compiled
def test_a_sweep_writes_a_table_a_picture_and_a_recommendation(sweep: Run, folder: Path) -> None:
    shown = sweep("--k", "3,5,40")
    assert (shown.code, shown.err) == (0, "")
    assert {path.name for path in (folder / "out").iterdir()} == FILES
    rows = rows_of(folder)
    assert [(row["k"], row["delay_given"]) for row in rows] == [
        ("3", "30"), ("3", "100"), ("5", "30"), ("5", "100"), ("40", "100"),
    ]  # fmt: skip
    assert any(row["pareto"] for row in rows)
    assert "\nTake k=" in shown.out
    assert "Refused combinations: 1;" in shown.out
    report = (folder / "out" / "report.md").read_text(encoding="utf-8")
    assert "- k=40 delay=30: delay must be at least k - 1" in report
    assert next(line for line in shown.out.splitlines() if line.startswith("Take k=")) in report


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
def test_the_same_command_again_repeats_no_setting(sweep: Run, folder: Path) -> None:
    first = sweep("--k", "3,5")
    before = (folder / "out" / "results.jsonl").read_bytes()
    assert sweep("--k", "3,5").out == first.out
    assert (folder / "out" / "results.jsonl").read_bytes() == before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
def test_other_limits_need_no_new_run(sweep: Run, folder: Path) -> None:
    sweep("--k", "3,5")
    before = (folder / "out" / "results.jsonl").read_bytes()
    shown = sweep("--k", "3,5", "--max-loss", "0.001", "--max-risk", "0.001")
    assert "No setting meets both --max-loss 0.001 and --max-risk 0.001. The closest is k=" in shown.out
    assert (folder / "out" / "results.jsonl").read_bytes() == before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
def test_another_sweep_is_refused_until_it_may_overwrite(sweep: Run, folder: Path) -> None:
    sweep("--k", "3")
    refused = sweep("--k", "5")
    assert refused.code == 1
    assert "another sweep (different parameters)" in refused.err
    assert "--overwrite" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert sweep("--k", "5", "--overwrite").code == 0
    assert {row["k"] for row in rows_of(folder)} == {"5"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
def test_no_file_of_the_sweep_holds_a_value_of_a_row(sweep: Run, folder: Path) -> None:
    sweep("--k", "3,5", "--l", "1,2")
    sample = read_sample(folder / "visits.csv", visits_schema(), 250)
    held = {*sample["patient"].to_pylist(), *sample["diagnosis"].to_pylist(), *sample["clinic"].to_pylist()}
    for name in FILES - {"picture.png"}:
        text = (folder / "out" / name).read_text(encoding="utf-8")
        assert not [value for value in held if str(value) in text]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--k", "3,,5"), "an empty value between commas"),
        (("--k", "three"), "is not a valid integer"),
        ((), "--k is missing"),
        (("--k", "3", "--phi", "1"), "castle has no option --phi"),
        (("--k", "3", "--reuse", "paper,never"), "'never' is not one of"),
    ],
)
def test_a_wrong_option_is_one_sentence(sweep: Run, folder: Path, arguments: tuple[str, ...], words: str) -> None:
    shown = sweep(*arguments)
    assert shown.code == 2
    assert words in shown.err
    assert not (folder / "out").exists()


def test_no_combination_at_all_is_one_sentence(sweep: Run, folder: Path) -> None:
    shown = sweep("--k", "200,300")
    assert shown.code == 1
    assert "all 4 combinations are refused; the first one: " in shown.err
    assert not (folder / "out").exists()


@pytest.mark.compiled
def test_a_setting_that_publishes_nothing_is_not_recommended(sweep: Run, folder: Path) -> None:
    """Its risk would be zero, the best of all settings."""
    shown = sweep("--k", "190", "--delay", "200")
    assert shown.code == 1
    assert "no setting publishes any row" in shown.err
    assert "k=3" in sweep("--k", "3,190", "--delay", "200", "--overwrite").out


DECLARED = """
person: patient
quasi_identifiers:
  - {name: age, lower: 0, upper: 110, step: 5}
  - {name: distance_km, lower: 0.0, upper: 200.0, step: 2.5}
"""


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("castleguard", "--delay 50 --k 3 --epsilon 1,100 --sample-rate 0.5,1"),
        ("sdgs", "--window 100 --window-unit rows --k 2,3 --sample-rate 0.5 --epsilon 0.5,1,2"),
        ("doca", "--delay 100 --k 5,20 --epsilon 1,4 --rows-per-person 1,2"),
    ],
)
def test_every_algorithm_can_be_swept_and_epsilon_is_its_risk(
    run: Run, folder: Path, algorithm: str, options: str
) -> None:
    (folder / "declared.yaml").write_text(DECLARED, encoding="utf-8")
    common = ("--schema", folder / "declared.yaml", "--sample", "250", "--jobs", "1", "-o", folder / "out")
    shown = run("sweep", folder / "visits.csv", "--algorithm", algorithm, *common, *options.split())
    assert shown.code == 0, shown.err
    assert "epsilon of the guarantee" in shown.out
    rows = rows_of(folder)
    assert {float(row["epsilon"]) for row in rows} == {
        "castleguard": {1, 100}, "sdgs": {2, 4}, "doca": {1, 4},
    }[algorithm]  # fmt: skip
    for row in rows:
        out = sum(float(row[name]) for name in ("published", "suppressed", "sampled_out", "over_budget", "rejected"))
        assert out == pytest.approx(1)
        assert 0 <= float(row["loss"]) <= 1
    if algorithm == "sdgs":
        assert "- epsilon=0.5 k=2: epsilon must be at least" in (folder / "out" / "report.md").read_text("utf-8")
    if algorithm == "castleguard":
        noisy, exact = (row for row in rows if row["sample_rate"] == "1.0")
        assert float(noisy["untrue"]) > float(exact["untrue"])
        assert float(noisy["loss"]) > float(exact["loss"])


@pytest.mark.usefixtures("undrawn")
@pytest.mark.compiled
def test_a_sweep_over_algorithms_has_them_as_a_parameter(sweep: Run, folder: Path) -> None:
    shown = sweep("--algorithm", "castle,citadel", "--k", "5")
    assert shown.code == 0, shown.err
    rows = rows_of(folder)
    assert [(row["algorithm"], row["delay_given"]) for row in rows] == [
        ("castle", "30"), ("castle", "100"), ("citadel", "30"), ("citadel", "100"),
    ]  # fmt: skip
    assert "\nTake algorithm=" in shown.out
    assert "instead of" in shown.out
    assert "note: Algorithms make different promises" in shown.out
    again = sweep("--algorithm", "citadel,castle", "--k", "5")
    assert again.code == 1
    assert "algorithm" in again.err


def test_a_sweep_over_algorithms_takes_their_common_parameters(sweep: Run) -> None:
    shown = sweep("--algorithm", "castle,citadel", "--k", "5", "--max-clusters", "10")
    assert shown.code == 2
    assert "citadel has no option --max-clusters" in shown.err
    shown = sweep("--algorithm", "castle,cite", "--k", "5")
    assert shown.code == 2
    assert "'cite' is not one of" in shown.err


@pytest.mark.integration
@pytest.mark.compiled
def test_interrupted_processes_end_with_the_results_of_one_process(folder: Path) -> None:
    """Ctrl-C goes to all processes; finished settings stay, and no process is left."""
    source = folder / "visits.parquet"
    pa.parquet.write_table(pa.concat_tables(visits(600, seed=3)), source)
    command: list[str | Path] = [sys.executable, "-m", "castleguard", "sweep", source]
    command += ["--schema", folder / "schema.yaml"]
    # More settings than any machine is through with before it is interrupted.
    delays = ",".join(str(delay) for delay in range(50, 250, 20))
    command += ["--k", "3,5,10,20", "--delay", delays, "--runs", "25", "--jobs", "2", "-o", folder / "out"]
    # Tests that run in the background ignore Ctrl-C, and their child processes would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        signal.signal(signal.SIGINT, before)
        results = folder / "out" / "results.jsonl"
        eventually(lambda: results.exists() and results.read_bytes().count(b"\n"), "nothing is done")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=WHOLE_RUN)
    assert process.returncode == 130, errors
    assert errors == b"castleguard: interrupted; finished settings are kept: run the same command again to finish\n"
    eventually(lambda: not members(process.pid), "a process is left")
    kept = [json.loads(line) for line in results.read_bytes().splitlines()]
    assert 1 <= len(kept) < 40
    alone = Ground(read_sample(source, visits_schema(), 600), visits_schema(), tuple(range(25)))
    found = measure(alone, cg.Castle(**dict(kept[0]["setting"])))
    assert without_speed(found.as_json()) == without_speed(kept[0]["figures"])


def members(group: int) -> bool:
    """Whether a process group has running members. A zombie does not count."""
    if Path("/proc/self/stat").exists():
        return any(belongs(process / "stat", group) for process in Path("/proc").glob("[0-9]*"))
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def belongs(stat: Path, group: int) -> bool:
    """Whether a process is at work in a group: its state and its group follow its name, which is in brackets."""
    try:
        state, _, own = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
    except OSError:
        return False
    return int(own) == group and state != "Z"


def without_speed(figures: dict[str, Any]) -> dict[str, Any]:
    return {**figures, "rows_per_second": None}
