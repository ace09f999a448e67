"""A folder of numbered parts."""

import errno
import gzip
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.connectors import file_sink
from castleguard.connectors.base import Sink
from castleguard.connectors.files import ARROW, CSV, JSONL, PARQUET, FileSinkOptions, TextSinkOptions
from castleguard.connectors.registry import Connector
from castleguard.durable import AtomicFile
from castleguard.errors import OutputError
from tests.syncs import record_syncs

TABLE = pa.table({"a": [1, 2], "b": ["x", "y"]})


def open_sink(folder: Path, connector: Connector = CSV, **options: Any) -> Sink:
    assert connector.open_sink is not None
    assert connector.sink_options is not None
    return connector.open_sink(connector.sink_options(path=folder, **options))


@pytest.fixture(params=["csv", "jsonl", "parquet", "arrow"])
def connector(request: pytest.FixtureRequest) -> Connector:
    """Every format."""
    return {"csv": CSV, "jsonl": JSONL, "parquet": PARQUET, "arrow": ARROW}[request.param]


def test_half_written_manifest_is_removed(tmp_path: Path) -> None:
    stray = tmp_path / "._castleguard.json.0a1b2c3d.part"
    stray.touch()
    open_sink(tmp_path).close()
    assert not stray.exists()


def test_part_is_named_by_its_number(tmp_path: Path) -> None:
    open_sink(tmp_path).deliver(42, TABLE)
    open_sink(tmp_path, CSV, gzip=True).deliver(43, TABLE)
    open_sink(tmp_path, PARQUET).deliver(10**12, TABLE)
    names = ["part-000000000042.csv", "part-000000000043.csv.gz", "part-1000000000000.parquet"]
    assert sorted(os.listdir(tmp_path)) == names
    assert (tmp_path / names[0]).read_bytes() == b"a,b\n1,x\n2,y\n"
    assert gzip.decompress((tmp_path / names[1]).read_bytes()) == b"a,b\n1,x\n2,y\n"
    assert pq.read_table(tmp_path / names[2]).equals(TABLE)


def test_last_part_counts_in_any_format(tmp_path: Path) -> None:
    """A job whose sink changed its format must not publish a segment twice."""
    open_sink(tmp_path, JSONL).deliver(5, TABLE)
    assert open_sink(tmp_path, PARQUET).last() == 5


def test_other_files_in_the_folder_are_neither_counted_nor_touched(tmp_path: Path) -> None:
    others = ["notes.txt", "part-7.csv", "part-000000000009", ".hidden.part", "xpart-000000000009.csv"]
    for name in others:
        (tmp_path / name).write_text("mine")
    sink = open_sink(tmp_path)
    assert sink.last() == 0
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_leftovers_of_a_dead_process_are_removed(tmp_path: Path) -> None:
    stray = AtomicFile(tmp_path / "part-000000000001.csv")
    stray.write(b"half a")
    stray.file.close()
    assert len(os.listdir(tmp_path)) == 1
    open_sink(tmp_path)
    assert os.listdir(tmp_path) == []


def test_folder_is_created_and_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(file_sink, "sync_folder", synced.append)
    open_sink(tmp_path / "a" / "b").deliver(1, TABLE)
    assert synced == [tmp_path / "a", tmp_path, tmp_path / "a" / "b"]


def test_bytes_then_name_then_folder_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connector: Connector
) -> None:
    sink = open_sink(tmp_path, connector)
    order = record_syncs(monkeypatch)
    sink.deliver(1, TABLE)
    assert order == ["bytes", "name", "folder"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_failing_disk_is_an_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connector: Connector, function: str
) -> None:
    sink = open_sink(tmp_path, connector)

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(OutputError, match=r"part-000000000001\..* cannot be written: No space left on device"):
            sink.deliver(1, TABLE)
    assert os.listdir(tmp_path) == []
    sink.deliver(1, TABLE)
    assert sink.last() == 1


def test_full_disk_while_writing_is_an_error_and_leaves_no_file(tmp_path: Path, connector: Connector) -> None:
    """Uses a file size limit of the system, so that the real writers run."""
    table = pa.table({"a": [f"{number * 7919 % 99991}" for number in range(100_000)]})
    sink = open_sink(tmp_path, connector)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(OutputError, match="cannot be written: File too large"):
            sink.deliver(1, table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.listdir(tmp_path) == []
    sink.deliver(1, table)
    assert sink.last() == 1


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("x")
    with pytest.raises(OutputError, match=r"out\.csv cannot be written: it is a file, and a job writes a folder"):
        open_sink(tmp_path / "out.csv")


def test_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        open_sink(tmp_path / "file" / "out")


def test_removed_folder_is_an_error(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "out")
    (tmp_path / "out").rmdir()
    with pytest.raises(OutputError, match="cannot be written"):
        sink.deliver(1, TABLE)
    with pytest.raises(OutputError, match="out cannot be written: No such file"):
        sink.last()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_read_only_folder_is_an_error(tmp_path: Path) -> None:
    sink = open_sink(tmp_path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            sink.deliver(1, TABLE)
    finally:
        tmp_path.chmod(0o700)


def test_same_segment_gives_the_same_bytes(tmp_path: Path, connector: Connector) -> None:
    for folder in ("one", "two"):
        open_sink(tmp_path / folder, connector).deliver(1, TABLE)
    (one,), (two,) = os.listdir(tmp_path / "one"), os.listdir(tmp_path / "two")
    assert (tmp_path / "one" / one).read_bytes() == (tmp_path / "two" / two).read_bytes()


def test_only_text_formats_have_gzip() -> None:
    assert JSONL.sink_options is TextSinkOptions
    assert CSV.sink_options is not None
    assert issubclass(CSV.sink_options, TextSinkOptions)
    assert PARQUET.sink_options is ARROW.sink_options is FileSinkOptions


def test_part_of_another_job_is_not_replaced(tmp_path: Path) -> None:
    """Both jobs found the folder empty: the second delivery must not replace the rows of the first."""
    first, second = open_sink(tmp_path), open_sink(tmp_path)
    assert first.last() == second.last() == 0
    first.deliver(1, pa.table({"n": [1]}))
    with pytest.raises(OutputError, match="use one folder per job"):
        second.deliver(1, pa.table({"n": [2]}))
    assert (tmp_path / "part-000000000001.csv").read_text() == "n\n1\n"
