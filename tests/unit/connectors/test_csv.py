"""CSV files: rows, malformed lines, output."""

import csv
import ctypes
import datetime as dt
import gzip
import io
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors import line_files
from castleguard.connectors.base import Reader
from castleguard.connectors.csv import CsvParser, CsvReader, render
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.errors import InputError, SchemaError


def read(source: Reader) -> list[dict[str, str | None]]:
    """All rows of a source; closes it."""
    with closing(source):
        return [row for batch in source for row in batch.to_pylist()]


def source_of(folder: Path, content: str | bytes, columns: str = "a b") -> Reader:
    path = folder / "in.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_reader(path, columns.split(), batch_rows=4)


def test_every_column_is_text_and_an_empty_value_is_null(tmp_path: Path) -> None:
    with closing(source_of(tmp_path, 'b,a,c\n1.50,007,x\n,"",y\nxyz,2026-01-01,z\n')) as source:
        batches = list(source)
    assert batches[0].schema == pa.schema([("a", pa.string()), ("b", pa.string())])
    assert batches[0].to_pylist() == [
        {"a": "007", "b": "1.50"},
        {"a": None, "b": None},
        {"a": "2026-01-01", "b": "xyz"},
    ]


def handler_of(number: signal.Signals) -> int:
    """Address of the handler that the operating system calls for a signal."""
    action = (ctypes.c_size_t * 32)()  # struct sigaction: the handler comes first
    assert ctypes.CDLL(None).sigaction(int(number), None, action) == 0
    return int(action[0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads struct sigaction of Linux")
def test_parsing_keeps_the_signal_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own handlers would lose a signal that arrives as a call ends."""
    found: list[int] = []
    options = pacsv.ParseOptions

    def with_probe(invalid_row_handler: object) -> pacsv.ParseOptions:
        def probe(row: pacsv.InvalidRow) -> str:
            found.append(handler_of(signal.SIGTERM))
            return "skip"

        return options(invalid_row_handler=probe)

    monkeypatch.setattr(pacsv, "ParseOptions", with_probe)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        expected = handler_of(signal.SIGTERM)
        assert CsvParser(["a", "b"], ["a", "b"]).parse(b"1,2\n3\n") is not None
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found == [expected]


def test_undeclared_columns_are_not_read(tmp_path: Path) -> None:
    assert read(source_of(tmp_path, "secret,a,secret\n1,2,3\n", "a")) == [{"a": "2"}]


def test_batch_has_at_most_batch_rows(tmp_path: Path) -> None:
    with closing(source_of(tmp_path, "a,b\n" + "1,2\n" * 10)) as source:
        assert [batch.num_rows for batch in source] == [4, 4, 2]


@pytest.mark.parametrize("block_bytes", [64, 100, 1000, 1 << 20])
def test_block_borders_do_not_change_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"block_bytes": block_bytes})
    rows = [f'{i},"x, ""{i}""\nsecond line"' if i % 3 else f"{i},{i}" for i in range(50)]
    source = source_of(tmp_path, "a,b\n" + "\n".join(rows))
    found = read(source)
    assert [row["a"] for row in found] == [str(i) for i in range(50)]
    assert found[1]["b"] == 'x, "1"\nsecond line'
    assert source.malformed == 0


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    assert read(source_of(tmp_path, b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4\r\n")) == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": "4"},
    ]


@pytest.mark.parametrize("block_bytes", [4, 64])
def test_byte_order_mark_after_the_header_belongs_to_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """A value must not depend on where a block begins."""
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"block_bytes": block_bytes})
    mark = b"\xef\xbb\xbf"
    for values in ([mark, b"1"], [mark + b"1", b"2", mark + b"3"], [mark + mark, mark]):
        source = source_of(tmp_path, b"\n".join([b"a", *values]) + b"\n", "a")
        assert [row["a"] for row in read(source)] == [value.decode() for value in values]
        assert source.malformed == 0
    source = source_of(tmp_path, b"a,b\n" + mark + b"\n" + mark + b"1,2\n")
    assert read(source) == [{"a": "\ufeff1", "b": "2"}]
    assert source.malformed == 1


def test_line_with_a_wrong_number_of_values_is_skipped_and_counted(tmp_path: Path) -> None:
    source = source_of(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n")
    assert read(source) == [{"a": "1", "b": "2"}, {"a": "7", "b": "8"}]
    assert source.malformed == 2


def test_blank_line_is_not_a_row(tmp_path: Path) -> None:
    source = source_of(tmp_path, "a,b\n1,2\n\n3,4\n\n")
    assert len(read(source)) == 2
    assert source.malformed == 0


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
def test_unclosed_quote_costs_only_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"block_bytes": block_bytes})
    good = [f"{i},x,y" for i in range(1000)]
    source = source_of(tmp_path, "a,b,c\n" + "\n".join([*good[:400], '400,"x,y', *good[401:]]) + "\n")
    assert [row["a"] for row in read(source)] == [str(i) for i in range(1000) if i != 400]
    assert source.malformed == 1


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        ("".join(f"{i},{chr(34) if i == 40 else ''}x\n" for i in range(100)), ["x"] * 100),
        ('0,"x\n1,y', ["x", "y"]),
        ('0,5" pipe\n1,x\n', ['5" pipe', "x"]),
    ],
    ids=["unclosed in the last value", "unclosed before a last line without its end", "inside a plain value"],
)
def test_stray_quote_costs_no_row(tmp_path: Path, lines: str, values: list[str]) -> None:
    source = source_of(tmp_path, "a,b\n" + lines)
    assert read(source) == [{"a": str(i), "b": value} for i, value in enumerate(values)]
    assert source.malformed == 0


def test_declared_value_that_is_not_utf8_costs_its_row(tmp_path: Path) -> None:
    source = source_of(tmp_path, b"a,b,c\n1,x,\xff\n2,\xff,x\n3,\xc3\xa9,x\n\xff\n")
    assert read(source) == [{"a": "1", "b": "x"}, {"a": "3", "b": "é"}]
    assert source.malformed == 2


def test_line_longer_than_any_row_is_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "LONGEST_LINE", 100)
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"block_bytes": 50})
    source = source_of(tmp_path, "a,b\n1,2\n3," + "x" * 1000 + "\n5,6\n")
    assert read(source) == [{"a": "1", "b": "2"}, {"a": "5", "b": "6"}]
    assert source.malformed == 1


def test_missing_column_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"in\.csv has no column 'age', did you mean 'ages'\?"):
        source_of(tmp_path, "ages,b\n1,2\n", "age b")


def test_row_in_place_of_a_header_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        source_of(tmp_path, "patient17,39\npatient18,40\n", "patient age")
    assert str(caught.value).endswith("in.csv has no column 'patient' (it has 2 columns)")


def test_message_names_another_separator(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="separated by ';': set separator in the csv options"):
        source_of(tmp_path, "a;b\n1;2\n")


def test_declared_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two columns named 'a'"):
        source_of(tmp_path, "a,a,b\n1,2,3\n")


@pytest.mark.parametrize("content", ["", "\n", "\r\n\r\n"])
def test_file_without_a_header_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match="is empty: the first line must name the columns"):
        source_of(tmp_path, content)


@pytest.mark.parametrize("content", ["a,b", "a,b\n"])
def test_header_alone_has_no_rows(tmp_path: Path, content: str) -> None:
    assert read(source_of(tmp_path, content)) == []


def test_utf16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is UTF-16: save it as UTF-8"):
        source_of(tmp_path, "a,b\n1,2\n".encode("utf-16"))


def test_damaged_archive_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 100)[:-20])
    with pytest.raises(InputError, match="compression is damaged"):
        read(open_reader(path, ["a", "b"]))


def test_fraction_read_ends_at_one(tmp_path: Path) -> None:
    with closing(source_of(tmp_path, "a,b\n1,2\n")) as source:
        list(source)
        assert source.fraction() == 1.0


TABLE = pa.table(
    {
        "low": pa.array([20, None, -5], pa.int64()),
        "wide": pa.array([1, 2**40, 3], pa.int64()),
        "share": [0.3, 0.25, None],
        "day": pa.array([0, 1, 1], pa.date32()),
        "at": pa.array([0, 1_500_000, 0], pa.timestamp("us")),
        "place": pa.array(["North", "South", None]).dictionary_encode(),
        "ok": [True, False, None],
    }
)


def test_written_values_are_plain_and_null_is_empty(tmp_path: Path) -> None:
    sink = open_writer(tmp_path / "out.csv")
    sink.write(TABLE)
    sink.close()
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "low,wide,share,day,at,place,ok",
        "20,1,0.3,1970-01-01,1970-01-01 00:00:00,North,true",
        ",1099511627776,0.25,1970-01-02,1970-01-01 00:00:01.500000,South,false",
        "-5,3,,1970-01-02,1970-01-01 00:00:00,,",
    ]


def test_texts_with_separators_are_quoted(tmp_path: Path) -> None:
    table = pa.table({"a, b": ["x, y", 'say "hi"', "two\nlines", "plain"], "n": [1, 2, 3, 4]})
    sink = open_writer(tmp_path / "out.csv")
    sink.write(table)
    sink.close()
    read_back = pacsv.read_csv(tmp_path / "out.csv", parse_options=pacsv.ParseOptions(newlines_in_values=True))
    assert read_back.equals(table)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_bytes_depend_on_rows_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(line_files, "CHUNK_ROWS", 7)
    table = pa.table({"a": list(range(100)), "b": [str(i) if i != 50 else "5,0" for i in range(100)]})
    written = []
    for size in (1, 3, 7, 100):
        sink = open_writer(tmp_path / f"out{ending}")
        for start in range(0, 100, size):
            sink.write(table.slice(start, size))
        sink.close()
        written.append((tmp_path / f"out{ending}").read_bytes())
    assert len(set(written)) == 1
    assert pacsv.read_csv(tmp_path / f"out{ending}")["a"].to_pylist() == list(range(100))


def test_empty_table_gives_a_header(tmp_path: Path) -> None:
    sink = open_writer(tmp_path / "out.csv")
    sink.write(TABLE.slice(0, 0))
    sink.close()
    assert (tmp_path / "out.csv").read_text() == "low,wide,share,day,at,place,ok\n"


CELLS = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=30), block_bytes=st.integers(40, 400))
def test_output_of_any_csv_writer_is_read_back(rows: list[tuple[str, str, str]], block_bytes: int) -> None:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("a", "b", "c"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(content.getvalue().encode())
        with mock.patch.dict(line_files.LineBlocks.__init__.__kwdefaults__, {"block_bytes": block_bytes}):
            source = open_reader(path, ["c", "a"])
            assert read(source) == [{"c": c or None, "a": a or None} for a, _, c in rows]
    assert source.malformed == 0


@given(content=st.text(st.sampled_from('ab,"\n\r'), max_size=400).map(str.encode) | st.binary(max_size=400))
def test_any_content_is_read_to_the_end(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(b"a,b\n" + content)
        with mock.patch.dict(line_files.LineBlocks.__init__.__kwdefaults__, {"block_bytes": 50}):
            source = open_reader(path, ["b"])
            found = len(read(source)) + source.malformed
    assert found <= len(content) + 1


def test_file_with_carriage_returns_only_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"a,b\r1,2\r3,4\r")
    with pytest.raises(InputError, match=r"old\.csv cannot be read: the first line .*, its lines must end in"):
        CsvReader(path, ["a", "b"], 10)


def test_file_with_an_endless_first_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "blob.csv"
    path.write_bytes(b"x" * 200_000)
    with pytest.raises(InputError, match=r"blob\.csv cannot be read: the first line must name the columns$"):
        CsvReader(path, ["a", "b"], 10)


@pytest.mark.parametrize("note", ["a comma, here", 'a "quote"', "two\nlines", "two\rlines"])
def test_value_is_written_the_same_beside_any_other(note: str) -> None:
    """Readers tell groups by the published text: one text with a comma must not change how a box is written."""
    box = {
        "born_min": pa.array([dt.datetime(2026, 2, 27), dt.datetime(2026, 2, 27, 1, 2, 3, 4)], pa.timestamp("us")),
        "day": pa.array([dt.date(2026, 2, 27), None]),
        "height": [1.5, 2.0],
        "age_min": [20, 25],
        "well": [True, False],
    }
    quoted = '"' + note.replace('"', '""') + '"'
    plain, beside = (bytes(render(pa.table({**box, "note": [one] * 2}))).decode() for one in ("*", note))
    assert beside.replace(quoted, "*") == plain
