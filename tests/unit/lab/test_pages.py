"""Result pages: content, papers run one by one, and nothing about the machine."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from castleguard import __version__
from castleguard.errors import InputError, OutputError
from castleguard.lab import pages
from castleguard.lab.result import Claim, Experiment, Result, Scale, Word
from castleguard.lab.running import Done

SCALE = Scale(seed=7, jobs=2)


def claim(verdict: Word = "reproduced", *, reason: str = "") -> Claim:
    return Claim(paper="Loss | falls.", ours="It falls\nby half.", verdict=verdict, reason=reason)


def a_line(figure: Any) -> None:
    figure.subplots().plot([1, 2], [3, 4])


def result(*claims: Claim, figure: str = "5a", drawn: bool = False) -> Result:
    return Result(
        figure=figure,
        title="loss on k",
        setting="100 rows.",
        claims=claims or (claim(),),
        columns=("k", "loss"),
        rows=(("2", "0.1"), ("4", "0.2")),
        draw=a_line if drawn else None,
        notes=("Mind the gap.",),
    )


def done(*results: Result, paper: str = "castle") -> list[Done]:
    experiment = Experiment(paper=paper, figures=("5a", "5b"), about="", needs=(), run=lambda scale: results)
    return [Done(experiment=experiment, results=results, seconds=1.26)]


def write(folder: Path, *results: Result, paper: str = "castle", scale: Scale = SCALE) -> str:
    pages.write(folder, pages.facts_of(paper, scale, done(*results, paper=paper)), results)
    return (folder / f"{paper}.md").read_text(encoding="utf-8")


def test_page_has_statements_verdicts_figures_and_origin(tmp_path: Path) -> None:
    page = write(tmp_path / "new", result(claim("partly", reason="It rained."), claim()))
    assert "castleguard reproduce castle --seed 7 --output FOLDER" in page
    assert f"castleguard {__version__}" in page
    assert "numpy" in page
    assert "2 processes" in page
    assert "| 5a, 5b | 1.3 |" in page
    assert "## Figure 5a: loss on k" in page
    assert "| Loss \\| falls. | It falls by half. It rained. | **partly** |" in page
    assert "| k | loss |\n|---|---|\n| 2 | 0.1 |\n| 4 | 0.2 |" in page
    assert "- Mind the gap." in page
    assert "2 statements: 1 reproduced, 1 partly, 0 not reproduced, 0 not comparable." in page
    assert "quick" not in page


def test_long_table_is_folded(tmp_path: Path) -> None:
    short, long = (replace(result(), rows=(("2", "0.1"),) * rows) for rows in (12, 13))
    assert "<details>" not in write(tmp_path, short)
    page = write(tmp_path, long)
    assert "<summary>All 13 points</summary>\n\n| k | loss |\n" in page
    assert page.count("| 2 | 0.1 |\n") == 13


def test_a_quick_run_says_so_on_every_page(tmp_path: Path) -> None:
    page = write(tmp_path, result(), scale=Scale(quick=True))
    assert "--seed 0 --quick" in page
    assert "1 process." in page
    assert "not to be compared with the paper" in page
    assert "not to be compared with the papers" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_page_shows_nothing_about_the_machine(tmp_path: Path) -> None:
    write(tmp_path, result())
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        assert str(tmp_path) not in text
        assert str(Path.home()) not in text


def test_the_overview_has_all_papers_that_were_run(tmp_path: Path) -> None:
    write(tmp_path, result(figure="Table 1"), paper="doca")
    write(tmp_path, result(claim("not reproduced"), claim()), paper="castle")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "3 statements: 2 reproduced, 0 partly, 1 not reproduced, 0 not comparable." in text
    lines = [line for line in text.splitlines() if line.startswith("| castle ") or line.startswith("| doca ")]
    statement = "Loss \\| falls. | It falls by half."
    # In the order of the papers, not of the runs.
    assert lines == [
        f"| castle | [Figure 5a](castle.md#figure-5a-loss-on-k) | {statement} | not reproduced |",
        f"| castle | [Figure 5a](castle.md#figure-5a-loss-on-k) | {statement} | reproduced |",
        f"| doca | [Table 1](doca.md#table-1-loss-on-k) | {statement} | reproduced |",
    ]
    assert "The pages: [castle](castle.md), [doca](doca.md)." in text


def test_stored_results_keep_scale_rows_and_verdicts(tmp_path: Path) -> None:
    write(tmp_path, result())
    stored = json.loads((tmp_path / "castle.json").read_text(encoding="utf-8"))
    assert stored["scale"] == {"seed": 7, "jobs": 2, "quick": False, "full": False}
    assert stored["results"][0]["rows"] == [["2", "0.1"], ["4", "0.2"]]
    assert stored["results"][0]["claims"][0]["verdict"] == "reproduced"


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "doca.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"doca\.json is damaged; remove it"):
        write(tmp_path, result())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(OutputError, match="taken cannot be written"):
        write(tmp_path / "taken", result())


def test_figures_with_a_picture_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pages.require_matplotlib()
    both = result(drawn=True), result(figure="Table 1")
    assert pages.draw(tmp_path, "castle", both) == [tmp_path / "castle-5a.png"]
    assert (tmp_path / "castle-5a.png").read_bytes().startswith(b"\x89PNG")
    page = write(tmp_path, *both)
    assert page.count("![") == 1
    assert "![Figure 5a: loss on k](castle-5a.png)" in page
