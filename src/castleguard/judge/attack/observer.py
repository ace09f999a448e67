"""Attack by an observer of release times: what releases give away to someone who knows when every row arrived.

This observer knows all quasi-identifiers, the arrival time of each row, the algorithm, and every release with its time,
but neither the random draws nor the sensitive values. For this observer, a published row hides only among the rows that
share its box and its release: a *cell*.

* With the link, the observer knows the cell of each row. This is the worst case, and what a promise must account for.
* Without the link, the observer infers it. The candidates for a cell are the rows that lie in its box, had arrived, are
  at most `delay` old and are not assigned to another cell. Where a release happens only when a row must leave, a
  release of one row is that row. A cell with as many candidates as rows is solved: its rows are assigned, which may
  solve other cells.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from castleguard.judge.reading.boxes import Side, group_numbers
from castleguard.judge.reading.equality import NO_PERSON
from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes, Numbers, refine
from castleguard.judge.verify.group_values import Tally, distinct_values, tally

Flags = NDArray[np.bool_]  # (rows,)

UNKNOWN = -1
"""Value of `Releases.turn` if the observer cannot tell which row had to leave."""


@dataclass(frozen=True, eq=False)
class Releases:
    """Published rows with their releases, and the accepted original rows."""

    sides: tuple[Side, ...]
    """Published boxes, one side per quasi-identifier."""
    values: tuple[Codes, ...]
    """Codes of the published values, one array per sensitive column."""
    release: Codes
    """Release number of each published row, in release order."""
    arrived: Codes
    """Number of rows that had arrived at each release."""
    turn: Codes
    """Arrival position of the row that had to leave, per release; UNKNOWN if the observer cannot tell."""
    originals: Originals
    """Accepted rows, in arrival order."""
    row: Codes
    """Arrival position of each published row: the link."""

    @cached_property
    def cell(self) -> Codes:
        """Cell number of each published row (its release and box), in release order."""
        return refine(self.release, group_numbers(self.sides))

    @cached_property
    def rows_per_cell(self) -> Codes:
        """Published rows per cell."""
        return np.bincount(self.cell).astype(np.int64)

    @cached_property
    def persons(self) -> Codes:
        """Person of each published row."""
        return self.originals.persons[self.row]

    def tally(self, column: int) -> Tally:
        """Counts of values per cell."""
        return tally(self.cell, self.values[column], None, count=self.rows_per_cell.size)


@dataclass(frozen=True, eq=False)
class CellValues:
    """Disclosure of one sensitive column by cells; arrays have one entry per published row."""

    top: Numbers
    """Share of the most frequent value in the cell: the success rate of guessing that value."""
    certain: Flags
    """Whether the cell has only one value."""
    kept: int
    """Persons with several published rows that all have the same value."""
    pinned: int
    """Persons among `kept` with only one value that all of their cells allow."""


@dataclass(frozen=True, eq=False)
class InCells:
    """View of an observer who knows the cell of every row; one entry per published row."""

    persons: Codes
    """Persons of the cell: the candidates."""
    share: Numbers
    """Largest share of the cell's rows that belong to one person."""
    values: tuple[CellValues, ...]


@dataclass(frozen=True, eq=False)
class WorkedOut:
    """Inferences of an observer without the link; one entry per published row."""

    candidates: Codes
    """Candidate rows of the cell."""
    persons: Codes
    """Persons of these rows."""
    solved: Flags
    """Whether the rows of the cell are known."""
    learnt: tuple[Flags, ...]
    """Whether the value is certain, per sensitive column: all possible cells of the row have only this value."""


def look_into_cells(seen: Releases) -> InCells:
    """Count persons, their rows and the values of every cell, with the link."""
    cell, cells = seen.cell, seen.rows_per_cell.size
    named = seen.persons != NO_PERSON
    persons = distinct_per_group(cell[named], seen.persons[named], cells)
    return InCells(
        persons=persons[cell],
        share=_largest_shares(seen)[cell],
        values=tuple(_values(seen, column) for column in range(len(seen.values))),
    )


def work_out(seen: Releases, delay: int | None) -> WorkedOut:
    """Find candidates without the link: remove the rows of solved cells from all others until nothing changes.

    `delay`: arrivals after which every row has left; None for no bound.
    """
    search = _Search(seen, delay)
    search.solve()
    cell, cells = seen.cell, seen.rows_per_cell.size
    candidates, persons = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    lowest, highest = _extremes(seen)
    rows_in = seen.originals.persons.size
    least = np.full((len(seen.values), rows_in), np.iinfo(np.int64).max, dtype=np.int64)
    most = np.full((len(seen.values), rows_in), -1, dtype=np.int64)
    for number in range(cells):
        rows = search.rows_of(number)
        candidates[number] = rows.size
        owners = seen.originals.persons[rows]
        persons[number] = np.unique(owners[owners != NO_PERSON]).size
        for column in range(len(seen.values)):
            least[column, rows] = np.minimum(least[column, rows], lowest[column][number])
            most[column, rows] = np.maximum(most[column, rows], highest[column][number])
    return WorkedOut(
        candidates=candidates[cell],
        persons=persons[cell],
        solved=search.solved[cell],
        learnt=tuple((least == most)[:, seen.row]),
    )


