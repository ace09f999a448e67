"""Files that survive a crash: whole or absent, private where asked, with names that tell unfinished ones."""

import errno
import os
import stat
from pathlib import Path

import pytest

from castleguard.durable import AtomicFile, is_unfinished, name_of_leftover, remove_unfinished, write_durably
from castleguard.errors import OutputError
from tests.syncs import record_syncs


@pytest.mark.parametrize("name", [".hidden.csv", "a.csv.part", "a.csv.tmp", "A.CSV.PART"])
def test_hidden_and_temporary_names_are_unfinished(name: str) -> None:
    assert is_unfinished(name)
    assert not is_unfinished("a.csv")


def test_hidden_name_of_an_atomic_file_tells_its_final_name(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "a.csv")
    (hidden,) = os.listdir(tmp_path)
    assert name_of_leftover(hidden) == "a.csv"
    assert is_unfinished(hidden)
    file.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.csv", ".hidden.part", ".a.csv.0a1b2c3.part", "a.csv.0a1b2c3d.part"])
def test_other_names_are_not_leftovers(name: str) -> None:
    assert name_of_leftover(name) == ""


def test_bytes_then_name_then_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = record_syncs(monkeypatch)
    write_durably(tmp_path / "a", b"new")
    assert order == ["bytes", "name", "folder"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_failed_write_keeps_the_older_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, full)
    with pytest.raises(OutputError, match="a cannot be written: No space left on device"):
        write_durably(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_private_file_replaces_one_that_others_could_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o644)
    write_durably(tmp_path / "a", b"new", private=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_file_that_is_interrupted_while_it_is_created_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signal(BaseException):
        pass

    def create_and_interrupt(path: Path, *_: object, **__: object) -> None:
        path.touch()
        raise Signal

    monkeypatch.setattr("castleguard.durable.open", create_and_interrupt, raising=False)
    with pytest.raises(Signal):
        AtomicFile(tmp_path / "out.csv")
    assert len(list(tmp_path.iterdir())) == 1
    remove_unfinished()
    assert not list(tmp_path.iterdir())


def test_finished_files_are_kept_when_unfinished_ones_are_removed(tmp_path: Path) -> None:
    AtomicFile(tmp_path / "finished").commit()
    begun = AtomicFile(tmp_path / "begun")
    remove_unfinished()
    begun.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["finished"]
