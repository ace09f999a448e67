"""Layout checks: a declared column never shows the values of another one."""

import io
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.connectors.formats import open_reader
from castleguard.connectors.parquet_layout import Compact, check_layout
from castleguard.connectors.payloads import read_payloads
from castleguard.errors import CastleguardError, InputError
from tests.soak import effort

ROWS = 50
SECRET = "ZQXJ"
NOTES = [f"note{row:04d}" for row in range(ROWS)]
SECRETS = [f"{SECRET}{row:04d}" for row in range(ROWS)]
PLAIN = pa.table({"note": NOTES, "secret": SECRETS})
CODED = pa.table({"note": pa.array(NOTES).dictionary_encode(), "secret": pa.array(SECRETS).dictionary_encode()})


def _arrow(table: pa.Table, *, stream: bool = False, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    opener = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opener(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False)
    return out.getvalue()


def _read(path: Path, content: bytes) -> list[str | None]:
    path.write_bytes(content)
    with closing(open_reader(path, ["note"])) as reader:
        return [str(value) for batch in reader for value in _bytes_of(batch["note"])]


def _bytes_of(column: pa.Array) -> list[object]:
    """The values, of any type that damage may have given them."""
    try:
        found: list[object] = column.cast(pa.binary()).to_pylist()
    except pa.ArrowException:
        found = column.to_pylist()
    return found


FILES: dict[str, Callable[[], bytes]] = {
    "a file": lambda: _arrow(PLAIN),
    "a stream": lambda: _arrow(PLAIN, stream=True),
    "a compressed file": lambda: _arrow(PLAIN, compression="zstd"),
    "dictionaries": lambda: _arrow(CODED),
    "a stream of dictionaries": lambda: _arrow(CODED, stream=True),
}


def _check_flipped_bits(path: Path, content: bytes) -> None:
    every = effort(53, 1)  # a prime, so that all bits of a byte are tested
    refused = 0
    for bit in range(0, 8 * len(content), every):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            values = _read(path, bytes(flipped))
        except CastleguardError:
            refused += 1
        else:
            assert not any(SECRET in str(value) for value in values), bit
    assert refused


@pytest.mark.soak
@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_no_flipped_bit_of_an_arrow_file_shows_another_column(make: Callable[[], bytes], tmp_path: Path) -> None:
    _check_flipped_bits(tmp_path / "in.arrow", make())


@pytest.mark.soak
def test_no_flipped_bit_of_a_parquet_file_shows_another_column(tmp_path: Path) -> None:
    _check_flipped_bits(tmp_path / "in.parquet", _parquet(PLAIN))


def _buffers_of(content: bytes) -> list[int]:
    """Offsets in the batch metadata that hold the places of both columns' data."""
    length = struct.pack("<q", 8 * ROWS)
    found = []
    at = content.find(length)
    while at >= 0:
        offset = struct.unpack_from("<q", content, at - 8)[0]
        if 0 <= offset < len(content) and offset % 8 == 0:
            found.append(at - 8)
        at = content.find(length, at + 1)
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_buffer_that_points_at_another_column_is_damage(tmp_path: Path, *, stream: bool) -> None:
    content = bytearray(_arrow(PLAIN, stream=stream))
    first, second = _buffers_of(bytes(content))[:2]
    content[first : first + 8] = content[second : second + 8]
    shown = list((pa.ipc.open_stream if stream else _batches_of_file)(bytes(content)))
    assert shown[0]["note"].to_pylist() == SECRETS, "Arrow itself shows what it should not, and calls it valid"
    shown[0].validate(full=True)
    with pytest.raises(InputError, match="it is damaged"):
        _read(tmp_path / "in.arrow", bytes(content))
    if stream:
        payloads = read_payloads("arrow", [bytes(content)], ["note"])
        assert payloads.rows.num_rows == 0
        assert len(payloads.bad) == 1


def _batches_of_file(content: bytes) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(content)
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


@pytest.mark.parametrize("where", ["in front", "behind"])
@pytest.mark.parametrize("count", [*range(1, 17), 64])
def test_extra_or_missing_bytes_are_damage(tmp_path: Path, where: str, count: int) -> None:
    contents = (("arrow", _arrow(PLAIN)), ("arrow", _arrow(PLAIN, stream=True)), ("parquet", _parquet(PLAIN)))
    for ending, content in contents:
        at = content.index(b"note0020") + (0 if where == "in front" else 8)
        for damaged in (content[:at] + b"\0" * count + content[at:], content[:at] + content[at + count :]):
            with pytest.raises(InputError, match="damaged"):
                _read(tmp_path / f"in.{ending}", damaged)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_files_of_another_writer_are_read(tmp_path: Path, compression: Literal["uncompressed", "lz4", "zstd"]) -> None:
    frame = pl.DataFrame({"note": NOTES, "secret": SECRETS, "list": [["x"]] * ROWS}).with_columns(
        pl.col("secret").cast(pl.Categorical)
    )
    for stream in (False, True):
        if stream:
            frame.write_ipc_stream(tmp_path / "in.arrow", compression=compression)
        else:
            frame.write_ipc(tmp_path / "in.arrow", compression=compression)
        with closing(open_reader(tmp_path / "in.arrow", ["note", "list"])) as reader:
            assert [value for batch in reader for value in batch["note"].to_pylist()] == NOTES
    frame.write_parquet(tmp_path / "in.parquet", row_group_size=20)
    with closing(open_reader(tmp_path / "in.parquet", ["note", "list"])) as reader:
        assert [value for batch in reader for value in batch["note"].to_pylist()] == NOTES


NESTED = pa.table(
    {
        "list": [[1, 2], None, []],
        "struct": [{"a": "x", "b": [1]}, None, {"a": None, "b": None}],
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.nulls(3),
        "view": pa.array(["a", None, "a text that is longer than twelve"], pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["a"])),
        "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "lists": pa.array([[1], None, []], pa.list_view(pa.int64())),
        "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
        "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    }
)


def test_columns_of_every_type_are_read(tmp_path: Path) -> None:
    for stream in (False, True):
        (tmp_path / "in.arrow").write_bytes(_arrow(NESTED, stream=stream))
        with closing(open_reader(tmp_path / "in.arrow", NESTED.column_names)) as reader:
            assert pa.Table.from_batches(list(reader)).to_pylist() == NESTED.to_pylist()
    table = NESTED.drop_columns(["runs", "lists"])
    for options in ({}, {"write_page_index": True}, {"data_page_version": "2.0"}, {"data_page_size": 1}):
        pq.write_table(table, tmp_path / "in.parquet", **options)
        check_layout(tmp_path / "in.parquet")
        with closing(open_reader(tmp_path / "in.parquet", table.column_names)) as reader:
            assert pa.Table.from_batches(list(reader)).to_pylist() == table.to_pylist()


def test_table_without_rows_is_read(tmp_path: Path) -> None:
    for ending, content in (("arrow", _arrow(PLAIN.slice(0, 0))), ("parquet", _parquet(PLAIN.slice(0, 0)))):
        assert _read(tmp_path / f"in.{ending}", content) == []
    pq.write_table(CODED.slice(0, 0), tmp_path / "in.parquet")
    with closing(open_reader(tmp_path / "in.parquet", ["note"])) as reader:
        assert sum(batch.num_rows for batch in reader) == 0


def test_struct_that_never_ends_is_damage() -> None:
    with pytest.raises((ValueError, IndexError)):
        Compact(b"\x1c" * 100).struct()
    with pytest.raises(ValueError, match="longer than"):
        Compact(b"\x19\xfc\xff\xff\xff\xff\x0f").struct()
