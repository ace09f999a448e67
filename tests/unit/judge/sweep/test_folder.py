"""Folder of a sweep: finished settings are stored, and another sweep is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from castleguard.errors import InputError, OutputError, UnavailableError
from castleguard.judge.sweep.folder import IDENTITY, REPORT, RESULTS, Folder, identity_of_file
from tests.unit.judge.sweep.made_up import FIGURES, castle_grid

FIRST, SECOND = castle_grid(k=[2, 3], delay=[10]).settings
WHO = {"version": "1", "sample": 100, "parameters": {"k": (2, 3)}}


def kept(path: Path) -> Path:
    """A folder with two finished settings."""
    folder = Folder(path, WHO)
    folder.add(FIRST, replace(FIGURES, loss=0.25))
    folder.add(SECOND, FIGURES)
    folder.close()
    return path / RESULTS


def test_finished_settings_are_restored(tmp_path: Path) -> None:
    kept(tmp_path / "out")
    again = Folder(tmp_path / "out", WHO)
    assert again.done == {FIRST.key: replace(FIGURES, loss=0.25), SECOND.key: FIGURES}
    again.close()


def test_setting_is_on_disk_as_soon_as_it_is_added(tmp_path: Path) -> None:
    folder = Folder(tmp_path, WHO)
    folder.add(FIRST, FIGURES)
    (line,) = (tmp_path / RESULTS).read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["setting"] == [["k", 2], ["delay", 10]]
    folder.close()


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_truncated_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    results = kept(tmp_path)
    whole = results.read_bytes()
    results.write_bytes(whole[:-cut])
    folder = Folder(tmp_path, WHO)
    assert list(folder.done) == [FIRST.key]
    folder.add(SECOND, FIGURES)
    folder.close()
    assert results.read_bytes() == whole


def test_invalid_last_line_is_dropped(tmp_path: Path) -> None:
    results = kept(tmp_path)
    with open(results, "ab") as file:
        file.write(b"\0\0\0\0\n")
    folder = Folder(tmp_path, WHO)
    assert list(folder.done) == [FIRST.key, SECOND.key]
    folder.close()
    assert b"\0" not in results.read_bytes()


def test_line_in_the_middle_that_is_broken_is_an_error(tmp_path: Path) -> None:
    results = kept(tmp_path)
    results.write_bytes(b"{broken\n" + results.read_bytes())
    with pytest.raises(InputError, match=r"damaged at line 1: start over with --overwrite"):
        Folder(tmp_path, WHO)


def test_another_sweep_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    kept(tmp_path)
    with pytest.raises(OutputError, match=r"another sweep \(different sample\).*--overwrite"):
        Folder(tmp_path, {**WHO, "sample": 200})
    assert len((tmp_path / RESULTS).read_bytes().splitlines()) == 2


def test_overwrite_starts_over_and_keeps_other_files(tmp_path: Path) -> None:
    kept(tmp_path)
    (tmp_path / REPORT).write_text("old", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    folder = Folder(tmp_path, {**WHO, "sample": 200}, overwrite=True)
    assert folder.done == {}
    folder.close()
    assert json.loads((tmp_path / IDENTITY).read_bytes())["sample"] == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", RESULTS, IDENTITY]


def test_file_that_no_sweep_wrote_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=r"has a report.md from another program"):
        Folder(tmp_path, WHO)
    assert not (tmp_path / RESULTS).exists()


def test_two_sweeps_do_not_write_to_one_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path, WHO)
    with pytest.raises(UnavailableError, match="another sweep is using"):
        Folder(tmp_path, WHO)
    folder.close()
    Folder(tmp_path, WHO).close()


def test_folder_that_cannot_be_created_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot write"):
        Folder(tmp_path / "file" / "out", WHO)


def test_identity_of_a_file_excludes_its_content(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age\n42\n", encoding="utf-8")
    before = identity_of_file(path)
    assert before["name"] == "rows.csv"
    assert set(before) == {"name", "bytes", "changed"}
    path.write_text("age\n42\n43\n", encoding="utf-8")
    assert identity_of_file(path) != before
    with pytest.raises(InputError, match="cannot read"):
        identity_of_file(tmp_path / "none.csv")
