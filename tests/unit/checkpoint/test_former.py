"""A checkpoint of the former format: converted after its job has ended, refused before."""

import json
import sqlite3
from pathlib import Path

import pytest

from castleguard.checkpoint import former
from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import SnapshotError
from castleguard.runtime.epochs import Epochs

KEY = bytes(range(32))
FACTS = {"position": {"at": 7}, "books": {"rows_in": 7}, "identity": {"sink": "a folder"}}
ENDED = Checkpoint(number=5, segments=5, **FACTS, snapshot=None, letters_at=3, delivered=True, ended="drained")  # type: ignore[arg-type]


def write(
    path: Path, cipher: Cipher | None, *, ended: str | None = "drained", delivered: int = 1, rows: int = 1
) -> None:
    """A file in the format of the former version."""
    database = sqlite3.connect(path)
    for table in former.TABLES.values():
        database.execute(table)
    facts = json.dumps(FACTS).encode()
    proof = None
    if cipher is not None:
        proof, facts = cipher.seal(b"castleguard", path.name), cipher.seal(facts, "facts of commit 5")
    database.execute("INSERT INTO lock VALUES (?)", (proof,))
    if rows:
        snapshot = None if ended else b"a stream"
        database.execute("INSERT INTO latest VALUES (1, 5, ?, ?, 3, ?, NULL, NULL)", (delivered, ended, facts))
        database.execute("INSERT INTO state VALUES (1, ?)", (snapshot,))
    database.execute(f"PRAGMA user_version = {former.FORMAT}")
    database.commit()
    database.close()


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def cipher(request: pytest.FixtureRequest) -> Cipher | None:
    return None if request.param is None else Cipher(request.param)


def test_ended_job_is_converted(tmp_path: Path, cipher: Cipher | None) -> None:
    path = tmp_path / "state.db"
    write(path, cipher)
    before = path.read_bytes()
    with Store(path, cipher=cipher, read_only=True) as store:
        assert store.load() == ENDED
    assert path.read_bytes() == before
    for _ in range(2):
        with Store(path, cipher=cipher) as store:
            assert store.load() == ENDED


def test_checkpoint_without_a_commit_is_converted(tmp_path: Path, cipher: Cipher | None) -> None:
    write(tmp_path / "state.db", cipher, rows=0)
    for _ in range(2):
        with Store(tmp_path / "state.db", cipher=cipher) as store:
            assert store.load() is None


@pytest.mark.parametrize(("ended", "delivered"), [(None, 1), ("drained", 0)], ids=["running", "on its way"])
def test_checkpoint_with_rows_is_refused_and_unchanged(
    tmp_path: Path, cipher: Cipher | None, ended: str | None, delivered: int
) -> None:
    path = tmp_path / "state.db"
    write(path, cipher, ended=ended, delivered=delivered)
    before = path.read_bytes()
    with pytest.raises(SnapshotError, match=r"has format 2.*drain the job with the version that wrote it, then run it"):
        Store(path, cipher=cipher)
    assert path.read_bytes() == before


def test_another_key_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "state.db", Cipher(KEY))
    with pytest.raises(SnapshotError, match="wrong key or damaged data"):
        Store(tmp_path / "state.db", cipher=Cipher(bytes(32)))


def test_guarantees_of_former_epochs_are_unknown() -> None:
    epochs = Epochs.of(ENDED)
    assert epochs.last_part == 5
    assert [epoch.last for epoch in epochs.epochs] == [5]
    assert epochs.statements["unknown"]["claim"] is None
