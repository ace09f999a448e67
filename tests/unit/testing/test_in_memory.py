"""Sources and sinks in memory, beyond the contract suites."""

import pyarrow as pa
import pytest

from castleguard.errors import UnavailableError
from castleguard.testing.in_memory import MemoryLog, MemoryParts, MemoryReader, MemorySink, MemorySource, MemoryWriter

TABLE = pa.table({"a": [1, 2, 3]})


def test_log_is_read_after_an_outage() -> None:
    log = MemoryLog(TABLE.schema, outages=2)
    log.add(TABLE)
    source = MemorySource(log)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            source.read(0.0)
    read = source.read(0.0)
    assert read is not None
    assert read.rows.num_rows == 3


def test_lag_counts_unread_rows() -> None:
    log = MemoryLog(TABLE.schema)
    log.add(TABLE, TABLE)
    log.add_bad(b"x")
    source = MemorySource(log, batch_rows=2)
    lags = [source.lag()]
    while source.read(0.0) is not None:
        lags.append(source.lag())
    assert lags == [6, 4, 3, 1, 0, 0]


def test_acknowledged_positions_are_recorded() -> None:
    source = MemorySource(MemoryLog(TABLE.schema))
    source.acknowledge({"entry": 0, "row": 0})
    assert source.acknowledged == [{"entry": 0, "row": 0}]
    source.close()
    assert source.closed


def test_sink_without_exactly_once_stores_repeated_deliveries() -> None:
    for exactly_once, rows in ((True, 3), (False, 6)):
        parts = MemoryParts()
        sink = MemorySink(parts, exactly_once=exactly_once)
        sink.deliver(1, TABLE)
        sink.deliver(1, TABLE)
        assert parts.table().num_rows == rows
        assert sink.last() == (1 if exactly_once else 0)


def test_events_around_a_delivery_can_be_scripted() -> None:
    parts = MemoryParts()
    seen: list[tuple[str, int, int]] = []
    sink = MemorySink(parts, happens=lambda moment, number: seen.append((moment, number, len(parts.delivered))))
    sink.deliver(7, TABLE)
    assert seen == [("before", 7, 0), ("after", 7, 1)]
    sink.close()
    assert sink.closed


def test_reader_yields_all_rows_in_order() -> None:
    source = MemoryReader([TABLE.slice(0, 1), TABLE.slice(1)])
    assert pa.Table.from_batches(list(source)).equals(TABLE)
    source.close()
    assert source.closed


def test_writer_discards_its_tables_when_aborted() -> None:
    sink = MemoryWriter()
    sink.write(TABLE)
    sink.abort()
    assert sink.aborted
    assert sink.tables == []


def test_writer_keeps_its_tables_if_aborted_after_closing() -> None:
    sink = MemoryWriter()
    sink.write(TABLE)
    sink.close()
    sink.abort()
    assert sink.table().equals(TABLE)
