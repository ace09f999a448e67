"""The promises of `connectors/base.py` about sinks, tested on every sink."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from castleguard.connectors.base import Sink
from castleguard.errors import OutputError
from tests.contract.sinks import SINKS, Killed, SinkAdapter, moments_of

DEATHS = [(name, moment) for name, make in SINKS.items() for moment in moments_of(make)]


@pytest.fixture(params=SINKS)
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkAdapter]:
    """Every sink."""
    adapter: SinkAdapter = SINKS[request.param](tmp_path)
    yield adapter
    adapter.close()


def segment(number: int, rows: int = 3) -> pa.Table:
    """The rows of a segment; no row occurs in two segments."""
    return pa.table({"n": [100 * number + row for row in range(rows)], "s": [f"segment {number}, x"] * rows})


def numbers(adapter: SinkAdapter) -> list[int]:
    return [int(row["n"]) for row in adapter.rows()]


def expected(*segments: int) -> list[int]:
    return [value for number in segments for value in segment(number)["n"].to_pylist()]


def deliver_if_missing(sink: Sink, number: int) -> None:
    """Deliver a stored segment as a job does after a restart."""
    if sink.last() < number:
        sink.deliver(number, segment(number))


def test_new_one_is_empty(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    assert sink.last() == 0
    assert sink.exactly_once == adapter.exactly_once
    sink.close()


def test_delivered_rows_are_visible(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    for number in (1, 2, 3):
        sink.deliver(number, segment(number))
        assert numbers(adapter) == expected(*range(1, number + 1)), "not only after close"
    sink.close()
    assert [row["s"] for row in adapter.rows()][:3] == ["segment 1, x"] * 3


def test_numbers_may_leave_gaps(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    for number in (4, 7, 1_000_000):
        sink.deliver(number, segment(number))
    sink.close()
    assert numbers(adapter) == expected(4, 7, 1_000_000)
    later = adapter.open()
    assert later.last() == (1_000_000 if adapter.exactly_once else 0)
    later.close()


def test_next_process_continues_after_the_last_segment(adapter: SinkAdapter) -> None:
    for number in (1, 2, 3):
        sink = adapter.open()
        assert sink.last() == (number - 1 if adapter.exactly_once else 0)
        sink.deliver(number, segment(number))
        sink.close()
    assert numbers(adapter) == expected(1, 2, 3)


@pytest.mark.parametrize(("adapter", "moment"), DEATHS, indirect=["adapter"])
def test_crashed_delivery_appears_exactly_once_in_the_end(
    adapter: SinkAdapter, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    sink = adapter.open()
    sink.deliver(1, segment(1))
    with monkeypatch.context() as patch:
        adapter.die_at(moment, patch)
        with pytest.raises(Killed):
            sink.deliver(2, segment(2))
    found = numbers(adapter)
    later = adapter.open()
    if adapter.exactly_once:
        assert found == expected(*range(1, later.last() + 1)), "there as a whole, or not counted"
    deliver_if_missing(later, 2)
    later.deliver(3, segment(3))
    later.close()
    found = numbers(adapter)
    assert set(found) == set(expected(1, 2, 3))
    if adapter.exactly_once:
        assert found == expected(1, 2, 3)


@pytest.mark.parametrize(("adapter", "moment"), DEATHS, indirect=["adapter"])
def test_failed_delivery_can_be_retried_by_the_same_sink(
    adapter: SinkAdapter, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    sink = adapter.open()
    with monkeypatch.context() as patch:
        adapter.die_at(moment, patch)
        with pytest.raises(Killed):
            sink.deliver(1, segment(1))
    sink.deliver(1, segment(1))
    sink.deliver(2, segment(2))
    sink.close()
    found = numbers(adapter)
    assert found == expected(1, 2) if adapter.exactly_once else set(found) == set(expected(1, 2))


def test_table_without_rows_can_be_delivered(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.deliver(1, segment(1).slice(0, 0))
    sink.deliver(2, segment(2))
    sink.close()
    assert numbers(adapter) == expected(2)


def test_table_without_columns_can_be_delivered(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.deliver(1, pa.table({}))
    sink.close()
    assert [row for row in adapter.rows() if row] == []


def test_table_of_several_chunks_is_one_segment(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.deliver(1, pa.concat_tables([segment(1), segment(2), segment(3)]))
    sink.close()
    assert numbers(adapter) == expected(1, 2, 3)


def test_values_keep_their_types_in_typed_sinks(adapter: SinkAdapter) -> None:
    rows: list[dict[str, Any]] = [
        {"n": 2**53 + 1, "x": 0.1, "day": datetime.date(2026, 1, 2), "ok": True, "s": 'a "b"'},
        {"n": -7, "x": None, "day": datetime.date(1900, 1, 1), "ok": False, "s": "ü"},
    ]
    table = pa.Table.from_pylist(rows).set_column(4, "s", pa.array([row["s"] for row in rows]).dictionary_encode())
    sink = adapter.open()
    sink.deliver(1, table)
    sink.close()
    found = adapter.rows()
    if adapter.typed:
        assert found == rows
    else:
        assert [(int(row["n"]), str(row["day"]), row["s"]) for row in found] == [
            (row["n"], str(row["day"]), row["s"]) for row in rows
        ]


def test_closing_twice_is_harmless(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.deliver(1, segment(1))
    sink.close()
    sink.close()
    assert numbers(adapter) == expected(1)


def test_repr_never_shows_delivered_rows(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.deliver(1, segment(1))
    assert "segment" not in repr(sink)
    sink.close()


ODD_TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.string()), [["a"], None]),
    (pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
    (pa.binary(), [b"\xff", None]),
    (pa.month_day_nano_interval(), [(1, 2, 3), None]),
    (pa.decimal128(9, -2), [None, None]),
    (pa.large_string(), ['a,"b', None]),
    (pa.timestamp("s", "Mars/Base"), [None, None]),
]


@pytest.mark.parametrize(("kind", "values"), ODD_TYPES, ids=[str(kind) for kind, _ in ODD_TYPES])
def test_promised_columns_are_delivered(adapter: SinkAdapter, kind: pa.DataType, values: list[Any]) -> None:
    """A sink refuses columns before a commit, in one sentence, or delivers them."""
    sink = adapter.open()
    assert sink.last() == 0
    table = pa.table({"n": [1, 2], "x": pa.array(values, kind)})
    try:
        sink.check(table.schema)
    except OutputError as exc:
        refusal = str(exc)
        assert "column 'x' is of type" in refusal
        assert "\n" not in refusal
    else:
        sink.deliver(1, table)
        assert sink.last() == 1 or not sink.exactly_once
    sink.close()


def test_plain_columns_are_never_refused(adapter: SinkAdapter) -> None:
    sink = adapter.open()
    sink.check(segment(1).schema)
    sink.close()


@pytest.mark.parametrize("sign", ["x", "\x01", '"'])
def test_longest_row_is_delivered(adapter: SinkAdapter, sign: str) -> None:
    """An accepted row must be deliverable in every format."""
    sink = adapter.open()
    sink.last()
    longest = sink.longest_row
    size = len(json.dumps(sign)) - 2
    text = sign * (((longest or 100_000) - len('{"n":1,"s":""}')) // size)
    sink.deliver(1, pa.table({"n": [1], "s": [text]}))
    assert [int(row["n"]) for row in adapter.rows()] == [1]
    sink.close()
