"""Conversion of a file: the output is complete and in order, or absent."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.conversion import convert
from castleguard.errors import SchemaError, UsageError
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


class KnownReader(MemoryReader):
    """A reader that knows how much it has read, as that of a file: it is read in a thread."""

    def fraction(self) -> float | None:
        return 0.5


def in_threads(source: MemoryReader, stream: Anonymiser, sink: MemoryWriter, **options: Any) -> None:
    """Convert as on a machine with two cores, and check that no thread is left."""
    with mock.patch("castleguard.conversion.cores", return_value=2), mock.patch("castleguard.stream._SLICE", 64):
        try:
            convert(source, stream, sink, **options)
        finally:
            assert not [thread for thread in threading.enumerate() if thread.name in ("ahead", "follow")]


def on_one_core(source: MemoryReader, stream: Anonymiser, sink: MemoryWriter) -> None:
    with mock.patch("castleguard.conversion.cores", return_value=1):
        convert(source, stream, sink)


def batches(count: int) -> list[pa.Table]:
    return [rows(count).slice(at, 70) for at in range(0, count, 70)]


@pytest.mark.parametrize("reader", [MemoryReader, KnownReader])
@pytest.mark.parametrize("person", ["pid", None])
def test_threads_change_neither_rows_nor_books(reader: type[MemoryReader], person: str | None) -> None:
    schema = Schema(person=person, quasi_identifiers=SCHEMA.quasi_identifiers, public=["row"])
    one, two = Anonymiser(schema, POLICY, seed=1), Anonymiser(schema, POLICY, seed=1)
    expected, found = MemoryWriter(), MemoryWriter()
    on_one_core(reader(batches(500)), one, expected)
    in_threads(reader(batches(500)), two, found)
    assert found.table().equals(expected.table())
    # A sum of float64, rounded after every slice: short slices may change its last digit.
    loss = one.report().information_loss
    assert replace(two.report(), information_loss=loss) == one.report()
    assert two.report().information_loss == pytest.approx(loss)
    assert found.closed


def test_column_that_gets_its_type_late_is_the_same_in_threads() -> None:
    tables = [part.set_column(0, "row", pa.nulls(part.num_rows)) for part in batches(300)]
    expected, found = MemoryWriter(), MemoryWriter()
    on_one_core(KnownReader(tables), Anonymiser(SCHEMA, POLICY, seed=1), expected)
    in_threads(KnownReader(tables), Anonymiser(SCHEMA, POLICY, seed=1), found)
    assert found.tables[-1].equals(expected.tables[-1])
    assert found.tables[-1].schema.field("row").type == pa.string()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("stage", ["reader", "stream", "progress", "writer", "close"])
def test_error_of_any_stage_aborts_the_writer_and_ends_all_threads(stage: str, error: type[BaseException]) -> None:
    def reading() -> Iterator[pa.Table]:
        yield from batches(300)
        if stage == "reader":
            raise error

    def fail(*_: object) -> None:
        raise error

    source, sink, stream = KnownReader(reading()), MemoryWriter(), Anonymiser(SCHEMA, POLICY, seed=1)
    if stage in ("writer", "close"):
        setattr(sink, {"writer": "write", "close": "close"}[stage], fail)
    if stage == "stream":
        stream._gate.check = fail  # type: ignore[assignment]
    with pytest.raises(error):
        in_threads(source, stream, sink, progress=fail if stage == "progress" else None)
    assert sink.aborted
    assert source.closed
    if stage == "stream":
        with pytest.raises(UsageError, match="unusable"):
            stream.push(rows(10))


def test_schema_that_does_not_fit_is_reported_from_the_thread() -> None:
    sink = MemoryWriter()
    with pytest.raises(SchemaError, match="'age' is declared but not in the data"):
        in_threads(KnownReader([rows(10).drop_columns(["age"])]), Anonymiser(SCHEMA, POLICY, seed=1), sink)
    assert sink.aborted
