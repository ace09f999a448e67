"""Files that Spark has committed, found without Spark."""

import json
from pathlib import Path

import pytest

from castleguard.errors import InputError
from castleguard.spark.committed import committed, last_batch


def entry(path: str, action: str = "add") -> str:
    return json.dumps({"path": path, "size": 1, "isDir": False, "action": action})


def put(folder: Path, name: str, outcome: str = "published") -> str:
    """Write a file and return its entry in Spark's log."""
    path = folder / f"outcome={outcome}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    return path.as_uri()


def log(folder: Path, number: str, *lines: str) -> None:
    (folder / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    (folder / "_spark_metadata" / number).write_text("\n".join(["v1", *lines]))


def names(folder: Path, outcome: str | None = "published") -> list[str]:
    return [path.name for path in committed(folder, outcome)]


def test_file_outside_the_log_is_left_out(tmp_path: Path) -> None:
    log(tmp_path, "0", entry(put(tmp_path, "a.parquet")))
    put(tmp_path, "torn.parquet")
    assert names(tmp_path) == ["a.parquet"]


def test_files_are_sorted_by_micro_batch(tmp_path: Path) -> None:
    for number, name in ((10, "z"), (2, "y"), (9, "a")):
        log(tmp_path, str(number), entry(put(tmp_path, name)))
    assert names(tmp_path) == ["y", "a", "z"]
    assert last_batch(tmp_path) == 10


def test_compact_log_replaces_all_earlier_ones(tmp_path: Path) -> None:
    every = [put(tmp_path, name) for name in "abcd"]
    log(tmp_path, "8", entry(every[0]))
    log(tmp_path, "9.compact", *map(entry, every[:3]))
    log(tmp_path, "10", entry(every[3]))
    assert names(tmp_path) == ["a", "b", "c", "d"]
    assert last_batch(tmp_path) == 10


def test_file_deleted_in_the_log_is_left_out(tmp_path: Path) -> None:
    gone = put(tmp_path, "a")
    log(tmp_path, "0", entry(gone), entry(put(tmp_path, "b")))
    log(tmp_path, "1", entry(gone, "delete"))
    assert names(tmp_path) == ["b"]


def test_removed_file_is_left_out(tmp_path: Path) -> None:
    log(tmp_path, "0", entry(put(tmp_path, "a")), entry(put(tmp_path, "b")))
    (tmp_path / "outcome=published" / "a").unlink()
    assert names(tmp_path) == ["b"]


def test_only_published_files_are_listed_by_default(tmp_path: Path) -> None:
    log(tmp_path, "0", entry(put(tmp_path, "a")), entry(put(tmp_path, "r", "rejected")))
    assert names(tmp_path) == ["a"]
    assert names(tmp_path, "rejected") == ["r"]
    assert names(tmp_path, None) == ["a", "r"]


def test_moved_folder_has_its_files_at_the_new_place(tmp_path: Path) -> None:
    log(tmp_path / "before", "0", entry(put(tmp_path / "before", "a b%.parquet")))
    (tmp_path / "before").rename(tmp_path / "after")
    assert committed(tmp_path / "after") == [tmp_path / "after" / "outcome=published" / "a b%.parquet"]


@pytest.mark.parametrize("name", ["day=1", "outcome=rejected", "a=1/b=2"])
def test_folder_may_have_the_name_of_a_partition(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    log(folder, "0", entry(put(folder, "a")), entry(put(folder, "r", "rejected")), entry(put(folder, "c", "counts")))
    assert committed(folder) == [folder / "outcome=published" / "a"]
    assert names(folder, "rejected") == ["r"]


def test_output_whose_files_are_all_gone_is_refused(tmp_path: Path) -> None:
    log(tmp_path, "0")
    assert names(tmp_path) == []
    log(tmp_path, "1", entry(put(tmp_path, "a")), entry(put(tmp_path, "c", "counts")))
    (tmp_path / "outcome=published" / "a").unlink()
    assert names(tmp_path) == []  # a reader may remove them
    (tmp_path / "outcome=counts" / "c").unlink()
    with pytest.raises(InputError, match="has none of the 2 files that Spark has committed"):
        committed(tmp_path)


def test_hidden_files_of_the_log_are_ignored(tmp_path: Path) -> None:
    log(tmp_path, "0", entry(put(tmp_path, "a")))
    (tmp_path / "_spark_metadata" / ".0.crc").write_bytes(b"\x00crc")
    (tmp_path / "_spark_metadata" / ".1.tmp").write_text("half")
    assert names(tmp_path) == ["a"]


def test_all_files_of_a_complete_batch_are_listed(tmp_path: Path) -> None:
    put(tmp_path, "part-1")
    put(tmp_path, "part-0")
    with pytest.raises(InputError, match="neither _spark_metadata nor _SUCCESS: Spark has committed nothing there"):
        committed(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    assert names(tmp_path) == ["part-0", "part-1"]


def test_unreadable_log_is_refused(tmp_path: Path) -> None:
    log(tmp_path, "0", "{half")
    with pytest.raises(InputError, match="is not a log of Spark, or it is damaged"):
        committed(tmp_path)
    (tmp_path / "_spark_metadata" / "0").write_text("v2\n")
    with pytest.raises(InputError, match="version 'v2', but only v1 is supported"):
        committed(tmp_path)


def test_path_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        committed(tmp_path / "nowhere")
    assert last_batch(tmp_path / "nowhere") is None
