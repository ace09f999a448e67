"""`castleguard audit dp`: the game as a command, its exit codes and what it writes. The runs are few: what few runs
prove of coarse claims, they prove with the same confidence.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from castleguard.judge.attack.membership_game import Seen
from castleguard.judge.game import game
from castleguard.judge.game.settings import Setting
from tests.unit.cli.conftest import Run

PAPER = (
    *("--algorithm", "castleguard", "--mode", "paper"),
    *("--k", "20", "--delay", "100", "--sample-rate", "0.5", "--phi", "100"),
)


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """In place of runs: how often something is seen with the canary and without it; and what was asked for."""
    odds = [0.4, 0.0]

    def play(setting: Setting, *, runs: int, **_: Any) -> Sequence[Seen]:
        draw = np.random.default_rng(5)
        one, other = ((draw.random((runs, 1)) < p).astype(np.float64) for p in odds)
        return [Seen(canary.name, ("rows with its s (0)",), one, other) for canary in setting.canaries]

    monkeypatch.setattr(game, "play", play)
    return odds


@pytest.mark.compiled
def test_the_papers_claim_is_refuted_by_few_runs_and_the_command_succeeds(run: Run, tmp_path: Path) -> None:
    done = run("audit", "dp", *PAPER, "--runs", "100", "--jobs", "1", "--json", tmp_path / "found.json")
    assert done.code == 0
    assert "the policy itself: no differential privacy is claimed" in done.out
    assert "Theorem 2 of the CASTLEGUARD paper claims (1, 0.000772): REFUTED" in done.out
    assert "This is not the policy's own claim" in done.out
    assert "Not refuted is not proved" in done.out
    figures = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert figures["claims"][0]["refuted"] is True
    assert figures["claims"][0]["epsilon_above"] > 1


@pytest.mark.compiled
def test_rows_of_a_file_can_be_the_background(run: Run, folder: Path) -> None:
    options = ("--algorithm", "castle", "--k", "5", "--delay", "40", "--runs", "20", "--jobs", "1", "--rows", "60")
    done = run("audit", "dp", *options, "--schema", folder / "schema.yaml", "--data", folder / "visits.csv")
    assert done.code == 0
    assert "Background: 60 given rows" in done.out
    assert "no differential privacy is claimed" in done.out


@pytest.mark.parametrize(("seen", "code"), [(0.4, 0), (0.95, 3)])
def test_the_exit_code_is_about_the_policys_own_claim(run: Run, coins: list[float], seen: float, code: int) -> None:
    """(0, 0.5) with a clock of sampled rows: what is seen in 95 of 100 runs and never without is too much."""
    coins[0] = seen
    done = run("audit", "dp", *PAPER, "--clock", "sampled", "--runs", "400")
    assert done.code == code
    assert f"the policy itself claims (0, 0.5): {'REFUTED' if code else 'not refuted'}" in done.out


def test_a_claim_can_be_asked_for(run: Run, coins: list[float]) -> None:
    done = run("audit", "dp", *PAPER, "--claim-epsilon", "2", "--runs", "100")
    assert "Theorem 2 of the CASTLEGUARD paper claims (2, " in done.out
    done = run(
        "audit", "dp", "--k", "5", "--delay", "40", "--claim-epsilon", "9", "--claim-delta", "0.9", "--runs", "40"
    )
    assert done.code == 0
    assert "the user claims (9, 0.9): not refuted" in done.out


def test_figures_alone_can_go_to_the_output(run: Run, coins: list[float]) -> None:
    done = run("audit", "dp", *PAPER, "--runs", "40", "--json", "-")
    assert json.loads(done.out)["runs"] == 40


def test_a_report_can_be_written(run: Run, coins: list[float], tmp_path: Path) -> None:
    done = run("audit", "dp", *PAPER, "--runs", "400", "--html", tmp_path / "report.html")
    assert done.code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "castleguard(k=20, delay=100, mode=paper, sample_rate=0.5, phi=100)" in page
    assert "REFUTED" in page
    refused = run("audit", "dp", *PAPER, "--runs", "40", "--html", tmp_path)
    assert refused.code == 1
    assert "cannot write" in refused.err


@pytest.mark.compiled
def test_one_run_is_the_quick_way(run: Run) -> None:
    done = run("audit", "dp", *PAPER, "--one-run", "400")
    assert done.code == 0
    assert "One run with 400 canaries" in done.out
    assert "claims (1, 0.000772): REFUTED" in done.out
    figures = json.loads(run("audit", "dp", *PAPER, "--one-run", "400", "--json", "-").out)
    assert figures["right"] == figures["guesses"] > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--claim-delta 0.1", "--claim-delta needs --claim-epsilon"),
        ("--data rows.csv", "--schema and --data must be used together"),
        ("--rows 50", "--rows needs --data"),
        ("--runs 5", "--runs"),
        ("--one-run 5 --html report.html", "--one-run uses synthetic rows and writes no report"),
        ("--algorithm castle", "castle has no option --sample-rate"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(run: Run, options: str, sentence: str) -> None:
    done = run("audit", "dp", *PAPER, *options.split())
    assert done.code == 2
    assert sentence in done.err
