"""A uniform sample of the rows of a table that is read once, in batches."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Reservoir:
    """A uniform sample of rows: those with the smallest of random numbers."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._draw = np.random.default_rng(0)
        self._tables: list[pa.Table] = []
        self._numbers: list[NDArray[np.float64]] = []
        self._limit = 1.0
        self._held = 0

    def add(self, table: pa.Table) -> None:
        """Take rows of the table into the sample."""
        numbers = self._draw.random(table.num_rows)
        chosen = numbers < self._limit
        if chosen.any():
            self._tables.append(table if chosen.all() else table.filter(pa.array(chosen)))
            self._numbers.append(numbers[chosen])
            self._held += int(np.count_nonzero(chosen))
        if self._held > 2 * self._size:
            self._shrink()

    def table(self, schema: pa.Schema | None) -> pa.Table:
        """The sample, in the order of the rows."""
        if self._held > self._size:
            self._shrink()
        return (
            pa.concat_tables(self._tables, promote_options="permissive")
            if self._tables
            else (schema or pa.schema([])).empty_table()
        )

    def _shrink(self) -> None:
        numbers = np.concatenate(self._numbers)
        self._limit = float(np.partition(numbers, self._size)[self._size])
        table = pa.concat_tables(self._tables, promote_options="permissive")
        chosen = numbers < self._limit
        self._tables, self._numbers = [table.filter(pa.array(chosen)).combine_chunks()], [numbers[chosen]]
        self._held = int(np.count_nonzero(chosen))
