"""Lines that are not rows: their reasons, line numbers and raw bytes."""

import csv
import gzip
import io
import tempfile
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from castleguard.connectors import line_files
from castleguard.connectors.bad_lines import KEPT_BYTES, BadLine, KeepsBadLines
from castleguard.connectors.csv import CsvReader
from castleguard.connectors.formats import Format, open_reader

Found = tuple[list[dict[str, str | None]], list[tuple[int, str, bytes]]]


def found_in(path: Path, columns: str = "a b", *, format: Format = "csv", block_bytes: int = 1 << 20) -> Found:
    """Rows and bad lines of a file; checks that a reader that does not keep bad lines counts the same."""
    with mock.patch.dict(line_files.LineBlocks.__init__.__kwdefaults__, {"block_bytes": block_bytes}):
        rows: list[dict[str, str | None]] = []
        bad: list[BadLine] = []
        with closing(open_reader(path, columns.split(), batch_rows=4, format=format, keep_bad=True)) as reader:
            assert isinstance(reader, KeepsBadLines)
            for batch in reader:
                rows += batch.to_pylist()
                bad += reader.take_bad()
            assert reader.take_bad() == []
            assert reader.malformed == len(bad)
        with closing(open_reader(path, columns.split(), batch_rows=4, format=format)) as counting:
            assert [row for batch in counting for row in batch.to_pylist()] == rows
            assert counting.malformed == len(bad)
    return rows, [(line.place, line.reason, line.raw) for line in bad]


def csv_of(folder: Path, content: bytes, columns: str = "a b") -> list[tuple[int, str, bytes]]:
    path = folder / "in.csv"
    path.write_bytes(content)
    return found_in(path, columns)[1]


def jsonl_of(folder: Path, content: bytes) -> list[tuple[int, str, bytes]]:
    path = folder / "in.jsonl"
    path.write_bytes(content)
    return found_in(path, "a", format="jsonl")[1]


def test_wrong_number_of_values_is_reported(tmp_path: Path) -> None:
    assert csv_of(tmp_path, b'a,b\n1\n1,2\n\n1,"2, 3",4\r\n3,4\n1,2,3,4\n') == [
        (2, "1 value instead of 2", b"1"),
        (5, "3 values instead of 2", b'1,"2, 3",4'),
        (7, "4 values instead of 2", b"1,2,3,4"),
    ]


def test_unclosed_quote_is_reported(tmp_path: Path) -> None:
    content = b'a,b,c\n1,2,3\n4,"5,6\n7,8,9\n'
    assert csv_of(tmp_path, content) == [(3, "an unclosed quote", b'4,"5,6')]


def test_adjacent_bad_lines_have_their_own_numbers(tmp_path: Path) -> None:
    assert [line for line, _, _ in csv_of(tmp_path, b"a,b\n1,2\nx\ny\n\nz\n")] == [3, 4, 6]
    assert [line for line, _, _ in jsonl_of(tmp_path, b'{"a": 1}\nx\ny\n\nz\n')] == [2, 3, 5]


@pytest.mark.parametrize(
    ("content", "good", "bad"),
    [
        (b'1,"x\ny",2\n3,"stray,4\n5,6,7\n', [("1", "x\ny"), ("5", "6")], [4]),
        (b'3,"stray,4\n1,"x\ny",2\n5,6,7\n', [("5", "6")], [2, 3, 4]),
        (b'1,"stray,2\n3,4,5\n6,"stray,7\n8,9,10\n', [("3", "4"), ("8", "9")], [2, 4]),
        (b'1,2,"stray\n3,4,5\n6,"x\ny",7\n8,9,10\n', [("1", "2"), ("3", "4"), ("8", "9")], [4, 5]),
    ],
    ids=["behind", "before", "two strays", "in the last value"],
)
def test_stray_quote_never_merges_rows(
    tmp_path: Path, content: bytes, good: list[tuple[str, str]], bad: list[int]
) -> None:
    """At most it costs the lines of an adjacent value with several lines; they are counted."""
    (tmp_path / "in.csv").write_bytes(b"a,b,c\n" + content)
    rows, lines_ = found_in(tmp_path / "in.csv")
    assert [(row["a"], row["b"]) for row in rows] == good
    assert [line for line, _, _ in lines_] == bad


@pytest.mark.parametrize("every", [1, 2, 10])
def test_stray_quotes_cost_no_more_than_other_bad_lines(tmp_path: Path, every: int) -> None:
    """Measured by the number of parser calls: each costs more than a thousand lines."""
    rows = [b'%d,"stray,2' % row if row % every == 0 else b"%d,x,2" % row for row in range(20_000)]
    (tmp_path / "in.csv").write_bytes(b"a,b,c\n" + b"\n".join(rows) + b"\n")
    with mock.patch.object(CsvReader, "_parse", autospec=True, side_effect=CsvReader._parse) as parsed:
        good, bad = found_in(tmp_path / "in.csv")
    assert parsed.call_count <= 6
    assert len(bad) == 20_000 // every
    assert [line for line, _, _ in bad[:2]] == [2, 2 + every]
    assert {reason for _, reason, _ in bad} == {"an unclosed quote"}
    assert len(good) == 20_000 - 20_000 // every


def test_stray_quotes_and_other_bad_lines_keep_their_order(tmp_path: Path) -> None:
    found = csv_of(tmp_path, b'a,b\n1\n"2,x\n3,4\n5,6,7\n8,"9\n"10\n11,12\n')
    assert [(line, reason) for line, reason, _ in found] == [
        (2, "1 value instead of 2"),
        (3, "an unclosed quote"),
        (5, "3 values instead of 2"),
        (7, "an unclosed quote"),
    ]


