"""Messages of brokers: rows and bad messages, both independent of neighbours."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors.csv_options import CsvOutput
from castleguard.connectors.payloads import Format, Payloads, read_payloads, write_payloads
from castleguard.errors import OutputError

COLUMNS = ["a", "b"]
GOOD_JSON = b'{"b": 2, "a": "x"}'
GOOD_CSV = b"x,-,2"
DEEP = b'{"a": "x", "c": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def read_json(*payloads: bytes) -> Payloads:
    return read_payloads("json", payloads, COLUMNS)


def read_csv(*payloads: bytes) -> Payloads:
    return read_payloads("csv", payloads, COLUMNS, ["a", "c", "b"])


def read_arrow(*payloads: bytes) -> Payloads:
    return read_payloads("arrow", payloads, COLUMNS)


def pairs(read: Payloads) -> list[tuple[Any, Any]]:
    return [(row["a"], row["b"]) for row in read.rows.to_pylist()]


def stream(table: pa.Table) -> bytes:
    return write_payloads("arrow", table)[0]


def test_json_values_are_text_and_a_missing_key_is_null() -> None:
    read = read_json(GOOD_JSON, b'{"a": null, "c": 1}', b'{"a": "y", "b": 3}')
    assert read.rows.schema == pa.schema([("a", pa.string()), ("b", pa.string())])
    assert pairs(read) == [("x", "2"), (None, None), ("y", "3")]
    assert read.message.tolist() == [0, 1, 2]
    assert read.bad == ()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_json_message_may_hold_several_lines(end: bytes) -> None:
    read = read_json(GOOD_JSON, b'{"a": "y"}\n\n {"a": "z"} ' + end, GOOD_JSON)
    assert pairs(read) == [("x", "2"), ("y", None), ("z", None), ("x", "2")]
    assert read.message.tolist() == [0, 1, 1, 2]


def test_json_object_may_be_laid_out_over_several_lines() -> None:
    read = read_json(b'\xef\xbb\xbf{\r\n  "a": "x",\r\n  "b": {\n"c": 1}\n}\n')
    assert pairs(read) == [("x", '{"c": 1}')]


@pytest.mark.parametrize(
    "bad",
    [
        b"oops",
        b"3",
        b"[1]",
        b'{"a": 1',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\0{"a": 2}',
        b'{"a": 1} x',
        b'"a": 1}',
        b'{"a": "\xff"}',
        rb'{"a": "\ud800"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
@pytest.mark.parametrize("others", [1, 600])
def test_message_that_is_not_a_json_object_is_bad_and_others_are_read(bad: bytes, others: int) -> None:
    read = read_json(*[GOOD_JSON] * others, bad, b'{"a": "y"}')
    assert pairs(read) == [("x", "2")] * others + [("y", None)]
    assert read.message.tolist() == [*range(others), others + 1]
    assert [(one.place, one.raw) for one in read.bad] == [(others, bad)]


def test_two_broken_halves_of_an_object_are_two_bad_messages() -> None:
    """Concatenated, the messages would hold as many objects as there are messages."""
    read = read_json(b'{"a": "x"', b',"b": 1}', b'{"a": "y"}{"a": "z"}', b'{"a": {}', b'{"b": 1}')
    assert pairs(read) == [(None, "1")]
    assert read.message.tolist() == [4]
    assert [one.place for one in read.bad] == [0, 1, 2, 3]


def test_deep_nesting_is_bad_in_any_key() -> None:
    for payloads in ([GOOD_JSON, DEEP], [DEEP], [DEEP, b"oops"], [GOOD_JSON] * 600 + [DEEP]):
        read = read_json(*payloads)
        assert read.rows.num_rows == payloads.count(GOOD_JSON)
        assert DEEP in [one.raw for one in read.bad]


def test_bad_line_costs_only_that_line_of_its_message() -> None:
    read = read_json(b'{"a": "x"}\noops\n{"a": "y"}')
    assert pairs(read) == [("x", None), ("y", None)]
    assert [(one.place, one.reason, one.raw) for one in read.bad] == [(0, "it is not one JSON object", b"oops")]


@pytest.mark.parametrize("reader", [read_json, read_csv, read_arrow])
@pytest.mark.parametrize("empty", [b"", b"\n", b"\r\n\r\n"])
def test_empty_message_is_bad(reader: Any, empty: bytes) -> None:
    read = reader(empty)
    assert read.rows.num_rows == 0
    assert read.rows.schema.names == COLUMNS
    assert [(one.place, one.raw) for one in read.bad] == [(0, empty)]


@pytest.mark.parametrize("reader", [read_json, read_csv, read_arrow])
def test_no_messages_give_no_rows(reader: Any) -> None:
    read = reader()
    assert (read.rows.num_rows, read.rows.schema.names, read.message.size, read.bad) == (0, COLUMNS, 0, ())


def test_csv_values_are_positional_and_empty_is_null() -> None:
    read = read_csv(GOOD_CSV, b',,""', b'"a ""b"", c",,3\r\n')
    assert pairs(read) == [("x", "2"), (None, None), ('a "b", c', "3")]
    assert read.message.tolist() == [0, 1, 2]


def test_csv_message_may_hold_several_lines_and_line_ends_in_quotes() -> None:
    read = read_csv(b"x,,1\ny,,2\n", b'"two\nlines",,3\r\nz,,4', GOOD_CSV)
    assert pairs(read) == [("x", "1"), ("y", "2"), ("two\nlines", "3"), ("z", "4"), ("x", "2")]
    assert read.message.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    "bad",
    [b"1,2", b"1,2,3,4", b'1,2,"3', b'"1,2,3', b"1,2\r3,4", b"1,2,3\r4,5,6", b"\xff,2,3", b"1\0", b'1,"2,3\n'],
)
@pytest.mark.parametrize("others", [1, 600])
def test_message_that_is_not_a_csv_row_is_bad_and_others_are_read(bad: bytes, others: int) -> None:
    read = read_csv(*[GOOD_CSV] * others, bad, b'y,,"4"')
    assert pairs(read) == [("x", "2")] * others + [("y", "4")]
    assert read.message.tolist() == [*range(others), others + 1]
    assert [one.place for one in read.bad] == [others]
    assert read.bad[0].raw == bad.strip()


def test_byte_that_is_not_utf8_matters_only_in_declared_values() -> None:
    read = read_csv(b"x,\xff,2", "\ufffd,,3".encode(), b"\xff,,4")
    assert pairs(read) == [("x", "2"), ("\ufffd", "3")]
    assert [(one.place, one.reason) for one in read.bad] == [(2, "it is not UTF-8")]


@pytest.mark.parametrize("position", [0, 1])
def test_byte_order_mark_is_not_part_of_a_value(position: int) -> None:
    payloads = [GOOD_CSV, GOOD_CSV]
    payloads[position] = b"\xef\xbb\xbf" + GOOD_CSV
    assert pairs(read_csv(*payloads)) == [("x", "2")] * 2


def test_arrow_columns_keep_their_types_and_other_columns_are_left_out() -> None:
    table = pa.table({"b": [1.5, 2.5], "c": [[1], [2]], "a": pa.array(["x", "y"]).dictionary_encode()})
    read = read_arrow(stream(table), stream(table.slice(1)))
    assert read.rows.schema == pa.schema([("a", pa.string()), ("b", pa.float64())])
    assert pairs(read) == [("x", 1.5), ("y", 2.5), ("y", 2.5)]
    assert read.message.tolist() == [0, 0, 1]


def test_arrow_column_of_several_types_is_text_in_all_messages() -> None:
    """A person is the same whether the number arrives as an integer, a float or a text."""
    tables = [
        pa.table({"a": pa.array([12], pa.int32()), "b": pa.array([None], pa.null())}),
        pa.table({"a": [12.0], "b": [1]}),
        pa.table({"a": ["12"], "b": [2]}),
    ]
    read = read_arrow(*map(stream, tables))
    assert pairs(read) == [("12", None), ("12", 1), ("12", 2)]


def test_arrow_message_without_rows_is_neither_a_row_nor_bad() -> None:
    table = pa.table({"a": ["x"], "b": [1]})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema):
        pass
    read = read_arrow(out.getvalue().to_pybytes(), stream(table))
    assert (pairs(read), read.message.tolist(), read.bad) == ([("x", 1)], [1], ())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"oops", "not an Arrow stream"),
        (b"\xff" * 100, "not an Arrow stream"),
        (stream(pa.table({"a": ["x"]})), "does not have one column 'b'"),
        (stream(pa.table([["x"], [1], [2]], names=["a", "b", "b"])), "does not have one column 'b'"),
        (stream(pa.table({"a": [["x"]], "b": [1]})), "column 'a' is nested"),
        (stream(pa.table({"a": ["x"], "b": [1]}))[:-40], "damaged"),
    ],
)
def test_message_that_is_not_an_arrow_stream_is_bad_and_others_are_read(bad: bytes, reason: str) -> None:
    good = stream(pa.table({"a": ["x"], "b": [1]}))
    read = read_arrow(good, bad, good)
    assert pairs(read) == [("x", 1), ("x", 1)]
    assert read.message.tolist() == [0, 2]
    assert [one.place for one in read.bad] == [1]
    assert reason in read.bad[0].reason


def test_offsets_that_point_outside_of_an_arrow_message_are_found() -> None:
    good = stream(pa.table({"a": ["x" * 20], "b": [1]}))
    offsets = np.array([0, 20], np.int32).tobytes() + b"x" * 20
    assert good.count(offsets) == 1
    assert len(read_arrow(good.replace(offsets, np.array([0, 2**30], np.int32).tobytes() + b"x" * 20)).bad) == 1


def test_repr_of_payloads_shows_no_values() -> None:
    read = read_json(b'{"a": "secret-value"}', b"secret-oops")
    assert "secret" not in repr(read) + repr(read.bad)


PUBLISHED = pa.table(
    {
        "n": pa.array([1, None, 3]),
        "x": pa.array([0.5, float("nan"), None]),
        "s": pa.array(['say "hi",\nthere é', "", None]),
        "t": pa.array([0, None, 1], pa.timestamp("s")),
    }
)


def test_json_messages_are_one_object_per_row() -> None:
    assert [json.loads(message) for message in write_payloads("json", PUBLISHED)] == [
        {"n": 1, "x": 0.5, "s": 'say "hi",\nthere é', "t": "1970-01-01 00:00:00"},
        {"n": None, "x": None, "s": "", "t": None},
        {"n": 3, "x": None, "s": None, "t": "1970-01-01 00:00:01"},
    ]


def test_csv_messages_are_one_line_per_row_with_quotes_where_needed() -> None:
    assert write_payloads("csv", PUBLISHED) == [
        '1,0.5,"say ""hi"",\nthere é",1970-01-01 00:00:00'.encode(),
        b",nan,,",
        b"3,,,1970-01-01 00:00:01",
    ]


def test_row_of_one_empty_value_is_still_a_message() -> None:
    messages = write_payloads("csv", pa.table({"a": ["x", None, ""]}))
    assert messages == [b"x", b'""', b'""']
    assert read_payloads("csv", messages, ["a"], ["a"]).rows.column(0).to_pylist() == ["x", None, None]


def test_arrow_messages_hold_at_most_the_given_number_of_rows() -> None:
    table = pa.table({"a": list(range(10)), "b": ["x"] * 10})
    messages = write_payloads("arrow", table, arrow_rows=4)
    read = read_arrow(*messages)
    assert read.message.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert pa.table(read.rows.to_pydict()).equals(table)


def test_arrow_messages_stay_below_the_limit_of_brokers() -> None:
    table = pa.table({"a": ["x" * 1000] * 3000 + ["y" * 2_000_000], "b": list(range(3001))})
    messages = write_payloads("arrow", table)
    assert [len(message) > 1_000_000 for message in messages] == [False] * (len(messages) - 1) + [True]
    assert read_arrow(*messages).rows.column(1).to_pylist() == list(range(3001))


@pytest.mark.parametrize("format", ["json", "csv", "arrow"])
def test_empty_table_has_no_messages(format: Format) -> None:
    assert write_payloads(format, PUBLISHED.slice(0, 0)) == []


@pytest.mark.parametrize("format", ["json", "csv"])
def test_nested_column_cannot_be_written(format: Format) -> None:
    with pytest.raises(OutputError, match=f"column 'a' is of type list.*, which {format.upper()} cannot hold"):
        write_payloads(format, pa.table({"a": [[1]]}))


TEXTS = st.text(max_size=5) | st.sampled_from(["", '"', ",", "\n", "\r", "\\", "é", "\x00"])


@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
@pytest.mark.parametrize("format", ["json", "csv"])
def test_messages_round_trip(format: Format, rows: list[tuple[str, str]]) -> None:
    table = pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})
    read = read_payloads(format, write_payloads(format, table, csv=CsvOutput(formulas="keep")), COLUMNS, COLUMNS)
    expected = rows if format == "json" else [(a or None, b or None) for a, b in rows]
    assert (pairs(read), read.bad) == (expected, ())


HOSTILE = {
    "json": st.sampled_from('{}"a:1,\n[]e.b\\ \r\0').map(str.encode),
    "csv": st.sampled_from('a1,"\n\r \0\ufeff').map(str.encode),
}


def hostile(format: str) -> st.SearchStrategy[list[bytes]]:
    pieces = HOSTILE[format] | st.sampled_from([GOOD_JSON, b'{"a":1}', b'{"b":1.5}', GOOD_CSV, b"\xff", b'"x"'])
    return st.lists(st.lists(pieces, max_size=8).map(b"".join) | st.binary(max_size=20), max_size=6)


@given(data=st.data())
@pytest.mark.parametrize("format", ["json", "csv"])
def test_rows_of_a_message_do_not_depend_on_its_neighbours(format: Format, data: st.DataObject) -> None:
    payloads = data.draw(hostile(format))
    order: Sequence[str] = ["a", "c", "b"]
    together = read_payloads(format, payloads, COLUMNS, order)
    alone = [read_payloads(format, [payload], COLUMNS, order) for payload in payloads]
    assert pairs(together) == [pair for one in alone for pair in pairs(one)]
    assert together.message.tolist() == [number for number, one in enumerate(alone) for _ in range(one.rows.num_rows)]
    assert together.bad == tuple(bad._replace(place=number) for number, one in enumerate(alone) for bad in one.bad)
    assert all(one.rows.num_rows + len(one.bad) for one in alone)


@given(payload=st.binary(max_size=60), place=st.integers(0, 400))
def test_damaged_arrow_message_is_bad_or_has_other_values(payload: bytes, place: int) -> None:
    good = stream(pa.table({"a": ["x"], "b": [1]}))
    damaged = good[:place] + payload + good[place + len(payload) :]
    read = read_arrow(damaged, good)
    assert read.message.tolist()[-1] == 1
    assert read.rows.num_rows + len(read.bad) >= 1
