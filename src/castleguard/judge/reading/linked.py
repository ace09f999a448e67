"""Published rows joined with their original rows: the input of every judgement that has a link."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import InputError
from castleguard.judge.reading.boxes import Side, group_numbers, read_boxes
from castleguard.judge.reading.equality import NO_PERSON
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import Codes
from castleguard.schema.roles import Schema


@dataclass(frozen=True, eq=False)
class Linked:
    """A published table, its original, and the original row of each published row."""

    published: pa.Table
    original: pa.Table
    schema: Schema
    sides: tuple[Side, ...]
    """Published boxes, one side per quasi-identifier."""
    groups: Codes
    """Group number of each published row: equal boxes share a number."""
    originals: Originals
    row: Codes
    """Original row number of each published row; -1 without an original."""

    @cached_property
    def known(self) -> Codes:
        """Indices of the published rows that have an original."""
        found: Codes = np.flatnonzero(self.row >= 0)
        return found

    @cached_property
    def rows_per_group(self) -> Codes:
        """Published rows per group."""
        return np.bincount(self.groups).astype(np.int64)

    @cached_property
    def persons_per_group(self) -> Codes:
        """Distinct persons per group. A row without an original adds no person."""
        return self.distinct_per_group(self.originals.persons)

    @cached_property
    def values_per_group(self) -> Codes:
        """Distinct original values per group, of its least diverse sensitive column; without one, no limit."""
        fewest = np.full(self.rows_per_group.size, np.iinfo(np.int64).max, dtype=np.int64)
        for codes in self.originals.sensitive:
            fewest = np.minimum(fewest, self.distinct_per_group(codes))
        return fewest

    def only(self, rows: NDArray[np.bool_]) -> "Linked":
        """Keep only these published rows; every group must keep at least one."""
        sides = tuple(
            replace(side, low=side.low[rows], high=side.high[rows], node=side.node[rows]) for side in self.sides
        )
        published = self.published.filter(pa.array(rows))
        return Linked(published, self.original, self.schema, sides, self.groups[rows], self.originals, self.row[rows])

    def distinct_per_group(self, codes: Codes) -> Codes:
        """Distinct codes per group among the original rows; a row without a person adds none."""
        known, groups = self.known, int(self.groups.max(initial=-1)) + 1
        known = known[self.originals.persons[self.row[known]] != NO_PERSON]
        return distinct_per_group(self.groups[known], codes[self.row[known]], groups)


def link(published: pa.Table, original: pa.Table, schema: Schema, *, by: str, closed: bool = False) -> Linked:
    """Join a published table with its original by `by`, a public column that numbers the original rows.

    `closed`: numbers were published as closed intervals (paper mode).
    """
    sides = read_boxes(published, schema, closed=closed)
    row = original_rows(published, original, by)
    return Linked(published, original, schema, sides, group_numbers(sides), read_originals(original, schema), row)


def original_rows(published: pa.Table, original: pa.Table, by: str) -> Codes:
    """Original row number of each published row; -1 without an original."""
    for table, which in ((published, "published"), (original, "original")):
        if by not in table.column_names:
            raise InputError(f"the {which} table has no column {by!r}, which links published rows to original rows")
    names = _as_text(original.column(by))
    if len(names.unique()) < original.num_rows or names.null_count:
        raise InputError(f"column {by!r} does not number the original rows: it has duplicate or missing values")
    rows: Codes = pc.index_in(_as_text(published.column(by)), names).fill_null(-1).to_numpy().astype(np.int64)
    return rows


def distinct_per_group(groups: Codes, codes: Codes, count: int) -> Codes:
    """Distinct codes in each of `count` groups."""
    _, codes = np.unique(codes, return_inverse=True)
    many = int(codes.max(initial=0)) + 1
    pairs = np.unique(groups * many + codes)
    return np.bincount(pairs // many, minlength=count).astype(np.int64)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
