"""A damaged checkpoint is refused in one line, or has no effect: never another position, never a traceback."""

import random
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import CastleguardError, SnapshotError
from tests.soak import effort

KEY = bytes(range(32))
LATEST = Checkpoint(
    number=3,
    position={"file": "a.csv", "rows": 1700},
    snapshot=bytes(range(256)) * 20,
    segment=b"published" * 40,
    letters=b"a letter\n",
    letters_at=12,
    books={"rows_in": 4},
    identity={"source": {"type": "csv"}},
)
NEXT = replace(LATEST, number=4, position={"file": "a.csv", "rows": 1800}, snapshot=b"later" * 300)
BITS = 1 << 20  # more than the size of any file: with this effort every bit is flipped


@pytest.fixture(params=[None, KEY], ids=["plain", "keyed"])
def cipher(request: pytest.FixtureRequest) -> Cipher | None:
    return None if request.param is None else Cipher(request.param)


def stored(path: Path, cipher: Cipher | None, checkpoint: Checkpoint) -> bytes:
    """A checkpoint file after a few commits."""
    with Store(path, cipher=cipher) as store:
        store.save(replace(checkpoint, number=1, snapshot=b"x" * 9_000))
        store.save(checkpoint)
    return path.read_bytes()


def outcome(path: Path, cipher: Cipher | None, expected: Checkpoint) -> str:
    """Open the file as a job does: either it is refused, or it holds the stored commit and is writable."""
    try:
        with Store(path, cipher=cipher) as store:
            assert store.load() == expected, "the damage went unnoticed"
            store.save(NEXT)
            assert store.load() == NEXT
            delivered = store.mark_delivered(NEXT)
            assert store.load() == delivered
    except CastleguardError as exc:
        lines = str(exc).splitlines()
        error = type(exc)
    else:
        return "without effect"
    assert len(lines) == 1
    assert str(path) in lines[0]
    return "refused" if error is SnapshotError else error.__name__


@pytest.mark.soak
@pytest.mark.parametrize("delivered", [False, True], ids=["on its way", "delivered"])
def test_flipped_bit_is_refused_or_has_no_effect(tmp_path: Path, cipher: Cipher | None, delivered: bool) -> None:
    path = tmp_path / "state.db"
    latest = LATEST
    whole = stored(path, cipher, latest)
    if delivered:
        with Store(path, cipher=cipher) as store:
            store.load()
            latest = store.mark_delivered(LATEST)
        whole = path.read_bytes()
    bits = range(len(whole) * 8)
    chosen = random.Random(17).sample(bits, min(effort(700, BITS), len(bits)))
    # The headers of the file and its pages decide how the rest is read: try every bit of them.
    chosen += [] if len(chosen) == len(bits) else random.Random(18).sample(range(800), 150)
    found: Counter[str] = Counter()
    for bit in chosen:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found[outcome(path, cipher, latest)] += 1
    assert found["refused"] > len(chosen) / 10
    assert found["refused"] + found["without effect"] >= 0.99 * len(
        chosen
    )  # for a few, SQLite reports a read-only file


@pytest.mark.parametrize("keep", [1, 100, 1024, 4096, 5000, 8192])
def test_truncated_file_is_refused(tmp_path: Path, cipher: Cipher | None, keep: int) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(stored(path, cipher, LATEST)[:keep])
    with pytest.raises(SnapshotError, match="damaged"):
        Store(path, cipher=cipher).load()


def test_read_only_access_detects_damage(tmp_path: Path, cipher: Cipher | None) -> None:
    path = tmp_path / "state.db"
    whole = stored(path, cipher, LATEST)
    for bit in random.Random(19).sample(range(len(whole) * 8), 200):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with suppress(CastleguardError), Store(path, cipher=cipher, read_only=True) as store:
            assert store.load() == LATEST


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE latest SET number = 4",
        "UPDATE latest SET delivered = 1",
        "UPDATE latest SET ended = 'drained'",
        "UPDATE latest SET letters_at = 13",
        "UPDATE latest SET facts = replace(CAST(facts AS TEXT), '1700', '1600')",
        "UPDATE latest SET facts = x'7b7d'",
        "UPDATE latest SET segment = NULL",
        "UPDATE latest SET letters = NULL",
        "UPDATE state SET snapshot = NULL",
        "UPDATE state SET snapshot = zeroblob(5120)",
        "UPDATE latest SET number = 'three'",
        "DELETE FROM state",
        "DELETE FROM latest",
        "DELETE FROM lock",
        "DROP TABLE state",
        "ALTER TABLE latest RENAME COLUMN facts TO others",
    ],
)
def test_change_of_any_column_is_detected(tmp_path: Path, cipher: Cipher | None, change: str) -> None:
    path = tmp_path / "state.db"
    stored(path, cipher, LATEST)
    database = sqlite3.connect(path)
    database.execute(change)
    database.commit()
    database.close()
    with pytest.raises(SnapshotError, match=r"state\.db|of commit 4|opened"):
        Store(path, cipher=cipher).load()


def test_damaged_journal_is_refused_or_has_no_effect(tmp_path: Path) -> None:
    """SIGKILL during a commit whose pages have reached the file, then a flipped bit in its journal."""
    path, journal = tmp_path / "state.db", tmp_path / "state.db-journal"
    code = f"""
import os
from castleguard.checkpoint.store import Checkpoint, Store
store = Store({str(path)!r})
store.save(Checkpoint(number=1, position={{"at": 1}}, snapshot=b"x" * 20_000))
store._database.execute("PRAGMA cache_size = 1")
store._database.execute("BEGIN IMMEDIATE")
store._replace(Checkpoint(number=2, position={{"at": 2}}, snapshot=b"y" * 200_000))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    stored, undo = path.read_bytes(), journal.read_bytes()
    assert undo
    found: Counter[str] = Counter()
    for bit in random.Random(20).sample(range(len(undo) * 8), 150) + list(range(0, 28 * 8, 3)):
        damaged = bytearray(undo)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(stored)
        journal.write_bytes(damaged)
        expected = Checkpoint(number=1, position={"at": 1}, snapshot=b"x" * 20_000)
        found[outcome(path, None, expected)] += 1
        journal.unlink(missing_ok=True)
    assert set(found) == {"refused", "without effect"}
