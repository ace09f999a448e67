"""Pipes: rows as they arrive, no position, failures of the other end."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from castleguard.connectors.base import Read
from castleguard.connectors.registry import find
from castleguard.connectors.stdio import CONNECTOR, READ_AHEAD, StdinOptions, StdinSource, StdoutOptions, StdoutSink
from castleguard.errors import InputError, OutputError, SchemaError
from tests.patience import PATIENCE, WHOLE_RUN, eventually

TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


class Pipe:
    """Both ends of a pipe."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def write(self, content: bytes) -> None:
        os.write(self.write_end, content)

    def end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
        self.write_end = -1

    def source(self, format: Literal["csv", "jsonl"] = "csv", batch_rows: int = 65536) -> StdinSource:
        return StdinSource(StdinOptions(format=format, batch_rows=batch_rows), ["a"], self.read_end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe; its reader ends with the test."""
    pipe = Pipe()
    yield pipe
    pipe.end()


def values(read: Read | None) -> list[str]:
    assert read is not None
    found: list[str] = read.rows.column("a").to_pylist()
    return found


def test_registry_finds_stdio() -> None:
    assert find("stdio") is CONNECTOR


def test_line_is_read_as_soon_as_it_is_written(pipe: Pipe) -> None:
    source = pipe.source()
    assert source.read(0.0) is None
    pipe.write(b"a,b\n1,2\n")
    assert values(source.read(PATIENCE)) == ["1"]
    pipe.write(b"2,")
    assert source.read(0.05) is None, "half a line is not a row"
    pipe.write(b"3\n")
    read = source.read(PATIENCE)
    assert values(read) == ["2"]
    assert read is not None
    assert read.place(0) == "stdin, row 2"
    source.close()


def test_header_may_come_in_pieces(pipe: Pipe) -> None:
    source = pipe.source()
    pipe.write(b"a,")
    assert source.read(0.05) is None
    pipe.write(b"b\n1,2\n")
    assert values(source.read(PATIENCE)) == ["1"]
    source.close()


def test_last_line_without_its_end_is_read_when_the_pipe_ends(pipe: Pipe) -> None:
    source = pipe.source("jsonl")
    pipe.write(b'{"a": 1}\n{"a": 2}')
    assert values(source.read(PATIENCE)) == ["1"]
    pipe.end()
    assert values(source.read(PATIENCE)) == ["2"]
    assert not source.finished
    assert source.read(PATIENCE) is None
    assert source.finished
    assert source.read(PATIENCE) is None, "and does not wait for more"
    source.close()


def test_bad_lines_are_handed_out(pipe: Pipe) -> None:
    source = pipe.source()
    pipe.write(b"a,b\n1,2\n3\n")
    read = source.read(PATIENCE)
    source.close()
    assert read is not None
    assert [tuple(bad) for bad in read.bad] == [("stdin, line 3", "1 value instead of 2", b"3")]


def test_missing_column_is_an_error_every_time(pipe: Pipe) -> None:
    source = pipe.source()
    pipe.write(b"x,y\n1,2\n")
    for _ in range(2):
        with pytest.raises(SchemaError, match="stdin has no column 'a'"):
            source.read(PATIENCE)
    source.close()


def test_descriptor_that_cannot_be_read_is_an_error() -> None:
    source = StdinSource(StdinOptions(format="csv"), ["a"], 987654)
    with pytest.raises(InputError, match="stdin cannot be read: Bad file descriptor"):
        source.read(PATIENCE)
    source.close()


def test_failed_reader_does_not_look_like_the_end(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(source: StdinSource) -> Iterator[Read]:
        raise SystemExit
        yield

    monkeypatch.setattr(StdinSource, "_reads", dies)
    source = pipe.source()
    with pytest.raises(InputError, match="cannot be read any further: SystemExit"):
        source.read(PATIENCE)
    assert not source.finished
    source.close()


def test_read_ahead_is_limited(pipe: Pipe) -> None:
    """The rest waits in the pipe, then the other end blocks."""
    source = pipe.source(batch_rows=1)
    pipe.write(b"a\n" + b"1\n" * 100)
    eventually(lambda: source._arrived.qsize() == READ_AHEAD)
    time.sleep(0.05)  # for the next one, which must not arrive
    assert source._arrived.qsize() == READ_AHEAD
    assert sum(len(values(source.read(PATIENCE))) for _ in range(100)) == 100
    source.close()


def test_position_is_empty(pipe: Pipe) -> None:
    source = pipe.source()
    assert source.position() == {}
    assert source.lag() is None
    source.close()


def test_non_blocking_pipe_is_made_blocking(pipe: Pipe) -> None:
    os.set_blocking(pipe.read_end, False)
    source = pipe.source()
    assert source.read(0.1) is None
    assert not source.finished
    pipe.write(b"a\n1\n")
    assert values(source.read(PATIENCE)) == ["1"]
    source.close()


def test_batch_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_rows must be at least 1, got 0"):
        StdinOptions(format="csv", batch_rows=0)


def test_header_is_written_once(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        sink = StdoutSink(StdoutOptions(format="csv"), out.fileno())
        sink.deliver(1, TABLE)
        sink.deliver(5, TABLE.slice(1))
        sink.close()
    assert (tmp_path / "out").read_bytes() == b"a,b\n1,x\n2,\n2,\n"


def test_json_has_no_header(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        StdoutSink(StdoutOptions(format="jsonl"), out.fileno()).deliver(1, TABLE)
    assert (tmp_path / "out").read_bytes() == b'{"a":1,"b":"x"}\n{"a":2,"b":null}\n'


def test_closed_pipe_is_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    sink = StdoutSink(StdoutOptions(format="csv"), write_end)
    with pytest.raises(OutputError, match="stdout cannot be written: Broken pipe"):
        sink.deliver(1, TABLE)
    os.close(write_end)


def test_output_larger_than_the_pipe_is_complete() -> None:
    """A process whose standard input stays open can still end."""
    program = (
        "import pyarrow as pa\n"
        "from castleguard.connectors.stdio import *\n"
        "source = CONNECTOR.open_source(StdinOptions(format='csv'), ['a'], None)\n"
        "sink = CONNECTOR.open_sink(StdoutOptions(format='csv'))\n"
        "assert source.read(0.1) is None\n"
        "sink.deliver(1, pa.table({'a': list(range(200_000))}))\n"
        "source.close(); sink.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        written = process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(WHOLE_RUN) == 0
    assert written.split(b"\n")[-2:] == [b"199999", b""]
    assert written.count(b"\n") == 200_001
