"""Commands that publish nothing end with a warning: an empty file looks like success."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

SCHEMA = """\
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5}
"""
JOB = """\
name: job
source: {type: csv, path: in.csv}
sink: {type: parquet, path: out}
schema:
  person: pid
  quasi_identifiers: [{name: age, lower: 0, upper: 100, step: 5}]
privacy: {algorithm: castle, k: 5, delay: 20}
checkpoint: {path: job.ckpt, every: 100ms}
"""
FEW = "pid,age\n1,30\n2,31\n"
BAD = "pid,age\n1,old\n2,young\n"
NONE = "pid,age\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [(FEW, "no group had enough persons"), (BAD, "all 2 rows were rejected"), (NONE, "no rows were read")],
)
def test_anonymise_and_run_warn(run: Run, folder: Path, text: str, found: str) -> None:
    (folder / "in.csv").write_text(text)
    options = ("--schema", "schema.yaml", "--k", "5", "--delay", "20", "--quiet")
    for command in (
        ("anonymise", "in.csv", "-o", "out.csv", *options),
        ("run", "job.yaml", "--dry-run", "--quiet"),
        ("run", "job.yaml", "--quiet"),
    ):
        outcome = run(*command)
        assert outcome.code == 0
        assert outcome.err.count("nothing was published") == 1
        assert found in outcome.err
    assert "nothing was published" not in run("run", "job.yaml").err  # it had finished before


def test_drain_warns(run: Run, folder: Path) -> None:
    """Rows that were read and waited are suppressed by the drain."""
    from castleguard.jobs.assemble import make_job
    from castleguard.jobs.load import load

    (folder / "in.csv").write_text(FEW)
    made = make_job(load(folder / "job.yaml"))
    made.turn()
    made.commit()
    made.close()
    outcome = run("drain", "job.yaml", "--quiet")
    assert outcome.code == 0
    assert outcome.err.count("nothing was published") == 1
    assert "from 2 rows (2 suppressed)" in outcome.err
    # A job that had rows before, and none since, has nothing to warn of.
    assert "nothing was published" not in run("drain", "job.yaml").err


def test_published_rows_cause_no_warning(run: Run, folder: Path) -> None:
    (folder / "in.csv").write_text("pid,age\n" + "".join(f"{at},{at}\n" for at in range(40)))
    options = ("--schema", "schema.yaml", "--k", "5", "--delay", "20")
    assert "nothing was published" not in run("anonymise", "in.csv", "-o", "out.csv", *options).err
    assert "nothing was published" not in run("run", "job.yaml").err


def test_randomise_says_that_no_row_came(run: Run, folder: Path) -> None:
    options = ("--schema", "schema.yaml", "--epsilon", "1", "--quiet")
    (folder / "in.csv").write_text(NONE)
    assert "no rows were read" in run("randomise", "in.csv", "-o", "out.csv", *options).err
    (folder / "in.csv").write_text(BAD)
    assert run("randomise", "in.csv", "-o", "out2.csv", *options).err == ""


def test_a_budget_beyond_all_reason_is_one_line(run: Run, folder: Path) -> None:
    """Before: an unexpected OverflowError, after the file had been written."""
    (folder / "schema.yaml").write_text(SCHEMA + "  - {name: size, lower: 0, upper: 9}\n")
    (folder / "in.csv").write_text("pid,age,size\n1,30,2\n")
    outcome = run("randomise", "in.csv", "-o", "out.csv", "--schema", "schema.yaml", "--phi", "1e308")
    assert outcome.code == 1
    said = "castleguard: phi must be at most 1e+150, got 1e+308 (this adds practically no noise)"
    assert outcome.err.splitlines() == [said]
    assert not (folder / "out.csv").exists()
