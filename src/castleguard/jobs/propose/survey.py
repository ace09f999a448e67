"""What a whole table says, read once: a sample of rows from all of it, and how often values repeat.

The rows at the beginning of a file are often the oldest ones: bounds that fit them may reject the rest. And how many
rows a person has is not seen in a sample of rows.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.jobs.reservoir import Reservoir
from castleguard.schema.column import as_text

SAMPLE_ROWS = 20_000
_MOST_KEPT = 20_000  # distinct values of a column that are counted
MOST_READ = 5_000_000  # rows
_HASHES = 1 << 32
WINDOWS = (1_000, 10_000)  # rows
_BETWEEN = 40_000  # rows between two windows


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
    windows: Mapping[int, Sequence[Mapping[str, int]]]
    """Different values of every column in stretches of so many neighbouring rows."""

    def fewest(self, column: str, size: int) -> int | None:
        """Different values that nine of ten stretches of `size` rows have at least; None if the table is shorter."""
        counts = sorted(window[column] for window in self.windows[size])
        return counts[len(counts) // 10] if counts else None


def survey(batches: Iterable[pa.RecordBatch | pa.Table], schema: pa.Schema, *, sample: int = SAMPLE_ROWS) -> Survey:
    """Read all batches, at most five million rows."""
    counters = {name: _Counter() for name in schema.names}
    kept = Reservoir(sample)
    windows = _Windows()
    rows = 0
    whole = True
    for batch in batches:
        if rows >= MOST_READ:
            whole = False
            break
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        rows += table.num_rows
        kept.add(table)
        windows.add(table)
        for name, counter in counters.items():
            counter.add(table[name])
    repeats = {name: counter.repeats() for name, counter in counters.items()}
    windows.close()
    return Survey(kept.table(schema), repeats, rows, whole, windows.found)


class _Windows:
    """Different values of every column among neighbouring rows, at places spread over the table."""

    def __init__(self) -> None:
        self.found: dict[int, list[Mapping[str, int]]] = {size: [] for size in WINDOWS}
        self._tables: list[pa.Table] = []
        self._held = 0
        self._skip = 0

    def add(self, table: pa.Table) -> None:
        skipped = min(self._skip, table.num_rows)
        self._skip -= skipped
        table = table.slice(skipped)
        if table.num_rows:
            self._tables.append(table)
            self._held += table.num_rows
        if self._held >= WINDOWS[-1]:
            self.close()
            self._skip = _BETWEEN

    def close(self) -> None:
        """Count the values of the rows that are held."""
        if self._tables:
            rows = pa.concat_tables(self._tables, promote_options="permissive")
            for size in WINDOWS:
                if rows.num_rows >= size:
                    self.found[size].append({name: _distinct(rows[name][:size]) for name in rows.column_names})
        self._tables, self._held = [], 0


def _distinct(column: pa.ChunkedArray) -> int:
    try:
        return int(pc.count_distinct(column).as_py())
    except pa.ArrowException:  # a nested column
        return 0


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
