"""The key of a job changes where it is drained, and nowhere else."""

import base64
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import Run

JOB = """
source: {type: csv, path: in}
schema:
  person: pid
  quasi_identifiers: [{name: age, lower: 0, upper: 100, step: 5}]
privacy: {algorithm: castle, k: 5, delay: 50}
sink: {type: parquet, path: out}
checkpoint: {path: state.db, every: 100ms}
dead_letter: {path: rejects.jsonl}
"""
KEYED = 'path: state.db, key: "${KEY}"'


def write_rows(folder: Path, name: str) -> None:
    rows = "".join(f"{n % 90},{n % 71 + 20}\n" for n in range(200))
    (folder / "in" / name).write_text(f"pid,age\n{rows}1,odd\n")


def write_job(folder: Path, *, key: bool) -> None:
    (folder / "job.yaml").write_text(JOB.replace("path: state.db", KEYED) if key else JOB)


def published(folder: Path) -> int:
    return sum(pq.read_table(part).num_rows for part in folder.glob("out/part-*.parquet"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_rows(tmp_path, "1.csv")
    for name in ("KEY", "NEXT"):
        monkeypatch.setenv(name, base64.b64encode(os.urandom(32)).decode())
    return tmp_path


@pytest.mark.parametrize("after", [False, True], ids=["to none", "to a key"])
@pytest.mark.parametrize("before", [False, True], ids=["from none", "from a key"])
def test_a_drained_job_can_change_its_key(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, before: bool, after: bool
) -> None:
    write_job(folder, key=before)
    assert run("run", "job.yaml").code == 0
    (folder / "rejects.jsonl").rename(folder / "old.jsonl")
    shown = run("drain", "job.yaml", *(["--new-key", "NEXT"] if after else ["--no-key"]))
    assert shown.code == 0, shown.err
    assert f"The checkpoint {'is encrypted with the new key' if after else 'is not encrypted'} now" in shown.out
    write_job(folder, key=after)
    monkeypatch.setenv("KEY", os.environ["NEXT"])
    write_rows(folder, "2.csv")
    shown = run("run", "job.yaml")
    assert shown.code == 0, shown.err
    assert published(folder) == 400
    assert (b"odd" in (folder / "rejects.jsonl").read_bytes()) is not after
    assert json.loads(run("letters", "job.yaml").out)["place"].startswith("2.csv")


def test_the_next_run_says_once_that_counts_of_rows_went_with_the_key(run: Run, folder: Path) -> None:
    counting = "algorithm: castleguard, k: 5, delay: 50, epsilon: 1, rows_per_person: 3"
    for key in (True, False):
        write_job(folder, key=key)
        text = (folder / "job.yaml").read_text()
        (folder / "job.yaml").write_text(text.replace("algorithm: castle, k: 5, delay: 50", counting))
        if key:
            assert run("run", "job.yaml").code == 0
            (folder / "rejects.jsonl").unlink(missing_ok=True)
            assert run("drain", "job.yaml", "--no-key").code == 0
    gone = "their counts were deleted when the checkpoint lost its key"
    for name, said in (("2.csv", 1), ("3.csv", 0)):
        write_rows(folder, name)
        shown = run("run", "job.yaml")
        assert shown.code == 0, shown.err
        assert shown.err.count(gone) == said


def test_letters_of_the_former_key_have_to_be_moved_away_first(run: Run, folder: Path) -> None:
    write_job(folder, key=True)
    run("run", "job.yaml")
    before = (folder / "state.db").read_bytes()
    shown = run("drain", "job.yaml", "--new-key", "NEXT")
    assert shown.code == 1
    assert "move the file away, then change the key" in shown.err
    assert (folder / "state.db").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--new-key", "ABSENT"], 2, "the environment variable ABSENT is not set"),
        (["--new-key", "SHORT"], 2, "SHORT must be 32 bytes in base64"),
        (["--new-key", "NEXT", "--no-key"], 2, "mutually exclusive"),
    ],
)
def test_a_new_key_that_is_none_changes_nothing(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, said: str
) -> None:
    monkeypatch.setenv("SHORT", "c2hvcnQ=")
    write_job(folder, key=True)
    shown = run("drain", "job.yaml", *options)
    assert shown.code == code
    assert said in shown.err
    assert "c2hvcnQ" not in shown.err
    assert not (folder / "state.db").exists()


def test_without_a_drain_another_key_is_refused(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(folder, key=True)
    run("run", "job.yaml")
    monkeypatch.setenv("KEY", os.environ["NEXT"])
    shown = run("run", "job.yaml")
    assert shown.code == 1
    assert "state.db cannot be opened: wrong key or damaged data" in shown.err
