"""A delivery keeps the promise that a sink gave before the commit."""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from castleguard.connectors import files
from castleguard.connectors.formats import Format as FileFormat
from castleguard.connectors.formats import open_writer
from castleguard.connectors.holding import check_held
from castleguard.connectors.payloads import Format, check_payloads, write_payloads
from castleguard.errors import OutputError

DAY = dt.datetime(2020, 2, 29, 12)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [1, 0, None]) for kind in (pa.int8(), pa.int64(), pa.uint8(), pa.uint64())),
    *((kind, [1.5, float("nan"), float("inf"), None]) for kind in (pa.float16(), pa.float32(), pa.float64())),
    (pa.bool_(), [True, False, None]),
    (pa.null(), [None, None]),
    *((kind, ["", 'a,"b"\n', "\x00", "ü", None]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"", b"\xff", None]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), [b"\xff\xfe", None]),
    *((kind, [DAY.date(), None]) for kind in (pa.date32(), pa.date64())),
    *((pa.time32(unit), [DAY.time(), None]) for unit in ("s", "ms")),
    *((pa.time64(unit), [DAY.time(), None]) for unit in ("us", "ns")),
    *((pa.duration(unit), [dt.timedelta(days=1), None]) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit), [DAY, None]) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp("us", zone), [0, None]) for zone in ("UTC", "Europe/Berlin", "+02:00", "Mars/Base", "")),
    *((pa.timestamp("s", zone), [0, None]) for zone in ("Asia/Kathmandu", "nowhere")),
    *((kind, [Decimal(100), None]) for kind in (pa.decimal128(10, 2), pa.decimal128(9, -2), pa.decimal256(50, 3))),
    *((kind, [Decimal(1), None]) for kind in (pa.decimal32(5, 1), pa.decimal64(10, 1))),
    (pa.month_day_nano_interval(), [(1, 2, 3), None]),
    (pa.list_(pa.string()), [["a"], [], None]),
    (pa.list_(pa.null()), [[None], None]),
    (pa.large_list(pa.int64()), [[1], None]),
    (pa.list_(pa.int64(), 2), [[1, 2], None]),
    (pa.list_view(pa.int64()), [[1], None]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None]),
    (pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
    (pa.struct([("a", pa.struct([]))]), [{"a": {}}, None]),
    (pa.struct([]), [{}, None]),
    (pa.list_(pa.month_day_nano_interval()), [[(1, 2, 3)], None]),
    (pa.list_(pa.decimal128(9, -2)), [[Decimal(100)], None]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None]),
]


def _column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.array(values, pa.int64()).view(kind)  # a zone need not exist
    return pa.array(values, kind)


COLUMNS = {str(kind): _column(kind, values) for kind, values in VALUES}


def _holds(check: Callable[[], None]) -> bool:
    try:
        check()
    except OutputError as exc:
        refusal = str(exc)
    else:
        return True
    assert re.fullmatch(r".*: column 'x' is of type .*, which .* cannot hold: convert it before, .*", refusal)
    return False


@pytest.mark.parametrize("format", get_args(FileFormat))
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_file_holds_exactly_the_promised_columns(tmp_path: Path, column: pa.Array, format: FileFormat) -> None:
    table = pa.table({"x": column, "y": range(len(column))})
    promised = _holds(lambda: check_held(table.schema, format, "a sink"))
    writer = open_writer(tmp_path / f"data.{format}")
    try:
        writer.write(table)
        writer.close()
    except OutputError:
        assert not promised
        writer.abort()
    else:
        assert promised


@pytest.mark.parametrize("format", get_args(Format))
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_messages_hold_exactly_the_promised_columns(column: pa.Array, format: Format) -> None:
    table = pa.table({"x": column, "y": range(len(column))})
    if _holds(lambda: check_payloads(format, table.schema, "a sink")):
        assert write_payloads(format, table)
        assert write_payloads(format, table.select(["x"]))


@pytest.mark.parametrize("connector", [files.CSV, files.JSONL, files.PARQUET, files.ARROW])
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_file_sink_delivers_the_promised_columns(tmp_path: Path, column: pa.Array, connector: Any) -> None:
    table = pa.table({"x": column, "y": range(len(column))})
    sink = connector.open_sink(connector.sink_options(path=tmp_path / "out"))
    if _holds(lambda: sink.check(table.schema)):
        sink.deliver(1, table)
        assert sink.last() == 1
    else:
        assert sink.last() == 0


def test_duplicate_column_names_are_refused() -> None:
    columns = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(OutputError, match="two columns would be published as 'a'"):
        check_held(columns, "parquet", "out")


def test_message_names_only_formats_that_help() -> None:
    with pytest.raises(OutputError, match="publish to Arrow, or"):
        check_held(pa.schema([("x", pa.month_day_nano_interval())]), "csv", "out")
    with pytest.raises(OutputError, match="publish to Parquet or Arrow, or"):
        check_held(pa.schema([("x", pa.list_(pa.int64()))]), "csv", "out")
