"""A job file in place of a schema: its schema, its CSV dialect, and its confirmation."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pytest

Run = Callable[..., Any]

JOB = """
name: visits
confirmed: true
source: {type: csv, path: visits.csv, csv: {separator: ;, decimal: ",", encoding: cp1252, null_values: [NA]}}
schema:
  person: patient
  quasi_identifiers:
    - {name: größe, lower: 0, upper: 100, step: 5}
  sensitive: [illness]
privacy: {algorithm: citadel, k: 3, delay: 50}
sink: {type: csv, path: out}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"p{n};{n % 90},5;{('flu', 'cold', 'NA')[n % 3]}\n" for n in range(300))
    (tmp_path / "visits.csv").write_bytes(f"patient;größe;illness\n{rows}".encode("cp1252"))
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return tmp_path


def test_anonymise_reads_the_dialect_of_the_job(run: Run, folder: Path) -> None:
    shown = run("anonymise", folder / "visits.csv", "-o", folder / "out.csv", "--schema", folder / "job.yaml",
                "--k", 3, "--delay", 50)  # fmt: skip
    assert shown.code == 0, shown.err
    assert pacsv.read_csv(folder / "out.csv").num_rows == 300


def test_options_of_the_command_line_stand_in_for_a_job(run: Run, folder: Path) -> None:
    schema = "person: patient\nquasi_identifiers:\n  - {name: größe, lower: 0, upper: 100, step: 5}\n"
    (folder / "schema.yaml").write_text(schema, encoding="utf-8")
    given = ["anonymise", folder / "visits.csv", "-o", folder / "out.csv", "--schema", folder / "schema.yaml"]
    given += ["--k", 3, "--delay", 50]
    assert "set separator in the csv options" in run(*given).err
    shown = run(*given, "--csv", "separator=;", "--csv", "decimal=,", "--csv", "encoding=cp1252")
    assert shown.code == 0, shown.err
    assert pacsv.read_csv(folder / "out.csv").num_rows == 300
    refused = run(*given[:1], folder / "x.parquet", *given[2:], "--overwrite", "--csv", "decimal=,")
    assert "--csv applies to CSV only" in refused.err


def test_a_job_that_is_not_confirmed_is_refused(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("confirmed: true", "confirmed: false"), encoding="utf-8")
    shown = run("anonymise", folder / "visits.csv", "-o", folder / "out.csv", "--schema", folder / "job.yaml",
                "--k", 3, "--delay", 50)  # fmt: skip
    assert shown.code == 2
    assert "confirmed" in shown.err


def test_a_job_runs_and_is_audited_measured_and_swept(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert run("run", "job.yaml").code == 0
    audit = run("audit", "job.yaml")
    assert audit.code == 0, audit.out + audit.err
    (published,) = (folder / "out").glob("part-*.csv")
    shutil.copy(published, folder / "published.csv")
    measured = run("measure", "visits.csv", "published.csv", "--schema", "job.yaml", "--queries", 20)
    assert measured.code == 0, measured.err
    swept = run("sweep", "visits.csv", "-o", "sweep", "--schema", "job.yaml", "--algorithm", "citadel", "--k", "3,5",
                "--delay", 50)  # fmt: skip
    assert swept.code == 0, swept.err


def test_what_is_wrong_in_the_dialect_is_named(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("separator: ;", "separator: ab"), encoding="utf-8")
    shown = run("anonymise", folder / "visits.csv", "-o", folder / "out.csv", "--schema", folder / "job.yaml",
                "--k", 3, "--delay", 50)  # fmt: skip
    assert shown.code == 2
    assert "source.csv cannot work: separator must be one ASCII character" in " ".join(shown.err.split())


def test_values_from_the_environment_are_masked(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREE", "s3cret-tree.csv")
    numeric = "{name: größe, lower: 0, upper: 100, step: 5}"
    text = JOB.replace(numeric, "{name: größe, hierarchy: '${TREE}'}")
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    shown = run("anonymise", folder / "visits.csv", "-o", folder / "out.csv", "--schema", folder / "job.yaml",
                "--k", 3, "--delay", 50)  # fmt: skip
    assert shown.code == 2
    assert "cannot work" in shown.err
    assert "s3cret" not in shown.err


def test_a_sweep_is_not_continued_with_another_dialect(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    given = ["sweep", "visits.csv", "-o", "sweep", "--schema", "job.yaml", "--algorithm", "citadel", "--k", "3",
             "--delay", 50]  # fmt: skip
    assert run(*given).code == 0
    text = JOB.replace("null_values: [NA]", "null_values: [flu]")
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    assert run(*given).code != 0
