"""`castleguard reproduce`: what it runs, prints and writes; with made-up experiments."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

from castleguard.cli.reproduce import reproduce
from castleguard.errors import InputError
from castleguard.lab import catalogue, datasets
from castleguard.lab.result import Claim, Experiment, Result, Scale


def a_line(figure: Any) -> None:
    figure.subplots().plot([1, 2], [3, 4])


def experiment(paper: str, *figures: str, needs: tuple[str, ...] = ()) -> Experiment:
    def run(scale: Scale) -> Sequence[Result]:
        claim = Claim(paper="[It] is so.", ours=f"Seed {scale.seed}.", verdict="partly", reason="It rained.")
        return [
            Result(
                figure=figure,
                title=f"of {figure}",
                setting=f"{scale.jobs} at once, {'quick' if scale.quick else 'slow'}",
                claims=(claim,),
                columns=("k", "loss"),
                rows=(("2", "0.1"),),
                draw=a_line,
                notes=("Mind the gap.",),
            )
            for figure in figures
        ]

    return Experiment(paper=paper, figures=figures, about=f"about {figures[0]}", needs=needs, run=run)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, tuple[Experiment, ...]]:
    """Every paper has one experiment; DOCA's needs data, and there are none."""
    monkeypatch.setenv("CASTLEGUARD_DATA", str(tmp_path / "no data"))
    monkeypatch.setenv("CASTLEGUARD_CACHE", str(tmp_path / "no cache"))
    own = {
        "castle": (experiment("castle", "5a", "5b"), experiment("castle", "6")),
        "castleguard": (experiment("castleguard", "2"),),
        "dcastle": (experiment("dcastle", "7"),),
        "doca": (experiment("doca", "Table 1", needs=("backblaze",)),),
    }
    for paper, experiments in own.items():
        module = ModuleType(f"castleguard.lab.{paper}")
        module.EXPERIMENTS = experiments  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return own


def run(*arguments: str | Path) -> Outcome:
    return CliRunner().invoke(reproduce, [str(argument) for argument in arguments])


pytestmark = pytest.mark.usefixtures("made_up")


def test_statements_and_findings_stand_side_by_side() -> None:
    outcome = run("castle", "--seed", "4", "--jobs", "3", "--quick")
    assert outcome.exit_code == 0
    assert "castle, Figure 5a: of 5a\n3 at once, quick\n" in outcome.stdout
    lines = [line for line in outcome.stdout.splitlines() if "is so" in line]
    assert len(lines) == 3
    assert lines[0].split() == ["[It]", "is", "so.", "Seed", "4.", "It", "rained.", "partly"]
    assert "- Mind the gap." in outcome.stdout
    assert "3 statements: 0 reproduced, 3 partly, 0 not reproduced, 0 not comparable." in outcome.stdout
    assert "\x1b" not in outcome.stdout
    assert logging.getLogger("castleguard").level == logging.NOTSET  # as it was
    assert outcome.stderr.splitlines()[0] == "castle 5a, 5b: about 5a ..."


def test_a_single_figure_comes_with_its_values_and_without_pages(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcome = run("castle", "--figure", "5B", "--output", tmp_path / "out")
    assert outcome.exit_code == 0
    assert "Figure 5b" in outcome.stdout
    assert "Figure 5a" not in outcome.stdout
    assert any(line.split() == ["2", "0.1"] for line in outcome.stdout.splitlines())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["castle-5b.png"]


def test_a_whole_paper_has_its_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("castle", "--output", tmp_path).exit_code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"README.md", "castle.md", "castle.json", "castle-5a.png", "castle-5b.png", "castle-6.png"}


def test_papers_without_data_are_left_out_and_the_command_fails(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcome = run("--output", tmp_path)
    assert outcome.exit_code == 1
    assert "castleguard: the data set backblaze is not here" in outcome.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert {"castle.md", "castleguard.md", "dcastle.md"} <= names
    assert "doca.md" not in names


def test_without_any_data_nothing_is_run() -> None:
    outcome = run("doca")
    assert isinstance(outcome.exception, InputError)
    assert "backblaze is not here: get it from" in str(outcome.exception)
    assert outcome.stdout == ""


def test_an_unknown_figure_is_refused_with_the_known_ones() -> None:
    outcome = run("castle", "--figure", "9")
    assert outcome.exit_code == 2
    assert "no figure 9" in outcome.stderr
    assert "5a, 5b, 6" in outcome.stderr


def test_the_command_knows_the_papers_of_the_catalogue() -> None:
    (argument,) = (parameter for parameter in reproduce.params if parameter.name == "paper")
    assert isinstance(argument.type, click.Choice)
    assert list(argument.type.choices) == list(catalogue.PAPERS)


def test_quick_and_full_exclude_each_other() -> None:
    outcome = run("castle", "--quick", "--full")
    assert outcome.exit_code == 2
    assert "mutually exclusive" in outcome.stderr


def test_the_list_marks_missing_data() -> None:
    outcome = run("--list")
    assert outcome.exit_code == 0
    lines = outcome.stdout.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["castle", "5a,", "5b:", "about", "5a;", "data:", "synthetic"]
    assert lines[-1].endswith("data: backblaze (missing)")


def test_downloadable_data_is_fetched_before_the_run(
    made_up: dict[str, tuple[Experiment, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def download(names: Sequence[str], **_: object) -> list[Path]:
        asked.append(list(names))
        return []

    monkeypatch.setattr(datasets, "download", download)
    module = sys.modules["castleguard.lab.castle"]
    module.EXPERIMENTS = (experiment("castle", "5a", needs=("pima",)),)  # type: ignore[attr-defined]
    run("castle", "--list", "--download")
    run("doca", "--list", "--download")  # has no address: that is said by the run
    assert asked == [["pima"]]


def test_without_matplotlib_no_work_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run("castle", "--output", tmp_path / "out")
    assert "pip install 'castleguard[plot]'" in str(outcome.exception)
    assert outcome.stdout == ""
    assert not (tmp_path / "out").exists()
