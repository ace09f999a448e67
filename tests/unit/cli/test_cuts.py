"""`castleguard cuts`: public cut points as a file and in words."""

import json
from pathlib import Path

import pytest

from castleguard.config.schema_file import load_schema
from castleguard.shards.cuts_file import read_cuts
from tests.unit.cli.conftest import Run

SCHEMA = """
person: name
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 10}
  - {name: job, hierarchy: {Any: {Care: [Nurse, Doctor], Trades: [Cook, Builder]}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "a.csv").write_text("age_min,age_max,job\n" + "0,10,Care\n" * 10 + "10,20,Cook\n" * 10)
    (tmp_path / "b.csv").write_text("age_min,age_max,job\n" + "20,60,Any\n" * 20)
    return tmp_path


def test_published_files_part_the_rows(run: Run, folder: Path) -> None:
    outcome = run("cuts", "a.csv", "b.csv", "--schema", "schema.yaml", "--shards", "2", "--output", "cuts.json")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [
        "shard 0:  50.0%  age below 20",
        "shard 1:  50.0%  age from 20",
        "The largest shard has 1.00 times its fair share of the published rows.",
        "written to cuts.json",
    ]
    assert read_cuts("cuts.json", load_schema("schema.yaml")).shards == 2


def test_without_published_files_the_domain_is_cut(run: Run, folder: Path) -> None:
    outcome = run("cuts", "--schema", "schema.yaml", "--shards", "4", "-o", "cuts.json")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[:4] == [
        "shard 0: age below 50, job Care",
        "shard 1: age below 50, job Trades",
        "shard 2: age from 50, job Care",
        "shard 3: age from 50, job Trades",
    ]


def test_a_folder_of_parts_and_chosen_columns(run: Run, folder: Path) -> None:
    parts = folder / "published"
    parts.mkdir()
    (folder / "a.csv").rename(parts / "part-00000.csv")
    (folder / "b.csv").rename(parts / "part-00001.csv")
    outcome = run("cuts", "published", "--schema", "schema.yaml", "--shards", "2", "-o", "c.json", "--column", "job")
    assert outcome.code == 0, outcome.err
    # Rows of any job tell nothing about jobs.
    assert "shard 1:  50.0%  job Trades" in outcome.out
    assert json.loads((folder / "c.json").read_text())["columns"] == ["job"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--shards", "0"], 2, "--shards"),
        (["--shards", "99"], 1, "40 cells together, too few for 99 shards"),
        (["--shards", "2", "--column", "height"], 1, "'height' is not a quasi-identifier"),
        (["raw.csv", "--shards", "2"], 1, "the person column 'name', so it is not a published table"),
        (["none.csv", "--shards", "2"], 1, "none.csv"),
        (["a.csv", "--shards", "2", "--numbers", "interval"], 1, "no column 'age'"),
    ],
)
def test_a_mistake_is_reported_in_one_line(run: Run, folder: Path, arguments: list[str], code: int, words: str) -> None:
    (folder / "raw.csv").write_text("name,age,job\nAnn,30,Cook\n")
    outcome = run("cuts", *arguments, "--schema", "schema.yaml", "-o", "cuts.json")
    assert outcome.code == code
    assert words in outcome.err
    assert not (folder / "cuts.json").exists()


def test_no_file_is_lost(run: Run, folder: Path) -> None:
    command = ["cuts", "a.csv", "--schema", "schema.yaml", "--shards", "2", "-o"]
    assert "is also the input" in run(*command, "a.csv", "--overwrite").err
    assert "is also the input" in run(*command, "schema.yaml", "--overwrite").err
    assert run(*command, "cuts.json").code == 0
    assert "already exists" in run(*command, "cuts.json").err
    assert run(*command, "cuts.json", "--overwrite").code == 0
