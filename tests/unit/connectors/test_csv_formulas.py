"""Formulas in every sink of CSV."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from castleguard.connectors import files
from castleguard.connectors.csv_options import CsvOutput, csv_of
from castleguard.connectors.formats import open_writer
from castleguard.connectors.formulas import Formulas
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions
from castleguard.connectors.nats.nats_options import NatsSinkOptions
from castleguard.connectors.payloads import write_payloads
from castleguard.connectors.stdio import StdoutOptions, StdoutSink
from castleguard.errors import OutputError

TABLE = pa.table(
    {
        "-age": pa.array([-5, 6], pa.int64()),
        "income": pa.array([-5.5, None]),
        "city": ["=cmd|' /C calc'!A0", "x"],
        "note": pa.array(["@a,b", "-7"]),
        "kind": pa.array(["+x", "'+x"]).dictionary_encode(),
    }
)
HEADER = {"escape": "'-age,income,city,note,kind\n", "keep": "-age,income,city,note,kind\n"}
ROWS = {
    "escape": "-5,-5.5,'=cmd|' /C calc'!A0,\"'@a,b\",'+x\n6,,x,-7,''+x\n",
    "keep": "-5,-5.5,=cmd|' /C calc'!A0,\"@a,b\",+x\n6,,x,-7,'+x\n",
}

Write = Callable[[pa.Table, CsvOutput, Path], str]


def as_file(table: pa.Table, csv: CsvOutput, folder: Path) -> str:
    writer = open_writer(folder / "out.csv", csv=csv)
    try:
        writer.write(table)
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return (folder / "out.csv").read_text()


def as_part(table: pa.Table, csv: CsvOutput, folder: Path) -> str:
    assert files.CSV.open_sink is not None
    files.CSV.open_sink(files.CsvSinkOptions(path=folder, csv=csv)).deliver(1, table)
    return (folder / "part-000000000001.csv").read_text()


def as_stdout(table: pa.Table, csv: CsvOutput, folder: Path) -> str:
    descriptor = os.open(folder / "out", os.O_WRONLY | os.O_CREAT)
    try:
        StdoutSink(StdoutOptions(format="csv", csv=csv), descriptor).deliver(1, table)
    finally:
        os.close(descriptor)
    return (folder / "out").read_text()


def as_messages(table: pa.Table, csv: CsvOutput, folder: Path) -> str:
    return "".join(f"{message.decode()}\n" for message in write_payloads("csv", table, csv=csv))


WAYS: dict[str, Write] = {"file": as_file, "part": as_part, "stdout": as_stdout, "messages": as_messages}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formulas", ["escape", "keep"])
def test_text_is_escaped_unless_kept_and_numbers_never_are(way: str, formulas: Formulas, tmp_path: Path) -> None:
    header = "" if way == "messages" else HEADER[formulas]
    assert WAYS[way](TABLE, CsvOutput(formulas=formulas), tmp_path) == header + ROWS[formulas]


@pytest.mark.parametrize("way", WAYS)
def test_escaping_is_the_default(way: str, tmp_path: Path) -> None:
    assert WAYS[way](TABLE, CsvOutput(), tmp_path).endswith(ROWS["escape"])
    assert CsvOutput().formulas == "escape"


@pytest.mark.parametrize("way", WAYS)
def test_refused_formulas_are_never_written(way: str, tmp_path: Path) -> None:
    with pytest.raises(
        OutputError, match="column 'city' has text that a spreadsheet would take for a formula"
    ) as caught:
        WAYS[way](TABLE, CsvOutput(formulas="refuse"), tmp_path)
    assert "calc" not in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_string_types_can_be_mixed(way: str, kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(["=x,y", "z"], kind), "b": ["1", "2"]})
    assert WAYS[way](table, CsvOutput(), tmp_path).endswith('"\'=x,y",1\nz,2\n')


@pytest.mark.parametrize(
    "options",
    [
        lambda csv: StdoutOptions(format="jsonl", csv=csv),
        lambda csv: KafkaSinkOptions(brokers="b:1", topic="t", csv=csv),
        lambda csv: NatsSinkOptions(stream="s", subject="t", csv=csv),
    ],
)
def test_csv_section_of_another_format_is_refused(options: Callable[[CsvOutput], object]) -> None:
    options(CsvOutput())
    with pytest.raises(ValueError, match="csv has no effect with format"):
        options(CsvOutput(formulas="keep"))


def test_identity_names_only_changed_options() -> None:
    assert str(CsvOutput()) == ""
    assert {str(CsvOutput(formulas=formulas)) for formulas in get_args(Formulas)} == {
        "",
        "formulas: refuse",
        "formulas: keep",
    }


def test_only_csv_sinks_have_csv_options(tmp_path: Path) -> None:
    assert csv_of(files.CsvSinkOptions(path=tmp_path)) == CsvOutput()
    assert csv_of(StdoutOptions(format="csv")) == CsvOutput()
    assert csv_of(NatsSinkOptions(stream="s", subject="t", format="csv")) == CsvOutput()
    assert csv_of(NatsSinkOptions(stream="s", subject="t")) is None
    assert csv_of(files.FileSinkOptions(path=tmp_path)) is None
