"""Attack by an observer who knows arrival times, by brute force over published and arrived rows.

They know when each row arrived, all quasi-identifiers, the algorithm, and every release with its moment; neither the
draws nor the sensitive values. A cell is what left in one release under one box.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Arrived:
    """A row of the input; its index in the list is its arrival."""

    person: Hashable | None  # None: no person
    quasi: tuple[float | None, ...]  # None: no value, for the root only


@dataclass(frozen=True)
class Range:
    """One side of a box: the half-open range [low, high), or [low, high] where that ends the domain or is closed."""

    low: float
    high: float
    ends: bool  # whether the upper bound is inside
    whole: bool  # whether it is the whole domain

    def has(self, value: float | None) -> bool:
        if value is None:
            return False
        return self.low <= value and (value < self.high or (self.ends and value == self.high))


Box = tuple[Range, ...]


@dataclass(frozen=True)
class Left:
    """A published row."""

    release: int
    box: Box
    sensitive: tuple[Hashable, ...]
    row: int  # which row of the input it is: the link


@dataclass(frozen=True)
class Moment:
    """A release: arrivals at that time, and the row that expired, if the observer knows it."""

    arrived: int
    turn: int | None = None


Cell = tuple[int, Box]


def cells_of(left: Sequence[Left]) -> dict[Cell, list[Left]]:
    found: defaultdict[Cell, list[Left]] = defaultdict(list)
    for each in left:
        found[each.release, each.box].append(each)
    return dict(found)


# With the link.


def persons_in_cell(left: Sequence[Left], rows: Sequence[Arrived]) -> list[int]:
    """Number of persons in the cell of each published row."""
    cells = cells_of(left)
    return [
        len({rows[other.row].person for other in cells[each.release, each.box]} - {None}) for each in left
    ]  # fmt: skip


def largest_share(left: Sequence[Left], rows: Sequence[Arrived]) -> list[Fraction]:
    """Largest share of one person in the cell of each published row; missing persons count as one person here."""
    cells = cells_of(left)
    found = []
    for each in left:
        cell = cells[each.release, each.box]
        counts = Counter(rows[other.row].person for other in cell)
        found.append(Fraction(max(counts.values()), len(cell)))
    return found


def top_share(left: Sequence[Left], column: int) -> list[Fraction]:
    """Share of the most frequent value in the cell of each published row."""
    cells = cells_of(left)
    found = []
    for each in left:
        cell = cells[each.release, each.box]
        counts = Counter(other.sensitive[column] for other in cell)
        found.append(Fraction(max(counts.values()), len(cell)))
    return found


def kept_and_pinned(left: Sequence[Left], rows: Sequence[Arrived], column: int) -> tuple[int, int]:
    """How many persons keep one value over several published rows, and of how many the cells leave one value only.

    A value that a person kept is in each of their cells, at least as often as they have rows there.
    """
    cells = cells_of(left)
    mine: defaultdict[Hashable, list[Left]] = defaultdict(list)
    for each in left:
        if rows[each.row].person is not None:
            mine[rows[each.row].person].append(each)
    kept = pinned = 0
    for own in mine.values():
        if len(own) < 2 or len({each.sensitive[column] for each in own}) > 1:
            continue
        kept += 1
        possible: set[Hashable] | None = None
        for cell, times in Counter((each.release, each.box) for each in own).items():
            counts = Counter(other.sensitive[column] for other in cells[cell])
            values = {value for value, count in counts.items() if count >= times}
            possible = values if possible is None else possible & values
        pinned += len(possible or ()) == 1
    return kept, pinned


# Without the link.


@dataclass(frozen=True)
class WorkedOut:
    """Findings of the observer."""

    candidates: dict[Cell, frozenset[int]]
    """Rows that can be in each cell; for a solved cell, the rows that are."""
    solved: frozenset[Cell]


def work_out(
    left: Sequence[Left], moments: Sequence[Moment], rows: Sequence[Arrived], delay: int | None
) -> WorkedOut:  # fmt: skip
    """Candidates lie in the box, had arrived, are at most `delay` old, and are not spoken for. A release of one row is
    the row whose turn it was. A cell with as many candidates as rows is solved; repeat until nothing is.
    """
    cells = cells_of(left)
    sizes = Counter(each.release for each in left)
    solved: dict[Cell, frozenset[int]] = {}
    while True:
        spoken_for = set().union(*solved.values())
        candidates: dict[Cell, frozenset[int]] = dict(solved)
        for cell in cells:
            if cell in solved:
                continue
            release, box = cell
            moment = moments[release]
            found = set()
            for number, row in enumerate(rows):
                at_root = all(side.whole for side in box)
                inside = at_root or all(side.has(value) for side, value in zip(box, row.quasi, strict=True))
                had_arrived = number < moment.arrived
                young = delay is None or moment.arrived - 1 - number <= delay
                in_turn = sizes[release] > 1 or moment.turn is None or moment.turn == number
                if inside and had_arrived and young and in_turn and number not in spoken_for:
                    found.add(number)
            candidates[cell] = frozenset(found)
        more = [cell for cell, found in candidates.items() if cell not in solved and len(found) == len(cells[cell])]
        if not more:
            return WorkedOut(candidates, frozenset(solved))
        solved[more[0]] = candidates[more[0]]


def learnt(left: Sequence[Left], found: WorkedOut, column: int) -> set[int]:
    """The rows whose value is certain: every cell that they can be in has one value only, and all the same."""
    cells = cells_of(left)
    possible: defaultdict[int, set[Hashable]] = defaultdict(set)
    for cell, rows in found.candidates.items():
        for row in rows:
            possible[row] |= {each.sensitive[column] for each in cells[cell]}
    return {row for row, values in possible.items() if len(values) == 1}