def _largest_shares(seen: Releases) -> Numbers:
    """Largest share of one person in each cell. Rows without a person count as one person."""
    _, number = np.unique(seen.persons, return_inverse=True)
    many = int(number.max(initial=0)) + 1
    pairs, rows = np.unique(seen.cell * many + number, return_counts=True)
    most: Codes = np.zeros(seen.rows_per_cell.size, dtype=np.int64)
    np.maximum.at(most, pairs // many, rows)
    return most / np.maximum(seen.rows_per_cell, 1)


def _values(seen: Releases, column: int) -> CellValues:
    counted = seen.tally(column)
    top = counted.largest / np.maximum(counted.totals, 1)
    kept, pinned = _pin(seen, column, counted)
    certain: Flags = distinct_values(counted) == 1
    return CellValues(top=top[seen.cell], certain=certain[seen.cell], kept=kept, pinned=pinned)


def _pin(seen: Releases, column: int, counted: Tally) -> tuple[int, int]:
    """Count persons whose rows all have one value, and those among them whose cells have no other value in common.

    A constant value occurs in a cell at least as often as the person has rows there.
    """
    starts = np.searchsorted(counted.group, np.arange(counted.groups + 1))
    kept = pinned = 0
    for rows in _rows_by_person(seen.persons):
        own = np.unique(seen.values[column][rows])
        if own.size > 1:
            continue
        kept += 1
        tables = []
        for cell, times in Counter(seen.cell[rows].tolist()).items():
            part = slice(starts[cell], starts[cell + 1])
            often = counted.times[part] >= times
            tables.append(counted.value[part][often])
        tables.sort(key=len)
        others = tables[0][tables[0] != own[0]]
        for values in tables[1:]:
            others = others[np.isin(others, values)]
        pinned += others.size == 0
    return kept, pinned


def _rows_by_person(persons: Codes) -> Iterator[Codes]:
    """Yield the rows of each person with several rows."""
    order = np.argsort(persons, kind="stable")
    edges = np.flatnonzero(np.diff(persons[order])) + 1
    for rows in np.split(order, edges):
        if rows.size > 1 and persons[rows[0]] != NO_PERSON:
            yield rows


def _extremes(seen: Releases) -> tuple[list[Codes], list[Codes]]:
    """Smallest and largest code per sensitive column and cell; equal if the cell has one value."""
    low, high = [], []
    for values in seen.values:
        _, codes = np.unique(values, return_inverse=True)
        least = np.full(seen.rows_per_cell.size, np.iinfo(np.int64).max, dtype=np.int64)
        most = np.full(seen.rows_per_cell.size, -1, dtype=np.int64)
        np.minimum.at(least, seen.cell, codes)
        np.maximum.at(most, seen.cell, codes)
        low.append(least)
        high.append(most)
    return low, high


class _Search:
    """Candidates of every cell. Keeps only counts and recomputes the rows, which could be too many to store."""

    def __init__(self, seen: Releases, delay: int | None) -> None:
        originals = seen.originals
        rows_in = originals.persons.size
        self._values, self._to_root = originals.values, originals.to_root
        self._assigned = np.zeros(rows_in, dtype=np.bool_)
        self._rows = seen.rows_per_cell
        _, first = np.unique(seen.cell, return_index=True)
        release = seen.release[first]
        self._low = [side.low[first] for side in seen.sides]
        self._high = [side.largest[first] for side in seen.sides]
        self._widest = np.logical_and.reduce([side.is_widest()[first] for side in seen.sides])
        # Compare the narrowest side first: it leaves the fewest rows.
        widths = np.array([side.losses()[first] for side in seen.sides])
        self._sides = np.argsort(widths, axis=0, kind="stable")
        self._moment = seen.arrived[release]
        self._span = rows_in if delay is None else delay + 1
        self._stop = self._moment
        self._start = np.maximum(self._moment - self._span, 0)
        alone = np.bincount(seen.release, minlength=seen.arrived.size)[release] == 1
        known = alone & (seen.turn[release] != UNKNOWN)
        self._start = np.where(known, np.maximum(self._start, seen.turn[release]), self._start)
        self._stop = np.where(known, np.minimum(self._stop, seen.turn[release] + 1), self._stop)
        self.solved: Flags = np.zeros(first.size, dtype=np.bool_)
        self._found: dict[int, Codes] = {}

    def rows_of(self, cell: int) -> Codes:
        """Candidate rows of a cell; for a solved cell, its rows."""
        return self._found[cell] if self.solved[cell] else self._candidates(cell)

    def solve(self) -> None:
        """Assign the rows of cells with as many candidates as rows, until no such cell is left."""
        counts = np.array([self._candidates(cell).size for cell in range(self.solved.size)], dtype=np.int64)
        ready = np.flatnonzero(counts == self._rows).tolist()
        while ready:
            cell = ready.pop()
            if self.solved[cell] or counts[cell] != self._rows[cell]:
                continue
            rows = self._candidates(cell)
            self.solved[cell], self._found[cell] = True, rows
            for row in rows.tolist():
                self._assigned[row] = True
                touched = self._cells_around(row)
                counts[touched] -= 1
                ready += touched[counts[touched] == self._rows[touched]].tolist()

    def _candidates(self, cell: int) -> Codes:
        start, stop = int(self._start[cell]), int(self._stop[cell])
        rows = start + np.flatnonzero(~self._assigned[start:stop])
        if self._widest[cell]:
            return rows
        for at in self._sides[:, cell]:
            values = self._values[at][rows]
            rows = rows[(self._low[at][cell] <= values) & (values <= self._high[at][cell])]
        return rows[~self._to_root[rows]]

    def _cells_around(self, row: int) -> Codes:
        """Unsolved cells that have the row among their candidates."""
        first, last = np.searchsorted(self._moment, (row + 1, row + self._span + 1))
        cells = slice(first, last)
        inside = np.full(last - first, not self._to_root[row], dtype=np.bool_)
        for values, low, high in zip(self._values, self._low, self._high, strict=True):
            inside &= (low[cells] <= values[row]) & (values[row] <= high[cells])
        inside |= self._widest[cells]
        inside &= (self._start[cells] <= row) & (row < self._stop[cells]) & ~self.solved[cells]
        touched: Codes = first + np.flatnonzero(inside)
        return touched
