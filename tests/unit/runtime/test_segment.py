"""A segment keeps its rows encoded, in order, with the types of the last ones."""

import pyarrow as pa

from castleguard.runtime.segment import Segment, from_bytes

ROWS = pa.table({"age": [1, 2, 3], "job": ["cook", None, "nurse"]})
ALL_NULL = pa.table({"age": [4], "job": pa.nulls(1)})


def test_rows_come_back_in_order() -> None:
    segment = Segment()
    for at in range(3):
        segment.add(ROWS.slice(at, 1), None)
    assert from_bytes(segment.to_bytes()).equals(ROWS)
    assert segment.rows == 3


def test_types_are_those_of_the_last_rows() -> None:
    segment = Segment()
    segment.add(ALL_NULL, None)
    segment.add(ROWS, None)
    found = from_bytes(segment.to_bytes())
    assert found.schema == ROWS.schema
    assert found.column("age").to_pylist() == [4, 1, 2, 3]
    assert found.column("job").to_pylist() == [None, "cook", None, "nurse"]


def test_asking_twice_gives_the_same_bytes_and_more_rows_can_follow() -> None:
    segment = Segment()
    segment.add(ROWS, None)
    first = segment.to_bytes()
    assert segment.to_bytes() == first
    segment.add(ROWS, None)
    assert from_bytes(segment.to_bytes()).equals(pa.concat_tables([ROWS, ROWS]))


def test_a_segment_without_rows_is_empty() -> None:
    segment = Segment()
    segment.add(ROWS.slice(0, 0), None)
    assert segment.to_bytes() == b""
    assert not segment.dirty


def test_size_counts_rows_and_letters() -> None:
    segment = Segment()
    segment.add(ROWS, None)
    segment.add_letters([b"12345", b"678"])
    assert segment.size == ROWS.nbytes + 8


def test_rows_of_a_window_are_one_chunk() -> None:
    segment = Segment()
    segment.add(pa.concat_tables([ROWS, ROWS]), due=7.0)
    assert from_bytes(segment.to_bytes()).column("age").num_chunks == 1
    assert segment.due == 7.0
