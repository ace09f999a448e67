"""The first rows of a file of any format."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.connectors.file_sample import read_sample
from castleguard.connectors.formats import open_writer
from castleguard.errors import InputError

TABLE = pa.table({"a": ["x", "y", "z"], "b": ["1", "2", "3"]})


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.ndjson", "t.parquet", "t.arrow", "t.feather"])
def test_all_columns_and_the_first_rows_are_read(tmp_path: Path, name: str) -> None:
    writer = open_writer(tmp_path / name)
    writer.write(TABLE)
    writer.close()
    assert read_sample(tmp_path / name, 2).rows == TABLE.slice(0, 2)
    assert read_sample(tmp_path / name, 100).rows == TABLE


def test_keys_of_only_some_lines_are_columns(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"a": 1}\nnot a row\n{"b": 2, "a": null}\n')
    found = read_sample(tmp_path / "t.jsonl", 10)
    assert found.rows.to_pydict() == {"a": ["1", None], "b": [None, "2"]}
    assert found.malformed == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a,b\n", "has no readable rows"),
        ("t.csv", b"a;b\n1;2\n", "seems to be separated by ';': set separator"),
        ("t.csv", b"a,a\n1,2\n", "has two columns named 'a'"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-12], "cannot be read"),
        ("t.jsonl", b"nothing\n", "has no columns"),
        ("t.parquet", b"nothing", "cannot be read"),
        ("t.arrow", b"nothing", "cannot be read"),
        ("t.txt", b"nothing", "has an unknown file extension"),
    ],
)
def test_unreadable_file_is_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_sample(tmp_path / name, 10)


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_sample(tmp_path / "absent.csv", 10)


def test_typed_files_keep_their_types(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1, 2], pa.int32())})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read_sample(tmp_path / "t.parquet", 10).rows.schema.field("n").type == pa.int32()
