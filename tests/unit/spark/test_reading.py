"""Workers read the same rows as `castleguard run`, with their places, and malformed entries with a reason."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.errors import InputError, SchemaError
from castleguard.spark.reading import FileRead, MessageRead, path_of

TEXT = pa.schema([("pid", pa.string()), ("age", pa.string())])


def read_of(folder: Path, **changes: Any) -> FileRead:
    whole = {"format": "csv", "folder": folder, "pattern": "*", "columns": TEXT, "batch_rows": 2}
    return FileRead(**{**whole, **changes})


def rows(read: FileRead, *paths: Path) -> list[dict[str, Any]]:
    listed = pa.record_batch({"path": [f"file:{path}" for path in paths]})
    found = list(read.rows([listed]))
    assert all(batch.schema == read.output for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def test_rows_carry_file_and_number_for_any_order_of_columns(tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_text("age,extra,pid\n20,x,1\n30,y,2\n40,z,3\n")
    assert rows(read_of(tmp_path), tmp_path / "a b.csv") == [
        {"pid": "1", "age": "20", "_file": "a b.csv", "_row": 1, "_bad": None},
        {"pid": "2", "age": "30", "_file": "a b.csv", "_row": 2, "_bad": None},
        {"pid": "3", "age": "40", "_file": "a b.csv", "_row": 3, "_bad": None},
    ]


def test_bad_line_is_reported_by_number_and_affects_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pid,age\n1,20\n2\n3,30\n")
    found = rows(read_of(tmp_path), tmp_path / "a.csv")
    good, bad = ([row for row in found if (row["_bad"] is None) == fine] for fine in (True, False))
    assert [(row["pid"], row["_row"]) for row in good] == [("1", 1), ("3", 2)]
    assert bad == [{"pid": None, "age": None, "_file": "a.csv", "_row": 3, "_bad": "1 value instead of 2"}]


def test_json_lines_and_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"pid": 1.0, "age": "x"}\n[]\n'))
    found = rows(read_of(tmp_path, format="jsonl"), tmp_path / "a.jsonl.gz")
    assert sorted((row["pid"], row["age"], row["_bad"]) for row in found if row["pid"]) == [("1", "x", None)]
    assert [row["_bad"] for row in found if not row["pid"]] == ["not a JSON object"]


def test_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert rows(read_of(tmp_path), tmp_path / "a.csv") == []


def test_missing_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pid,years\n1,20\n")
    with pytest.raises(SchemaError, match="has no column 'age'"):
        rows(read_of(tmp_path), tmp_path / "a.csv")


def test_files_of_another_type_are_refused_without_their_values(tmp_path: Path) -> None:
    types = pa.schema([("pid", pa.int64())])
    pq.write_table(pa.table({"pid": pa.array([7], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"pid": ["secret"]}), tmp_path / "b.parquet")
    read = read_of(tmp_path, format="parquet", columns=types)
    assert [row["pid"] for row in rows(read, tmp_path / "a.parquet")] == [7]
    with pytest.raises(InputError, match="'pid' is string, but int64 in the first file") as caught:
        rows(read, tmp_path / "b.parquet")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_invalid_utf_8_is_read_as_it_would_be_written(tmp_path: Path, kind: pa.DataType) -> None:
    raw = pa.array([b"caf\xe9", b"caf\xe8", None, "café".encode()], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())  # as written by tools that do not validate text
    if pa.types.is_dictionary(kind):
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), text.drop_null())
    elif kind != pa.string():
        text = pa.Array.from_buffers(kind, 4, raw.cast(pa.large_binary()).buffers())
    pq.write_table(pa.table({"pid": text}), tmp_path / "a.parquet")
    read = read_of(tmp_path, format="parquet", columns=pa.schema([("pid", pa.string())]), batch_rows=3)
    found = [row["pid"] for row in rows(read, tmp_path / "a.parquet")]
    assert found == ["caf\ufffd", "caf\ufffd", None, "café"]


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("*", "a.csv", True),
        ("*", "a.csv.part", False),
        ("*", "a.TMP", False),
        ("*", ".a.csv", False),
        ("*", "below/a.csv", False),
        ("*.csv", "a.jsonl", False),
        ("**/*.csv", "below/deep/a.csv", True),
        ("**/*.csv", ".hidden/a.csv", False),
        ("day-?/*.csv", "day-1/a.csv", True),
        ("day-?/*.csv", "day-10/a.csv", False),
    ],
)
def test_only_complete_files_that_match_are_read(tmp_path: Path, pattern: str, name: str, meant: bool) -> None:
    assert read_of(tmp_path, pattern=pattern).accepts(tmp_path / name) is meant


def test_files_that_spark_skips_are_found(tmp_path: Path) -> None:
    for name in ("a.csv", "_b.csv", ".c.csv", "d.csv._COPYING_", "_e.csv.part", ".a.csv.crc", "_below/f.csv", "_g=1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pid,age\n")
    (tmp_path / "_SUCCESS").touch()
    assert read_of(tmp_path).left_out() == [".c.csv", "_b.csv", "d.csv._COPYING_"]
    assert read_of(tmp_path, pattern="**/*.csv").left_out() == [".c.csv", "_b.csv", "_below/f.csv", "d.csv._COPYING_"]
    assert read_of(tmp_path / "nowhere").left_out() == []


def test_file_of_another_folder_is_not_read(tmp_path: Path) -> None:
    assert not read_of(tmp_path / "in").accepts(tmp_path / "a.csv")


@pytest.mark.parametrize("address", ["file:/data/a b.csv", "file:///data/a b.csv", "/data/a b.csv"])
def test_spark_address_becomes_a_path(address: str) -> None:
    assert path_of(address) == Path("/data/a b.csv")


def test_address_that_is_not_local_is_refused() -> None:
    with pytest.raises(InputError, match="not on a local disk"):
        path_of("s3://bucket/a.csv")


def messages(*values: bytes | None, keys: list[bytes | None] | None = None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([3] * len(values), pa.int32()),
            "offset": pa.array(range(100, 100 + len(values)), pa.int64()),
            "key": pa.array(keys or [None] * len(values), pa.binary()),
        }
    )


def test_messages_become_rows_with_partition_and_offset() -> None:
    read = MessageRead(format="json", columns=TEXT)
    found = list(read.rows([messages(b'{"pid": 1, "age": 20}\n{"pid": 2, "age": 30}', None, b'{"pid": 3}', b"no")]))
    assert all(batch.schema == read.output for batch in found)
    every = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
    assert every[:3] == [("1", "20", 3, 100, 1, None), ("2", "30", 3, 100, 2, None), ("3", None, 3, 102, 1, None)]
    assert [(row[3], row[5]) for row in every[3:]] == [
        (103, "it is not one JSON object"),
        (101, "it has no value (a tombstone)"),
    ]


def test_message_key_can_be_a_column() -> None:
    read = MessageRead(format="json", columns=TEXT, key_column="pid")
    (found,) = read.rows([messages(b'{"age": 20}', b'{"age": 30}', keys=[b"ann", b"\xff"])])
    assert found.column("pid").to_pylist() == ["ann", None]


def test_no_messages_give_no_rows() -> None:
    assert list(MessageRead(format="json", columns=TEXT).rows([messages()])) == []
