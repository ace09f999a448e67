"""The checkpoint file: the latest commit, complete, private, used by one process."""

import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import ConfigError, OutputError, SnapshotError, UnavailableError, UsageError

KEY = bytes(range(32))
SECRET = b"the patient in room 7"
ONE = Checkpoint(
    number=3,
    position={"file": "a.csv", "rows": 17},
    snapshot=SECRET * 100,
    segment=SECRET * 3,
    letters=SECRET,
    letters_at=12,
    books={"rows_in": 4},
    identity={"source": {"type": "csv"}},
)


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def cipher(request: pytest.FixtureRequest) -> Cipher | None:
    return None if request.param is None else Cipher(request.param)


def test_new_file_has_no_commit(tmp_path: Path, cipher: Cipher | None) -> None:
    with Store(tmp_path / "state.db", cipher=cipher) as store:
        assert store.load() is None


def test_commit_round_trips(tmp_path: Path, cipher: Cipher | None) -> None:
    with Store(tmp_path / "state.db", cipher=cipher) as store:
        store.save(ONE)
    with Store(tmp_path / "state.db", cipher=cipher) as store:
        assert store.load() == ONE


def test_only_the_latest_commit_is_kept(tmp_path: Path, cipher: Cipher | None) -> None:
    later = Checkpoint(number=4, position=None, snapshot=None, ended="finished")
    with Store(tmp_path / "state.db", cipher=cipher) as store:
        store.save(ONE)
        store.save(later)
        assert store.load() == later


def test_delivered_rows_are_wiped(tmp_path: Path) -> None:
    segment = b"published, and not to be kept"
    with Store(tmp_path / "state.db") as store:
        store.save(Checkpoint(number=1, position={}, snapshot=b"state", segment=segment, letters=b"a letter"))
        assert segment in (tmp_path / "state.db").read_bytes()
        latest = store.load()
        assert latest is not None
        marked = store.mark_delivered(latest)
        assert marked.delivered
        assert store.load() == marked
    assert segment not in (tmp_path / "state.db").read_bytes()
    assert b"a letter" not in (tmp_path / "state.db").read_bytes()


def test_encrypted_file_shows_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        store.save(ONE)
    raw = (tmp_path / "state.db").read_bytes()
    for word in (SECRET, b"a.csv", b"rows_in"):
        assert word not in raw


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
def test_file_is_private_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(mode=0o644)
    path.chmod(0o644)
    with Store(path) as store:
        store.save(ONE)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def open_elsewhere(path: Path, *, read_only: bool = False) -> subprocess.CompletedProcess[str]:
    """Open and close the file in another process."""
    code = f"from castleguard.checkpoint.store import Store; Store({str(path)!r}, read_only={read_only}).close()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Store(path) as store:
        store.save(ONE)
        other = open_elsewhere(path)
        assert other.returncode != 0
        assert "in use by another process" in other.stderr
    assert open_elsewhere(path).returncode == 0


def test_second_store_in_one_process_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db"), pytest.raises(UnavailableError, match="in use by another process"):
        Store(tmp_path / "state.db")


@pytest.mark.parametrize(
    ("made_with", "opened_with", "message"),
    [
        (None, KEY, "is not encrypted, but a key is given: run `castleguard drain --new-key`"),
        (KEY, None, "is encrypted: give its key"),
        (KEY, bytes(32), "wrong key or damaged data"),
    ],
)
def test_wrong_key_is_reported(
    tmp_path: Path, made_with: bytes | None, opened_with: bytes | None, message: str
) -> None:
    with Store(tmp_path / "state.db", cipher=Cipher(made_with) if made_with else None) as store:
        store.save(ONE)
    with pytest.raises(SnapshotError, match=message):
        Store(tmp_path / "state.db", cipher=Cipher(opened_with) if opened_with else None)


@pytest.mark.parametrize(
    ("saved", "key", "message"),
    [
        (True, KEY, "was renamed, and an encrypted checkpoint is bound to its name: rename it back"),
        (True, bytes(32), "cannot be opened: wrong key or damaged data"),
        (False, KEY, "wrong key, renamed file or damaged data"),
    ],
    ids=["renamed", "renamed, and another key", "renamed before its first commit"],
)
def test_renamed_encrypted_file_is_reported(tmp_path: Path, saved: bool, key: bytes, message: str) -> None:
    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        if saved:
            store.save(ONE)
    (tmp_path / "state.db").rename(tmp_path / "renamed.db")
    with pytest.raises(SnapshotError, match=message):
        Store(tmp_path / "renamed.db", cipher=Cipher(key))


DRAINED = Checkpoint(
    number=4, position={"file": "a.csv"}, snapshot=None, delivered=True, ended="drained", books={"rows_in": 4}
)
OTHER_KEY = bytes(range(1, 33))


@pytest.mark.parametrize("before", [None, KEY])
@pytest.mark.parametrize("after", [None, OTHER_KEY])
@pytest.mark.parametrize("latest", [None, DRAINED], ids=["new", "drained"])
def test_key_of_a_drained_checkpoint_can_be_changed(
    tmp_path: Path, before: bytes | None, after: bytes | None, latest: Checkpoint | None
) -> None:
    path = tmp_path / "state.db"
    old, new = (None if key is None else Cipher(key) for key in (before, after))
    with Store(path, cipher=old) as store:
        if latest is not None:
            store.save(latest)
        store.change_key(new)
        assert store.load() == latest
    with Store(path, cipher=new) as store:
        assert store.load() == latest
        store.save(ONE)
    assert (SECRET in path.read_bytes()) == (new is None)
    if before != after:
        with pytest.raises(SnapshotError):
            Store(path, cipher=old)