def test_quote_inside_a_plain_value_is_not_reported_as_unclosed(tmp_path: Path) -> None:
    assert csv_of(tmp_path, b'a,b\n5" pipe\n1,2\n') == [(2, "1 value instead of 2", b'5" pipe')]


def test_value_that_is_not_utf8_is_reported_with_its_bytes(tmp_path: Path) -> None:
    content = b'a,b,c\n1,x,\xff\n2,\xff,"x\ny"\n3,\xc3\xa9,x\n\xff\n4,"\xe9 ""z\n","w"\n5,\xfe,6\n'
    assert csv_of(tmp_path, content) == [
        (3, "not UTF-8", b'2,\xff,"x\ny"'),
        (6, "1 value instead of 3", b"\xff"),
        (7, "not UTF-8", b'4,"\xe9 ""z\n","w"'),
        (9, "not UTF-8", b"5,\xfe,6"),
    ]


def test_beginning_of_an_overlong_line_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "LONGEST_LINE", 1 << 17)
    long = b"3," + b"x" * (1 << 18)
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n1,2\n" + long + b"\n5,6\n7\n")
    rows, bad = found_in(path, block_bytes=1 << 16)
    assert [row["a"] for row in rows] == ["1", "5"]
    assert bad == [(3, "longer than 16 MiB", long[:KEPT_BYTES]), (5, "1 value instead of 2", b"7")]


def test_overlong_last_line_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "LONGEST_LINE", 100)
    for name, start in (("in.csv", b"a\n1\n"), ("in.jsonl", b'{"a": 1}\n')):
        (tmp_path / name).write_bytes(start + b"x" * 1000)
        format: Format = "csv" if name == "in.csv" else "jsonl"
        line = 1 + start.count(b"\n")
        found = found_in(tmp_path / name, "a", format=format, block_bytes=50)[1]
        assert found == [(line, "longer than 16 MiB", mock.ANY)]


def test_bad_lines_are_handed_out_without_any_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n" + b"1,2,3\n" * 1000)
    monkeypatch.setattr(line_files.LineBlocks.__init__, "__kwdefaults__", {"stream": None, "block_bytes": 60})
    with closing(open_reader(path, ["a"], keep_bad=True)) as reader:
        assert isinstance(reader, KeepsBadLines)
        sizes = [len(reader.take_bad()) for _ in reader]
    assert sum(sizes) == 1000
    assert max(sizes) <= 20


def test_line_that_is_not_a_json_object_is_reported(tmp_path: Path) -> None:
    content = b'{"a": 1\n{"a": 1}\n[1]\n\n"x"\n{"a": "\xff"}\n{"a": 2}\n{"a": "\\ud800"}\n' + b"[" * 5000 + b"\n"
    assert jsonl_of(tmp_path, content) == [
        (1, "not a JSON object", b'{"a": 1'),
        (3, "not a JSON object", b"[1]"),
        (5, "not a JSON object", b'"x"'),
        (6, "not UTF-8", b'{"a": "\xff"}'),
        (8, "half of a surrogate pair", b'{"a": "\\ud800"}'),
        (9, "not a JSON object", b"[" * 5000),
    ]


def test_lines_of_compressed_files_are_kept_uncompressed(tmp_path: Path) -> None:
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3\n"))
    assert found_in(path)[1] == [(3, "1 value instead of 2", b"3")]


def test_repr_never_shows_a_line() -> None:
    assert repr(BadLine(3, "not UTF-8", b"Zanzibar")) == "BadLine(3: not UTF-8)"


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.translate(None, b'\r\n"')), max_size=40)
"""Any text without quotes: every line is a row, a bad line, or blank."""


@given(content=LINES, block_bytes=st.integers(20, 200))
def test_every_line_is_a_row_or_a_bad_line_in_its_place(content: list[bytes], block_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(b"a,b\n" + b"\n".join(content))
        rows, bad = found_in(path, block_bytes=block_bytes)
    expected_bad, good = [], 0
    for number, line in enumerate(content, 2):
        try:
            fine = line.count(b",") == 1 and line.decode() is not None
        except UnicodeDecodeError:
            fine = False
        if fine:
            good += 1
        elif line:
            expected_bad.append((number, line))
    assert [(number, raw) for number, _, raw in bad] == expected_bad
    assert len(rows) == good


CELLS = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS) | st.tuples(CELLS, st.just("\udcff")), max_size=20)


@given(rows=ROWS, block_bytes=st.integers(40, 400))
def test_row_that_is_not_utf8_is_found_after_quoted_line_ends(rows: list[tuple[str, str]], block_bytes: int) -> None:
    written = []
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL).writerow(row)
        written.append(line.getvalue().encode(errors="surrogateescape"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(b"\n".join([b"a,b", *written]))
        found, bad = found_in(path, block_bytes=block_bytes)
    expected, number = [], 2
    for row, raw in zip(rows, written, strict=True):
        if row[1] == "\udcff":
            expected.append((number, raw))
        number += len(raw.splitlines())
    assert [(at, raw) for at, _, raw in bad] == expected
    assert found == [{"a": a or None, "b": b or None} for a, b in rows if b != "\udcff"]


@given(content=st.text(st.sampled_from('ab,"\n\r\udcff'), max_size=200))
@example('\r"\na')
def test_counts_agree_for_any_content(content: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_bytes(b"a,b\n" + content.encode(errors="surrogateescape"))
        _, bad = found_in(path, block_bytes=50)
    assert all(reason for _, reason, _ in bad)
    assert [line for line, _, _ in bad] == sorted({line for line, _, _ in bad}), "each has its own"
