"""`castleguard letters`: what was rejected, as it came, for the operator alone."""

import base64
import json
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.dead_letters import DeadLetters
from tests.unit.cli.conftest import Run

KEY = bytes(range(32))
JOB = """
source: {type: csv, path: in.csv}
schema:
  person: null
  quasi_identifiers: [{name: age, lower: 0, upper: 100}]
privacy: {algorithm: castle, k: 5, delay: 50}
sink: {type: parquet, path: out}
checkpoint: {path: state.db, key: "${CASTLEGUARD_KEY}"}
dead_letter: {path: rejects.jsonl}
"""
LETTER = {"place": "in.csv, row 3", "reason": "age: invalid", "row": {"age": "Zoë"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CASTLEGUARD_KEY", base64.b64encode(KEY).decode())
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def write_letter(path: Path, key: bytes | None) -> None:
    letters = DeadLetters(path, cipher=None if key is None else Cipher(key))
    letters.append(letters.sealed([json.dumps(LETTER, ensure_ascii=False).encode()]), letters.length())


def test_sealed_letters_are_printed_as_they_were(run: Run, folder: Path) -> None:
    write_letter(folder / "rejects.jsonl", KEY)
    shown = run("letters", "job.yaml")
    assert shown.code == 0
    assert [json.loads(line) for line in shown.out.splitlines()] == [LETTER]


def test_plain_letters_are_printed_too(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace(', key: "${CASTLEGUARD_KEY}"', ""))
    write_letter(folder / "rejects.jsonl", None)
    assert json.loads(run("letters", "job.yaml").out) == LETTER


def test_a_file_that_was_moved_away_can_be_named(run: Run, folder: Path) -> None:
    write_letter(folder / "old.jsonl", KEY)
    assert json.loads(run("letters", "job.yaml", "--file", "old.jsonl").out) == LETTER


def test_before_anything_was_rejected_nothing_is_printed_and_nothing_made(run: Run, folder: Path) -> None:
    shown = run("letters", "job.yaml")
    assert (shown.code, shown.out) == (0, "")
    assert "no dead letters: rejects.jsonl does not exist" in shown.err
    assert not (folder / "rejects.jsonl").exists()


def test_another_key_opens_nothing_and_shows_nothing(run: Run, folder: Path) -> None:
    write_letter(folder / "rejects.jsonl", bytes(32))
    shown = run("letters", "job.yaml")
    assert (shown.code, shown.out) == (1, "")
    assert "line 1 of rejects.jsonl cannot be opened: wrong key" in shown.err


def test_a_job_that_keeps_no_letters_says_so(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("dead_letter: {path: rejects.jsonl}", ""))
    shown = run("letters", "job.yaml")
    assert shown.code != 0
    assert "has no dead_letter section" in shown.err


def test_its_help_warns_of_personal_values(run: Run) -> None:
    assert "THIS PRINTS RAW PERSONAL VALUES" in run("letters", "--help").out