def test_setting_a_key_wipes_readable_data(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        store.save(DRAINED)
        assert b"a.csv" in (tmp_path / "state.db").read_bytes()
        store.change_key(Cipher(KEY))
    assert b"a.csv" not in (tmp_path / "state.db").read_bytes()


@pytest.mark.parametrize(
    "latest",
    [ONE, replace(ONE, delivered=True), replace(DRAINED, delivered=False, segment=SECRET)],
    ids=["pending and on their way", "pending", "on their way"],
)
def test_key_of_a_checkpoint_with_rows_cannot_change(tmp_path: Path, latest: Checkpoint) -> None:
    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        store.save(latest)
        with pytest.raises(UsageError, match="drain the job first"):
            store.change_key(None)
    assert SECRET not in (tmp_path / "state.db").read_bytes()
    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        assert store.load() == latest


def test_failed_key_change_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OutputError("no space left on device")

    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        store.save(DRAINED)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_replace", fail)
            with pytest.raises(OutputError):
                store.change_key(Cipher(OTHER_KEY))
        assert store.load() == DRAINED
    with Store(tmp_path / "state.db", cipher=Cipher(KEY)) as store:
        assert store.load() == DRAINED


def test_piece_of_another_commit_does_not_open(tmp_path: Path) -> None:
    """An attacker who can write the file cannot replay an old state under a new number."""
    path = tmp_path / "state.db"
    with Store(path, cipher=Cipher(KEY)) as store:
        store.save(ONE)
    database = sqlite3.connect(path)
    database.execute("UPDATE latest SET number = 4")
    database.commit()
    database.close()
    with (
        Store(path, cipher=Cipher(KEY)) as store,
        pytest.raises(SnapshotError, match="is not a checkpoint, or it is damaged"),
    ):
        store.load()


def test_file_that_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"something else" * 1000)
    (tmp_path / "state.db").chmod(0o644)
    with pytest.raises(SnapshotError, match="is not a checkpoint, or it is damaged"):
        Store(tmp_path / "state.db")
    assert stat.S_IMODE((tmp_path / "state.db").stat().st_mode) == 0o644


def test_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (value INTEGER)")
    database.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(SnapshotError, match="is the database of another program, or a damaged checkpoint"):
        Store(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_read_only_creates_no_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "state.db"
    if content is None:
        with pytest.raises(OutputError, match="No such file"):
            Store(path, read_only=True)
        assert not path.exists()
        return
    path.write_bytes(content)
    with Store(path, read_only=True) as store:
        assert store.load() is None
    assert path.read_bytes() == content


def test_read_only_loads_the_latest_commit_and_changes_nothing(tmp_path: Path, cipher: Cipher | None) -> None:
    path = tmp_path / "state.db"
    with Store(path, cipher=cipher) as store:
        store.save(ONE)
    path.chmod(0o644)
    before = path.read_bytes()
    with Store(path, cipher=cipher, read_only=True) as store:
        assert store.load() == ONE
        with pytest.raises(UnavailableError):
            store.save(ONE)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_read_only_does_not_disturb_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Store(path) as store:
        store.save(ONE)
        assert "the job is running" in open_elsewhere(path, read_only=True).stderr
        store.save(replace(ONE, number=4))


def test_read_only_does_not_repair_a_crashed_commit(tmp_path: Path) -> None:
    """SIGKILL in the middle of a transaction whose pages have reached the file, so that its journal is hot."""
    path = tmp_path / "state.db"
    code = f"""
import os
from castleguard.checkpoint.store import Checkpoint, Store
store = Store({str(path)!r})
store.save(Checkpoint(number=1, position=None, snapshot=b"x" * 100_000))
store._database.execute("PRAGMA cache_size = 1")
store._database.execute("BEGIN IMMEDIATE")
store._database.execute("UPDATE state SET snapshot = zeroblob(3000000)")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / "state.db-journal").stat().st_size
    with pytest.raises(UnavailableError, match="left in the middle of a commit: the next run repairs it"):
        Store(path, read_only=True)
    with Store(path) as store:
        latest = store.load()
        assert latest is not None
        assert latest.snapshot == b"x" * 100_000


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "state.db").close()
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute("PRAGMA user_version = 99")
    database.commit()
    database.close()
    with pytest.raises(SnapshotError, match="has format 99, and this version reads 3"):
        Store(tmp_path / "state.db")


def test_unwritable_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be used as a checkpoint"):
        Store(tmp_path / "file" / "state.db")


def test_missing_folders_are_created_private(tmp_path: Path) -> None:
    Store(tmp_path / "one" / "two" / "state.db").close()
    for folder in (tmp_path / "one", tmp_path / "one" / "two"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_repr_of_a_commit_shows_no_content() -> None:
    assert repr(ONE) == "Checkpoint(number=3, delivered=False, ended=None)"
    assert "\\x" not in repr(Cipher(KEY))


def test_key_of_another_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="must have 32 bytes, got 31: make one with `openssl rand -base64 32`"):
        Cipher(bytes(31))
