"""First rows of a file."""

from pathlib import Path

import pytest

from castleguard.errors import InputError
from castleguard.judge.first_rows import read_sample
from tests.unit.judge.sweep.made_up import AGES


def write(path: Path, rows: int) -> Path:
    lines = [f"{at},{at % 90},a" for at in range(rows)]
    path.write_text("\n".join(["pid,age,ward", *lines, ""]), encoding="utf-8")
    return path


def test_first_rows_are_taken_in_their_order(tmp_path: Path) -> None:
    found = read_sample(write(tmp_path / "rows.csv", 50), AGES, 20)
    assert [int(age) for age in found["age"].to_pylist()] == list(range(20))


def test_short_file_is_taken_whole(tmp_path: Path) -> None:
    assert read_sample(write(tmp_path / "rows.csv", 5), AGES, 20).num_rows == 5


def test_file_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no row"):
        read_sample(write(tmp_path / "rows.csv", 0), AGES, 20)
