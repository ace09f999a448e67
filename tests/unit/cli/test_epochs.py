"""Epochs on the command line: runs of a growing file, another policy after a drain, another key, and what is told."""

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from castleguard.jobs.publication import read_published
from tests.unit.cli.conftest import AGES, Run

JOB = f"""
{AGES}
privacy: {{algorithm: castleguard, k: 2, delay: 50, epsilon: 1, dp_delta: 0, rows_per_person: 1}}
sink: {{type: parquet, path: out}}
checkpoint: {{path: state.db, every: 100ms}}
"""
SEALED = JOB.replace("every: 100ms", 'every: 100ms, key: "${TEST_KEY}"')
PEOPLE = 20
SUM = "All epochs together promise, as the sum over epochs: (2, 0)-differential privacy of all rows of one person"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in.csv").write_text("pid,age\n")
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    for name in ("TEST_KEY", "NEXT_KEY"):
        monkeypatch.setenv(name, base64.b64encode(name.encode() * 4).decode())
    return tmp_path


def grow(folder: Path) -> None:
    with (folder / "in.csv").open("a") as file:
        file.writelines(f"{person},{person * 3 + 10}\n" for person in range(PEOPLE))


def published(folder: Path) -> int:
    return sum(pq.read_table(part).num_rows for part in folder.glob("out/part-*.parquet"))


def said(text: str) -> str:
    return " ".join(text.split())


def test_three_runs_of_a_growing_file_publish_a_person_once(run: Run, folder: Path) -> None:
    for _ in range(3):
        grow(folder)
        outcome = run("run", "job.yaml")
        assert outcome.code == 0
    assert published(folder) <= PEOPLE
    assert f"over budget {2 * PEOPLE}" in said(outcome.out)
    assert "epochs" not in outcome.out


def test_validate_names_the_sum_and_the_parts_of_another_policy(run: Run, folder: Path) -> None:
    grow(folder)
    run("run", "job.yaml")
    assert run("validate", "job.yaml").out.count("another policy") == 0
    (folder / "job.yaml").write_text(
        JOB.replace("k: 2,", "k: 3,").replace("rows_per_person: 1", "rows_per_person: 1, window: 60")
    )
    outcome = run("validate", "job.yaml")
    assert outcome.code == 0
    assert "published with another policy.k and another policy.window" in said(outcome.out)
    assert SUM in said(outcome.out)
    assert SUM in said(run("explain", "job.yaml").out)
    grow(folder)
    assert SUM in said(run("run", "job.yaml").out)
    told = json.loads((folder / "out" / "_castleguard.json").read_text())
    latest = told["statements"][told["epochs"][-1]["statement"]]
    assert SUM in latest["statement"]


def test_drain_warns_of_parts_side_by_side(run: Run, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    grow(folder)
    run("run", "job.yaml")
    outcome = run("drain", "job.yaml")
    assert "If you change the policy or the schema, also change sink.path" in outcome.out
    assert "another policy" not in caplog.text
    (folder / "job.yaml").write_text(JOB.replace("k: 2,", "k: 3,"))
    run("drain", "job.yaml")
    assert "published with another policy.k" in caplog.text


def test_parts_without_a_manifest_are_reported(run: Run, folder: Path) -> None:
    grow(folder)
    run("run", "job.yaml")
    (folder / "out" / "_castleguard.json").unlink()
    assert "so their promise is unknown" in said(run("validate", "job.yaml").out)


def test_counts_go_on_under_a_new_key_and_are_forgotten_without_one(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(SEALED)
    grow(folder)
    assert run("run", "job.yaml").code == 0
    assert run("drain", "job.yaml", "--new-key", "NEXT_KEY").code == 0
    (folder / "job.yaml").write_text(SEALED.replace("TEST_KEY", "NEXT_KEY"))
    grow(folder)
    outcome = run("run", "job.yaml")
    assert f"over budget {PEOPLE}" in said(outcome.out)
    assert "epochs" not in outcome.out
    assert run("drain", "job.yaml", "--no-key").code == 0
    (folder / "job.yaml").write_text(JOB)
    grow(folder)
    outcome = run("run", "job.yaml")
    assert f"over budget {PEOPLE} " in said(outcome.out)
    assert SUM in said(outcome.out)


def test_a_manifest_is_not_read_as_rows(run: Run, folder: Path) -> None:
    grow(folder)
    run("run", "job.yaml")
    found = read_published(folder / "out")
    assert found.unread_files == 0
    assert found.rows.num_rows == published(folder)
    again = (
        JOB.replace("path: in.csv", "path: parts").replace("type: csv", "type: jsonl").replace("path: out", "path: o2")
    )
    (folder / "parts").mkdir()
    (folder / "parts" / "a.jsonl").write_text('{"pid": 1, "age": 30}\n')
    (folder / "parts" / "_castleguard.json").write_text("{}")
    (folder / "second.yaml").write_text(again.replace("state.db", "second.db"))
    assert "1 file readable" in run("validate", "second.yaml").out
    assert "rows in 1 " in said(run("run", "second.yaml").out)


def test_explain_says_that_counts_go_on(run: Run, folder: Path) -> None:
    told = said(run("explain", "job.yaml").out)
    assert "The rows of a person are counted across epochs" in told
    (folder / "job.yaml").write_text(JOB.replace(", rows_per_person: 1", ""))
    assert "counted on" not in said(run("explain", "job.yaml").out)


def test_each_run_of_anonymise_counts_for_itself(run: Run, folder: Path) -> None:
    grow(folder)
    schema = JOB[JOB.index("  person") : JOB.index("privacy")]
    (folder / "schema.yaml").write_text("\n".join(line[2:] for line in schema.splitlines()) + "\n")
    options = ("--algorithm", "castleguard", "--k", "2", "--delay", "50", "--epsilon", "1", "--rows-per-person", "1")
    for name in ("one.csv", "two.csv"):
        outcome = run("anonymise", "in.csv", "-o", name, "--schema", "schema.yaml", *options)
        assert outcome.code == 0
        assert "epochs" not in outcome.out
        assert "over budget" not in outcome.out
