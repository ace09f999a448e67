"""What a whole table says, read once: a sample of rows from all of it, and how often values repeat.

The rows at the beginning of a file are often the oldest ones: bounds that fit them may reject the rest. And how many
rows a person has is not seen in a sample of rows.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.schema.column import as_text

SAMPLE_ROWS = 20_000
_MOST_KEPT = 20_000  # distinct values of a column that are counted
_MOST_READ = 5_000_000  # rows
_HASHES = 1 << 32


@dataclass(frozen=True)
class Repeats:
    """How often the values of a column repeat in all rows."""

    rows: int
    """Rows with a value."""
    distinct: int
    """Estimated number of different values; exact up to 20,000."""
    single: float
    """Share of the values that one row has."""

    @property
    def each(self) -> float:
        """Rows per value."""
        return self.rows / max(self.distinct, 1)

    @property
    def unique(self) -> bool:
        """Whether every row has a value of its own, up to the error of the estimate."""
        return self.single == 1.0


@dataclass(frozen=True)
class Survey:
    """A sample of all rows, in their order, and the repeats of every column."""

    sample: pa.Table
    repeats: Mapping[str, Repeats]
    rows: int
    """Rows read."""
    whole: bool
    """Whether these are all rows."""


def survey(batches: Iterable[pa.RecordBatch | pa.Table], schema: pa.Schema, *, sample: int = SAMPLE_ROWS) -> Survey:
    """Read all batches, at most five million rows."""
    counters = {name: _Counter() for name in schema.names}
    kept = _Reservoir(sample)
    rows = 0
    whole = True
    for batch in batches:
        if rows >= _MOST_READ:
            whole = False
            break
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        rows += table.num_rows
        kept.add(table)
        for name, counter in counters.items():
            counter.add(table[name])
    repeats = {name: counter.repeats() for name, counter in counters.items()}
    return Survey(kept.table(schema), repeats, rows, whole)


class _Reservoir:
    """A uniform sample of rows: those with the smallest of random numbers."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._draw = np.random.default_rng(0)
        self._tables: list[pa.Table] = []
        self._numbers: list[NDArray[np.float64]] = []
        self._limit = 1.0
        self._held = 0

    def add(self, table: pa.Table) -> None:
        numbers = self._draw.random(table.num_rows)
        chosen = numbers < self._limit
        if chosen.any():
            self._tables.append(table if chosen.all() else table.filter(pa.array(chosen)))
            self._numbers.append(numbers[chosen])
            self._held += int(np.count_nonzero(chosen))
        if self._held > 2 * self._size:
            self._shrink()

    def table(self, schema: pa.Schema) -> pa.Table:
        if self._held > self._size:
            self._shrink()
        return pa.concat_tables(self._tables, promote_options="permissive") if self._tables else schema.empty_table()

    def _shrink(self) -> None:
        numbers = np.concatenate(self._numbers)
        self._limit = float(np.partition(numbers, self._size)[self._size])
        table = pa.concat_tables(self._tables, promote_options="permissive")
        chosen = numbers < self._limit
        self._tables, self._numbers = [table.filter(pa.array(chosen)).combine_chunks()], [numbers[chosen]]
        self._held = int(np.count_nonzero(chosen))


class _Counter:
    """Rows of each value, for the values whose hash is small enough to be kept."""

    def __init__(self) -> None:
        self._rows = 0
        self._limit = _HASHES
        self._counts: dict[int, int] = {}

    def add(self, column: pa.ChunkedArray) -> None:
        try:
            text = as_text(column if not isinstance(column, pa.ChunkedArray) else column.combine_chunks())
        except pa.ArrowException:
            return
        if text is None:
            return
        found = pc.value_counts(text.drop_null())
        counts = found.field("counts").to_numpy()
        self._rows += int(counts.sum())
        limit = self._limit
        for value, count in zip(found.field("values").to_pylist(), counts.tolist(), strict=True):
            number = zlib.crc32(value.encode(errors="replace"))
            if number < limit:
                self._counts[number] = self._counts.get(number, 0) + count
        while len(self._counts) > _MOST_KEPT:
            self._limit //= 2
            self._counts = {number: count for number, count in self._counts.items() if number < self._limit}

    def repeats(self) -> Repeats:
        distinct = round(len(self._counts) * _HASHES / self._limit)
        single = sum(count == 1 for count in self._counts.values())
        return Repeats(self._rows, distinct, single / max(len(self._counts), 1))
