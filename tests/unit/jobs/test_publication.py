"""Published files and folders, read whole."""

from pathlib import Path

import pytest

from castleguard.errors import InputError, NoRowsError
from castleguard.jobs.publication import read_published


def test_an_empty_part_of_a_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "part-1.csv").write_text("age\n")
    (tmp_path / "part-2.csv").write_text("age\n30\n")
    assert read_published(tmp_path).rows.num_rows == 1


def test_damaged_part_is_refused_for_any_folder_name(tmp_path: Path) -> None:
    folder = tmp_path / "has no rows"
    folder.mkdir()
    (folder / "part-1.csv").write_text("age;city\n30;Oslo\n")
    (folder / "part-2.csv").write_text("age\n30\n")
    with pytest.raises(InputError, match="set separator in the csv options"):
        read_published(folder)


def test_part_with_lines_that_are_not_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "part-1.jsonl").write_text('{"age": 30}\n')
    (tmp_path / "part-2.jsonl").write_text('{"age"\n')
    with pytest.raises(InputError):
        read_published(tmp_path)


def test_a_folder_without_rows_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "part-1.csv").write_text("age\n")
    with pytest.raises(NoRowsError) as caught:
        read_published(tmp_path)
    assert caught.value.unread == 0
