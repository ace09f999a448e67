"""Conversion of a file: the output is complete and in order, or absent."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.conversion import convert
from castleguard.schema.roles import Numeric, Schema
from castleguard.stream import Anonymiser
from castleguard.testing.in_memory import MemoryReader, MemoryWriter

SCHEMA = Schema(person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100)], public=["row"])
POLICY = Castle(k=2, delay=10)


def rows(count: int) -> pa.Table:
    return pa.table({"row": list(range(count)), "pid": list(range(count)), "age": [i % 100 for i in range(count)]})


def test_every_row_is_published_and_both_ends_are_closed() -> None:
    source, sink = MemoryReader([rows(100)]), MemoryWriter()
    convert(source, Anonymiser(SCHEMA, POLICY, seed=1), sink)
    assert sorted(sink.table()["row"].to_pylist()) == list(range(100))
    assert source.closed
    assert sink.closed
    assert not sink.aborted


def test_progress_receives_the_rows_of_every_batch() -> None:
    batch_rows: list[int] = []
    table = rows(50)
    source = MemoryReader([table.slice(0, 20), table.slice(20, 30)])
    convert(source, Anonymiser(SCHEMA, POLICY, seed=1), MemoryWriter(), progress=batch_rows.append)
    assert batch_rows == [20, 30]


def test_empty_source_writes_a_table_with_its_columns() -> None:
    sink = MemoryWriter()
    convert(MemoryReader([]), Anonymiser(SCHEMA, POLICY, seed=1), sink)
    assert sink.closed
    assert sink.table().column_names == ["age_min", "age_max", "row"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_any_error_aborts_the_writer_and_closes_the_reader(error: type[BaseException]) -> None:
    def failing() -> Iterator[pa.Table]:
        yield rows(50)
        raise error

    source, sink = MemoryReader(failing()), MemoryWriter()
    with pytest.raises(error):
        convert(source, Anonymiser(SCHEMA, POLICY, seed=1), sink)
    assert sink.aborted
    assert not sink.closed
    assert sink.tables == []
    assert source.closed
