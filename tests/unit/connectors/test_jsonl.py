"""JSON lines: values as text that does not depend on neighbours, malformed lines, output."""

import gzip
import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors import line_files
from castleguard.connectors.base import Reader
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.connectors.jsonl import JsonlReader
from castleguard.errors import InputError, OutputError, SchemaError


def source_of(folder: Path, content: str | bytes, columns: str = "a") -> Reader:
    path = folder / "in.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_reader(path, columns.split())


def values(source: Reader) -> list[str | None]:
    with closing(source):
        return [value for batch in source for value in batch.column(0).to_pylist()]


def test_declared_keys_are_text_and_others_are_ignored(tmp_path: Path) -> None:
    content = '{"b": 1.5, "a": "x", "c": {"d": 1}}\n{"a": "y", "b": null, "c": 3}\n'
    with closing(source_of(tmp_path, content, "a b")) as source:
        rows = [batch.to_pylist() for batch in source]
    assert rows == [[{"a": "x", "b": "1.5"}, {"a": "y", "b": None}]]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12", "12"),
        ("12.0", "12"),
        ("1.2e1", "12"),
        ("-7", "-7"),
        ("0.1", "0.1"),
        ("1e-7", "1e-7"),
        ("1152921504606846977", "1152921504606846977"),
        ("12345678901234567890", "12345678901234567890"),
        ("true", "true"),
        ('"2026-01-01"', "2026-01-01"),
        ('"2026-01-01 00:00:00"', "2026-01-01 00:00:00"),
        ('"012"', "012"),
        ("null", None),
        ('"é"', "é"),
    ],
)
@pytest.mark.parametrize("neighbour", ["", '"text"', "3", "0.5", "1e300", "[1]", "oops"])
def test_text_of_a_value_does_not_depend_on_its_neighbours(
    tmp_path: Path, written: str, text: str | None, neighbour: str
) -> None:
    line = f'{{"a": {neighbour}}}\n' if neighbour else ""
    assert values(source_of(tmp_path, f'{{"a": {written}}}\n{line}'))[0] == text


def test_types_that_change_from_block_to_block_give_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"block_bytes": 16})
    content = "".join(f'{{"a": {value}}}\n' for value in (1, 1.0, 1.5, '"1"', '"x"', "null", 1))
    source = source_of(tmp_path, content)
    assert values(source) == ["1", "1", "1.5", "1", "x", None, "1"]
    assert source.malformed == 0


@pytest.mark.parametrize("bad", ['{"a": 1', "3", "[1]", "oops", '{"a": "\udcff"}', r'{"a": "\ud800"}'])
def test_line_that_is_not_an_object_is_skipped_and_counted(tmp_path: Path, bad: str) -> None:
    content = f'{{"a": "x"}}\n{bad}\n\n{{"a": "y"}}\n'.encode(errors="surrogateescape")
    source = source_of(tmp_path, content)
    assert values(source) == ["x", "y"]
    assert source.malformed == 1


def test_missing_key_is_null(tmp_path: Path) -> None:
    assert values(source_of(tmp_path, '{"a": "x"}\n{"b": 1}\n')) == ["x", None]


@pytest.mark.parametrize("other", ["", "oops\n"])
def test_key_that_no_line_has_is_a_schema_error(tmp_path: Path, other: str) -> None:
    with pytest.raises(SchemaError, match="has no column 'age', did you mean 'ages'"):
        values(source_of(tmp_path, '{"ages": 1}\n' + other, "age"))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_file_has_no_rows(tmp_path: Path, content: str) -> None:
    assert values(source_of(tmp_path, content)) == []


def test_nested_value_is_its_json(tmp_path: Path) -> None:
    assert values(source_of(tmp_path, '{"a": {"b": [1, 2]}}\n')) == ['{"b": [1, 2]}']


def test_written_lines_are_json_again(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"n": 1, "x": 0.5, "s": 'say "hi",\nthere é', "day": "1970-01-02", "at": "1970-01-01 00:00:00", "ok": True},
        {"n": None, "x": None, "s": None, "day": None, "at": None, "ok": None},
    ]
    table = pa.table(
        {
            "n": pa.array([1, None]),
            "x": pa.array([0.5, float("nan")]),
            "s": pa.array([rows[0]["s"], None]),
            "day": pa.array([1, None], pa.date32()),
            "at": pa.array([0, None], pa.timestamp("us")),
            "ok": pa.array([True, None]),
        }
    )
    sink = open_writer(tmp_path / "out.jsonl")
    sink.write(table.slice(0, 1))
    sink.write(table.slice(1))
    sink.close()
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == rows


def test_empty_table_gives_an_empty_file(tmp_path: Path) -> None:
    sink = open_writer(tmp_path / "out.jsonl")
    sink.write(pa.table({"a": pa.array([], pa.int64())}))
    sink.close()
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_byte_order_mark_before_the_first_line_costs_no_row(tmp_path: Path, ending: str) -> None:
    content = b"\xef\xbb\xbf" + b'{"a": 1}\n{"a": 2}\n'
    path = tmp_path / f"in.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    with closing(open_reader(path, ["a"])) as reader:
        assert [row for batch in reader for row in batch["a"].to_pylist()] == ["1", "2"]
        assert reader.malformed == 0


def test_byte_order_mark_between_joined_files_costs_no_row(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(2 * (b"\xef\xbb\xbf" + b'{"a": 1}\n{"a": 2}\n'))
    with closing(open_reader(tmp_path / "in.jsonl", ["a"])) as reader:
        assert [row for batch in reader for row in batch["a"].to_pylist()] == ["1", "2", "1", "2"]
        assert reader.malformed == 0


def test_utf16_is_reported(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes('{"a": 1}\n'.encode("utf-16"))
    with closing(open_reader(tmp_path / "in.jsonl", ["a"])) as reader, pytest.raises(InputError, match="UTF-16"):
        list(reader)


def test_nested_column_is_refused(tmp_path: Path) -> None:
    sink = open_writer(tmp_path / "out.jsonl")
    with pytest.raises(OutputError, match=r"column 'a' is of type list.*, which JSON cannot hold"):
        sink.write(pa.table({"a": [[1], [2]]}))
    sink.abort()


@given(content=st.text(st.sampled_from('{}"a:1,\n[]e.'), max_size=200).map(str.encode) | st.binary(max_size=200))
def test_any_content_is_read_to_the_end(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.jsonl")
        path.write_bytes(b'{"a": 1}\n' + content)
        assert values(open_reader(path, ["a"]))[0] == "1"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("null", "not a JSON object"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "not a JSON object"),
        ('{"a": 1}\0{"a": 2}', "not a JSON object"),
        ('{"a": 1}{"a": 2}', "not a JSON object"),
    ],
    ids=["null", "deep", "zero byte", "two objects"],
)
def test_line_that_crashes_arrow_costs_only_itself(tmp_path: Path, first: str, reason: str) -> None:
    """Arrow's parser crashes on the first two, and stops or reads on within the others."""
    path = tmp_path / "in.jsonl"
    path.write_text(first + '\n{"a": 3}\n')
    with closing(JsonlReader(path, ["a"], 10, keep_bad=True)) as reader:
        rows = [value for batch in reader for value in batch["a"].to_pylist()]
        assert rows == ["3"]
        assert [line.reason for line in reader.take_bad()] == [reason]


def test_object_over_several_lines_is_not_a_row(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 3}\n{"a":\n4}\n')
    with closing(JsonlReader(path, ["a"], 10)) as reader:
        assert [batch["a"].to_pylist() for batch in reader] == [["3"]]
        assert reader.malformed == 2
