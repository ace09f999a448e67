"""Dialects of CSV: what another separator, quote, encoding or mark says is read as plain CSV says it."""

import csv
import io
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors.csv_input import CsvInput, parse_csv_input
from castleguard.connectors.files import CSV
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.errors import InputError, OutputError

VALUES = st.text(st.sampled_from("ab1,;|\t'\"\nä€ "), max_size=6)
TABLES = st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=8)


def read(path: Path, columns: list[str], **options: Any) -> list[dict[str, str | None]]:
    with closing(open_reader(path, columns, csv=CsvInput(**options))) as reader:
        rows = [row for batch in reader for row in batch.to_pylist()]
        assert reader.malformed == 0
        return rows


def written(rows: list[list[str]], separator: str, quote: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, quotechar=quote, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *rows])
    return out.getvalue()


@given(
    TABLES, st.sampled_from([",", ";", "|", "\t"]), st.sampled_from(['"', "'"]), st.sampled_from(["utf-8", "utf-16"])
)
def test_every_dialect_says_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], separator: str, quote: str, encoding: str
) -> None:
    path = tmp_path_factory.mktemp("dialect") / "in.csv"
    path.write_bytes(written(rows, separator, quote).encode(encoding))
    found = read(path, ["c", "a", "b"], separator=separator, quote=quote, encoding=encoding)
    assert [[row[name] or "" for name in "abc"] for row in found] == rows


def test_long_files_are_decoded_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    text = "id;näme\r\n" + "".join(f"{n};Zoë; {n}\r\n".replace("; ", "_") for n in range(200_000))
    path.write_bytes(text.encode("utf-16"))
    found = read(path, ["id", "näme"], separator=";", encoding="utf-16")
    assert found == [{"id": str(n), "näme": f"Zoë_{n}"} for n in range(200_000)]


def test_decimal_commas_and_groups_are_read_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a;b\n1.234,5;1,5\n-3,25;1.23\n1.2345;text, 1,5\n,5;\n1.234.567;1e-3\n")
    found = read(path, ["a", "b"], separator=";", decimal=",", thousands=".")
    assert [row["a"] for row in found] == ["1234.5", "-3.25", "1.2345", ".5", "1234567"]
    assert [row["b"] for row in found] == ["1.5", "1.23", "text, 1,5", None, "1e-3"]


def test_dates_of_declared_formats_are_read_as_iso(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a\n12.05.1887\n6/21/1980\n31.02.2000\n12.05.87\n1980-01-02\n")
    found = read(path, ["a"], date_format=["%d.%m.%Y", "%m/%d/%Y"])
    assert [row["a"] for row in found] == ["1887-05-12", "1980-06-21", "31.02.2000", "12.05.87", "1980-01-02"]


def test_times_keep_their_time_of_day(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a\n12.05.1987 08:05\n12.05.1987 8:05\n")
    assert [row["a"] for row in read(path, ["a"], date_format="%d.%m.%Y %H:%M")] == ["1987-05-12 08:05:00"] * 2


def test_null_values_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a;b\nNA;x\n1;N;A\n".replace("N;A", '"N;A"'))
    found = read(path, ["a", "b"], separator=";", null_values=["NA", "N;A"])
    assert found == [{"a": None, "b": "x"}, {"a": "1", "b": None}]


@pytest.mark.parametrize(
    ("header", "names", "rows"),
    [(True, ["a", "b"], 1), (False, ["column_1", "column_2"], 2), (["x", "y"], ["x", "y"], 2)],
)
def test_columns_are_named_by_the_header_or_by_the_options(
    tmp_path: Path, header: bool | list[str], names: list[str], rows: int
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,b\n1,2\n")
    assert len(read(path, names, header=header)) == rows


def test_a_tab_separates_the_values_of_tsv_files(tmp_path: Path) -> None:
    path = tmp_path / "in.tsv"
    path.write_text('a\tb\n1\t2,5\n"x\ty"\t3\n')
    assert read(path, ["a", "b"]) == [{"a": "1", "b": "2,5"}, {"a": "x\ty", "b": "3"}]
    with pytest.raises(OutputError, match=r"end its name in \.csv"):
        open_writer(tmp_path / "out.tsv")


def test_without_quotes_a_quote_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "in.tsv"
    path.write_text('a\tb\n5" disk\t1\n"\t2\n')
    assert [row["a"] for row in read(path, ["a", "b"], quote="none")] == ['5" disk', '"']


def test_bad_lines_are_kept_as_they_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a;b\n1;2\n1,5;2;3\n4;5\n")
    with closing(open_reader(path, ["a", "b"], keep_bad=True, csv=CsvInput(separator=";"))) as reader:
        assert sum(batch.num_rows for batch in reader) == 2
        (bad,) = reader.take_bad()  # type: ignore[attr-defined]
    assert (bad.place, bad.raw) == (3, b"1,5;2;3")


def test_bytes_that_cannot_be_decoded_cost_their_row(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("a;b\n1;x\n2;".encode("cp1252") + b"\x81\n3;z\n")
    with closing(open_reader(path, ["a", "b"], csv=CsvInput(separator=";", encoding="cp1252"))) as reader:
        rows = [row["a"] for batch in reader for row in batch.to_pylist()]
    assert (rows, reader.malformed) == (["1", "3"], 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"separator": "ab"}, "one ASCII character"),
        ({"separator": "a"}, "one ASCII character"),
        ({"quote": "x"}, "quote must be"),
        ({"decimal": ";"}, "decimal must be"),
        ({"decimal": ",", "thousands": ","}, "differ from decimal"),
        ({"encoding": "klingon"}, "unknown"),
        ({"header": ["a", "a"]}, "twice"),
        ({"date_format": "%d.%m.%Y %Z"}, "time zone"),
    ],
)
def test_options_that_are_no_dialect_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        CsvInput(**options)


def test_options_of_a_command_line() -> None:
    found = parse_csv_input(("separator=tab", "null_values=NA", "null_values=-", "header=a,b"))
    assert found.changed() == {"separator": "\t", "header": ["a", "b"], "null_values": ["NA", "-"]}
    with pytest.raises(InputError, match="write one of separator"):
        parse_csv_input(("colour=red",))
    assert CSV.source_options is not None


def test_only_changed_options_are_the_identity_of_a_job() -> None:
    assert str(CsvInput()) == ""
    assert str(CsvInput(separator=";", decimal=",")) == "separator: ';', decimal: ','"
