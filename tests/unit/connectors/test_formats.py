"""Promises of every file format: types, names, no half-written file."""

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from castleguard.connectors import formats
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.errors import InputError, OutputError, SchemaError

ENDINGS = [".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc"]
TYPED = [".parquet", ".arrow", ".feather", ".ipc"]
TABLE = pa.table({"n": [1, 2, 3], "s": ["x", None, "z"]})


def write(path: Path, *tables: pa.Table) -> None:
    sink = open_writer(path)
    try:
        for table in tables:
            sink.write(table)
        sink.close()
    finally:
        sink.abort()


def read(path: Path, columns: list[str], batch_rows: int = 65536) -> pa.Table:
    with closing(open_reader(path, columns, batch_rows=batch_rows)) as source:
        return pa.Table.from_batches(list(source))


@pytest.fixture(params=ENDINGS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A path of every format; checks that no hidden file is left behind."""
    path = tmp_path / f"data{request.param}"
    yield path
    assert [other.name for other in tmp_path.iterdir() if other.name.startswith(".")] == []


def test_files_round_trip(path: Path) -> None:
    write(path, TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1))
    found = read(path, ["s", "n"])
    assert found.column_names == ["s", "n"]
    assert found["s"].to_pylist() == ["x", None, "z"]
    assert [int(n) for n in found["n"].to_pylist()] == [1, 2, 3]


def test_aborted_writer_leaves_no_file(path: Path) -> None:
    sink = open_writer(path)
    sink.write(TABLE)
    sink.abort()
    assert not path.exists()


def test_final_name_appears_only_on_close(path: Path) -> None:
    sink = open_writer(path)
    sink.write(TABLE)
    assert not path.exists()
    sink.close()
    assert path.exists()
    sink.abort()
    assert path.exists()


def test_older_file_stays_until_close(path: Path) -> None:
    path.write_text("older")
    sink = open_writer(path)
    sink.write(TABLE)
    assert path.read_text() == "older"
    sink.abort()
    assert path.read_text() == "older"


def test_same_tables_give_the_same_bytes(path: Path) -> None:
    write(path, TABLE)
    first = path.read_bytes()
    write(path, TABLE)
    assert path.read_bytes() == first


def test_file_has_the_permissions_of_any_new_file(path: Path) -> None:
    write(path, TABLE)
    other = path.with_name("other")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_missing_column_is_named(path: Path) -> None:
    write(path, TABLE)
    with pytest.raises(SchemaError, match="has no column 'nn', did you mean 'n'"):
        read(path, ["nn", "s"])


def test_missing_folder_is_an_error_at_open(path: Path) -> None:
    with pytest.raises(OutputError, match="no such folder"):
        open_writer(path.parent / "missing" / path.name)


def test_folder_is_neither_input_nor_output(path: Path) -> None:
    path.mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        open_reader(path, ["n"])
    with pytest.raises(OutputError, match="it is a folder"):
        open_writer(path)


def test_missing_file_is_an_input_error(path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_reader(path, ["n"])


def test_writer_without_tables_closes(path: Path) -> None:
    open_writer(path).close()
    assert path.exists()


@pytest.mark.parametrize("ending", TYPED)
def test_types_are_kept_and_batches_are_small(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, TABLE)
    source = open_reader(path, ["n", "s"], batch_rows=2)
    batches = list(source)
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert pa.Table.from_batches(batches).equals(TABLE)
    assert source.malformed == 0
    assert source.fraction() is not None
    source.close()


@pytest.mark.parametrize("ending", TYPED)
def test_empty_table_keeps_its_schema(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    write(path, TABLE.slice(0, 0))
    source = open_reader(path, ["n", "s"])
    assert sum(batch.num_rows for batch in source) == 0
    source.close()
    with pytest.raises(SchemaError):
        open_reader(path, ["other"])


@pytest.mark.parametrize("ending", TYPED)
def test_dictionaries_that_differ_from_table_to_table_are_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"
    one = pa.table({"s": pa.array(["x", "y"]).dictionary_encode()})
    two = pa.table({"s": pa.array(["z", None]).dictionary_encode()})
    write(path, one, two)
    assert read(path, ["s"])["s"].to_pylist() == ["x", "y", "z", None]


@pytest.mark.parametrize("ending", TYPED)
def test_changing_columns_are_refused(tmp_path: Path, ending: str) -> None:
    sink = open_writer(tmp_path / f"data{ending}")
    sink.write(TABLE)
    sink.write(TABLE.set_column(0, "n", pa.array([1, 2, 3], pa.int32())))
    with pytest.raises(OutputError, match="changed their names or types"):
        sink.write(TABLE.rename_columns(["n", "t"]))
    sink.abort()


@pytest.mark.parametrize("ending", TYPED)
@pytest.mark.parametrize("content", [b"", b"not what it says", b"PAR1" * 10, b"ARROW1" * 10])
def test_file_of_another_format_is_an_input_error(tmp_path: Path, ending: str, content: bytes) -> None:
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        open_reader(path, ["n"])


def test_truncated_parquet_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(TABLE, path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="damaged"):
        open_reader(path, ["n"])


def test_parquet_file_with_a_damaged_page_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(TABLE, path, compression="gzip")
    content = bytearray(path.read_bytes())
    content[40:120] = b"\x00" * 80
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"), closing(open_reader(path, ["n", "s"])) as source:
        list(source)


def test_arrow_stream_without_a_footer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.arrow"
    with pa.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert read(path, ["n", "s"]).equals(TABLE)


@pytest.mark.parametrize("name", ["data.xlsx", "data", "data.gz", "csv"])
def test_unknown_ending_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"known: \.csv, \.csv\.gz, \.tsv"):
        open_reader(tmp_path / name, ["n"])
    with pytest.raises(OutputError, match=r"known: \.csv, \.csv\.gz, \.tsv"):
        open_writer(tmp_path / name)


def test_endings_may_be_upper_case(tmp_path: Path) -> None:
    write(tmp_path / "DATA.CSV", TABLE)
    assert read(tmp_path / "DATA.CSV", ["n"]).num_rows == 3


@pytest.mark.parametrize("ending", ENDINGS)
def test_full_disk_is_an_output_error(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    real_open = open
    monkeypatch.setattr("castleguard.durable.open", lambda *_, **__: real_open("/dev/full", "wb"), raising=False)
    with pytest.raises(OutputError, match="No space left on device"):
        write(tmp_path / f"data{ending}", pa.table({"n": list(range(3_000_000))}))
    assert not (tmp_path / f"data{ending}").exists()


def test_every_format_has_one_codec_and_text_formats_render_lines() -> None:
    for format in get_args(formats.Format):
        found = formats.codec(format)
        assert (found.render is not None) == (found.header is not None) == (format in formats.TEXT)
        assert format in formats.ENDINGS.values()
