"""The source and the sink in memory keep the contract."""

import pyarrow as pa

from castleguard.testing.memory import MemoryReader, MemoryWriter

TABLE = pa.table({"a": [1, 2, 3]})


def test_the_source_yields_all_rows_in_order() -> None:
    source = MemoryReader([TABLE.slice(0, 1), TABLE.slice(1)])
    assert pa.Table.from_batches(list(source)).equals(TABLE)
    source.close()
    assert source.closed


def test_the_sink_keeps_what_was_written_and_forgets_it_when_aborted() -> None:
    sink = MemoryWriter()
    sink.write(TABLE)
    sink.abort()
    assert sink.aborted
    assert sink.tables == []


def test_abort_after_close_changes_nothing() -> None:
    sink = MemoryWriter()
    sink.write(TABLE)
    sink.close()
    sink.abort()
    assert sink.table().equals(TABLE)
