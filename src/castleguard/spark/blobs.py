"""Blobs: many rows in one binary value, as an Arrow stream, on their way through Spark.

Spark passes rows to stateful Python code as pandas data frames, which change them: an integer beside a null becomes a
float, and person numbers above 2^53 collide. A blob is passed unchanged and costs no work per row.

Spark assigns a blob to a partition by a hash of its label. With the labels 0 to 3 and four partitions, one partition
gets three shards and two get none. The label of a shard is therefore the smallest number that Spark assigns to the
partition of the shard. If another version of Spark hashes differently, only the balance suffers.
"""

from collections.abc import Iterable, Iterator
from itertools import count

import numpy as np
import pyarrow as pa

from castleguard.checkpoint.codec import table_from_bytes, table_to_buffer
from castleguard.intact import validated
from castleguard.shards.plan import Route

GATHERED = 1 << 17
"""Rows collected before they are split by shard: fewer rows mean more and smaller blobs."""
PIECE = 1 << 16
"""Maximum rows in a published blob."""

LABEL = "label"
ROWS = "rows"

_SEED = 42  # Spark's
_WORD = 0xFFFFFFFF


def part(batches: Iterable[pa.RecordBatch], route: Route, labels: list[int]) -> Iterator[pa.RecordBatch]:
    """Split rows from Spark by shard, and yield them as blobs with the label of their shard."""
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
    """Replace invalid UTF-8 in a text column.

    Spark accepts invalid bytes and writes each as the same replacement character. Values that look equal in the output
    must count as one.
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
    """Return labels and blobs as a batch for Spark."""
    values = [memoryview(blob) for _, blob in found]
    return pa.record_batch(
        {LABEL: pa.array([label for label, _ in found], pa.int32()), ROWS: pa.array(values, pa.binary())}
    )


def pieces(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as blobs of limited size."""
    for at in range(0, table.num_rows, PIECE):
        yield table_to_buffer(table.slice(at, PIECE)).to_pybytes()


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of blobs."""
    for batch in batches:
        for blob in batch.column(ROWS):
            yield from table_from_bytes(blob.as_buffer()).to_batches()


def labels_of(shards: int) -> list[int]:
    """Return a label for each shard, each in another of `shards` partitions."""
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(_hash(label) % shards, label)
        if len(found) == shards:
            return [found[number] for number in range(shards)]
    raise AssertionError("unreachable")


def _hash(number: int) -> int:
    """Return the signed 32-bit MurmurHash3 of a 32-bit integer, like Spark's `hash`."""
    mixed = _times(_rotate(_times(number, 0xCC9E2D51), 15), 0x1B873593)
    state = (_times(_rotate(_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    state ^= 4  # bytes
    state = _times(state ^ (state >> 16), 0x85EBCA6B)
    state = _times(state ^ (state >> 13), 0xC2B2AE35)
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _times(first: int, second: int) -> int:
    return first * second & _WORD


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _WORD
