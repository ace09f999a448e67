"""The files that a path stands for."""

import os
from pathlib import Path

import pytest

from castleguard.connectors.listing import list_files
from castleguard.errors import InputError, UnavailableError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_file_is_listed_by_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", "b.csv")
    listing = list_files(tmp_path / "b.csv")
    assert listing.names() == ["b.csv"]
    assert not listing.several
    assert listing.path("b.csv") == tmp_path / "b.csv"


def test_folder_lists_its_files_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "b10", "b9", "B", "a", "below/c")
    assert list_files(tmp_path).names() == ["B", "a", "b10", "b9"]


def test_unfinished_files_are_not_listed_until_they_are_renamed(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", ".b.csv", "c.csv.part", "d.TMP")
    for listing in (list_files(tmp_path), list_files(tmp_path / "*")):
        assert listing.names() == ["a.csv"]
    os.rename(tmp_path / "c.csv.part", tmp_path / "c.csv")
    assert list_files(tmp_path).names() == ["a.csv", "c.csv"]


def test_pattern_lists_matching_names_relative_to_its_folder(tmp_path: Path) -> None:
    touch(tmp_path, "x/2026/a.csv", "x/2025/b.csv", "x/2026/c.txt", "x/d.csv")
    listing = list_files(tmp_path / "x" / "20*" / "*.csv")
    assert listing.folder == tmp_path / "x"
    assert listing.names() == ["2025/b.csv", "2026/a.csv"]
    assert list_files(tmp_path / "x" / "**" / "*.csv").names() == ["2025/b.csv", "2026/a.csv", "d.csv"]


def test_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    touch(tmp_path, "trips[1].csv")
    assert list_files(tmp_path / "trips[1].csv").names() == ["trips[1].csv"]


def test_relative_pattern_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.csv", "b.txt")
    monkeypatch.chdir(tmp_path)
    assert list_files(Path("*.csv")).names() == ["a.csv"]


@pytest.mark.parametrize(
    ("path", "message"), [("none.csv", "no such file or folder"), ("none/*.csv", "no such folder: .*none")]
)
def test_missing_path_is_an_error(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list_files(tmp_path / path)
    with pytest.raises(UnavailableError, match=message):
        list_files(tmp_path / path, awaited=True)


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_missing_folder_is_unavailable(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "in"
    touch(folder, "a.csv")
    listing = list_files(folder / pattern)
    os.rename(folder, tmp_path / "elsewhere")
    with pytest.raises(UnavailableError, match="in cannot be listed"):
        listing.names()
    os.rename(tmp_path / "elsewhere", folder)
    assert listing.names() == ["a.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    listing = list_files(folder)
    folder.chmod(0)
    try:
        with pytest.raises(InputError, match="Permission denied"):
            listing.names()
    finally:
        folder.chmod(0o700)
