"""`castleguard measure`: a readable table, the same for programs, and what is left out."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

SCHEMA = """
person: null
quasi_identifiers: [{name: age, lower: 0, upper: 100, step: 10}]
sensitive: [ill]
public: [row]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ages = [number * 7 % 100 for number in range(60)]
    rows = [f"{number},{age},{'yes' if age > 50 else 'no'}\n" for number, age in enumerate(ages)]
    (tmp_path / "in.csv").write_text("row,age,ill\n" + "".join(rows))
    shown = [
        f"{number},{age // 10 * 10},{age // 10 * 10 + 10},{'yes' if age > 50 else 'no'}\n"
        for number, age in enumerate(ages[:50])
    ]
    (tmp_path / "out.csv").write_text("row,age_min,age_max,ill\n" + "".join(shown))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def test_every_figure_stands_beside_its_meaning(run: Run, folder: Path) -> None:
    outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", "--link", "row", "--k", "2")
    assert outcome.code == 0
    lines = {" ".join(line.split()) for line in outcome.out.splitlines()}
    assert "not published 10 suppressed, sampled out or rejected" in lines
    assert "generalised loss 0.1000 mean share of the domain that a value covers" in lines
    assert "average group size 2.5000 rows per group as a multiple of 2" in lines
    assert any("median relative error of 5,000 COUNT queries of selectivity 0.1" in line for line in lines)
    assert all(len(line) <= 120 for line in outcome.out.splitlines())
    assert outcome.out.rstrip().endswith("learning: needs a label column")


def test_without_a_link_the_last_lines_list_skipped_measures(run: Run, folder: Path) -> None:
    outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", "--queries", "0")
    assert outcome.code == 0
    assert "workload error" not in outcome.out
    left_out = outcome.out.partition("left out\n")[2]
    assert "mean squared error: needs a link" in left_out
    assert "learning" in left_out


def test_programs_get_json(run: Run, folder: Path) -> None:
    outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", "--json", "--link", "row")
    found = json.loads(outcome.out)
    assert found["rows"] == {"original": 60, "published": 50, "not published": 10, "groups": 10}
    assert found["lost detail"]["generalised loss: age"] == pytest.approx(0.1)
    assert found["numbers"]["age: squared error"] > 0
    assert found["left out"]


def test_the_seed_and_the_window_are_those_given(run: Run, folder: Path) -> None:
    def errors(*more: str) -> object:
        outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", "--json", "--link", "row", *more)
        return json.loads(outcome.out)["queries"]

    assert errors("--seed", "1") == errors("--seed", "1") != errors("--seed", "2")
    assert "worst window" in str(errors("--window", "20"))


def test_classifiers_are_trained_for_a_label(run: Run, folder: Path) -> None:
    pytest.importorskip("sklearn", reason="learning utility needs scikit-learn, the extra `learn`")
    arguments = ["--link", "row", "--label", "ill", "--runs", "1", "--queries", "0"]
    outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", "--json", *arguments)
    learned = json.loads(outcome.out)["learning ill"]
    assert learned["k-NN, scaled, published: accuracy"] > 0.7
    assert len(learned) == 1 + 2 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--link", "name"], 1, "name"),
        (["--selectivity", "2"], 1, "selectivity"),
        (["--label", "age", "--link", "row"], 1, "sensitive or public column"),
        (["--window", "0"], 2, "--window"),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    run: Run, folder: Path, arguments: list[str], code: int, words: str
) -> None:
    outcome = run("measure", "in.csv", "out.csv", "--schema", "schema.yaml", *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert "Traceback" not in outcome.err
