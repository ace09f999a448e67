"""Rows on their way through Spark: many of them in one binary value, as an Arrow stream.

Between Spark and Python rows travel as pandas data frames where there is state, and a data frame changes them: a whole
number beside a null becomes a float, and persons above 2^53 become one another. A blob goes through as it is, and costs
no work per row.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from castleguard.checkpoint.codec import table_from_bytes, table_to_buffer
from castleguard.intact import validated
from castleguard.shards.plan import Route

GATHERED = 1 << 17
"""Rows that are gathered before they are parted: the fewer, the more and the smaller the blobs."""
PIECE = 1 << 16
"""Rows in a blob that is published."""

LABEL = "label"
ROWS = "rows"


def part(batches: Iterable[pa.RecordBatch], route: Route, labels: list[int]) -> Iterator[pa.RecordBatch]:
    """Rows as they come from Spark, as blobs with the label of their shard."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        validated(batch, "the frame")
        gathered.append(pa.RecordBatch.from_arrays([*map(readable, batch.columns)], schema=batch.schema))
        rows += batch.num_rows
        if rows >= GATHERED:
            yield from _part(pa.Table.from_batches(gathered), route, labels)
            gathered, rows = [], 0
    if rows:
        yield from _part(pa.Table.from_batches(gathered), route, labels)


def _part(table: pa.Table, route: Route, labels: list[int]) -> Iterator[pa.RecordBatch]:
    shards = route.shard_of(table)
    order = np.argsort(shards, kind="stable")
    ends = np.cumsum(np.bincount(shards, minlength=route.shards))
    sorted_rows = table.take(pa.array(order)).combine_chunks() if route.shards > 1 else table
    found = []
    for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if end > begin:
            found.append((labels[number], table_to_buffer(sorted_rows.slice(begin, end - begin))))
    yield blobs(found)


def readable(column: pa.Array) -> pa.Array:
    """The column with text that anybody can read: Spark lets bytes through that are no UTF-8, and writes each of them
    as the same sign. Values that come out as one must count as one.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()).to_pylist()
        texts = [None if value is None else value.decode(errors="replace") for value in raw]
        return pa.array(texts, column.type)
    return column


def blobs(found: list[tuple[int, pa.Buffer]]) -> pa.RecordBatch:
    """Labels and blobs as Spark takes them."""
    values = [memoryview(blob) for _, blob in found]
    return pa.record_batch(
        {LABEL: pa.array([label for label, _ in found], pa.int32()), ROWS: pa.array(values, pa.binary())}
    )


def pieces(table: pa.Table) -> Iterator[bytes]:
    """A table as blobs, none of them too large."""
    for at in range(0, table.num_rows, PIECE):
        yield table_to_buffer(table.slice(at, PIECE)).to_pybytes()


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blobs as rows again."""
    for batch in batches:
        for blob in batch.column(ROWS):
            yield from table_from_bytes(blob.as_buffer()).to_batches()
