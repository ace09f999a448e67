"""`castleguard compare`: the table, the JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

SCHEMA = """
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("pid,age\n" + "".join(f"{n},{n * 37 % 101}\n" for n in range(200)))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def _arguments(data: Path, *more: str) -> list[str | Path]:
    return ["compare", data / "rows.csv", "--schema", data / "schema.yaml", "--k", "3", "--delay", "40", *more]


@pytest.mark.compiled
def test_every_method_has_lines_with_its_promise_and_findings(run: Run, data: Path) -> None:
    outcome = run(*_arguments(data, "--sites", "2"))
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == "200 rows, k=3, l=1, delay=40, seed=0"
    titles = [line[:36].strip() for line in lines[3:] if not line.startswith("  ")]
    assert titles == [
        "Citadel",
        "Citadel, narrow reuse",
        "CASTLE, strict",
        "CASTLE, as printed",
        "CASTLE, sites without communication",
        "dCASTLE, as printed",
        "FADS",
        "Mondrian on windows",
        "condensation (dynamicGroup)",
        "Laplace noise on every value",
    ]
    assert outcome.out.count("  promises ") == 10
    assert "  FOUND: 159 rows too late" in lines
    assert any(line.startswith("  2 sites sent ") for line in lines)
    assert "of their domain on average" in outcome.out


def test_chosen_methods_as_json(run: Run, data: Path) -> None:
    outcome = run(*_arguments(data, "--methods", "fads, mondrian", "--json"))
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert [entry["method"] for entry in found] == ["fads", "mondrian"]
    assert all(entry["below_k"] == 0 and entry["late"] == 0 for entry in found)


def test_a_method_that_cannot_do_the_schema_has_a_line_that_says_so(run: Run, folder: Path) -> None:
    options = ["--schema", folder / "schema.yaml", "--k", "5", "--delay", "100", "--methods", "dynamic-group"]
    outcome = run("compare", folder / "visits.csv", *options)
    assert outcome.code == 0, outcome.err
    assert "  not possible: condensation groups numbers only, and column 'district' holds categories" in outcome.out


def test_an_unknown_method_and_an_impossible_delay_are_refused(run: Run, data: Path) -> None:
    outcome = run(*_arguments(data, "--methods", "mondrain"))
    assert outcome.code != 0
    assert "there is no method 'mondrain'" in outcome.err
    outcome = run("compare", data / "rows.csv", "--schema", data / "schema.yaml", "--k", "9", "--delay", "2")
    assert outcome.code != 0
    assert "delay must be at least k - 1" in outcome.err
