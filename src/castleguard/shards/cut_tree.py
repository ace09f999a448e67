"""Cut points: a decision tree over a row's quasi-identifiers, with a shard at every leaf.

All of it is public (docs/concepts/shards.md): each cut names a column of the schema, and an edge of its grid or a place
between two branches of its hierarchy. `cuts` chooses trees, `cuts_file` stores them, `routing` applies them to rows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.shards.plan import Shards

Values = Mapping[str, NDArray[np.float64]]  # per column (rows,), in coded units
Rows = NDArray[np.int64] | slice


@dataclass(frozen=True)
class Cut:
    """One inner node: is the row's value below `at`?"""

    column: str
    at: float
    """In coded units: a number, days or microseconds since 1970, or the number of a leaf."""
    below: "Branch"
    above: "Branch"
    """The branch of values of `at` or more."""


Branch = Cut | int
"""A further cut, or the number of a shard."""


@dataclass(frozen=True)
class Cuts:
    """The whole tree. Each shard is the end of exactly one path.

    >>> cuts = Cuts(Cut("age", 40.0, 0, Cut("age", 65.0, 1, 2)))
    >>> cuts.shard_of({"age": np.array([20.0, 40.0, 64.0, 65.0])}, rows=4).tolist()
    [0, 1, 1, 2]
    """

    root: Branch

    def __post_init__(self) -> None:
        ends = sorted(end for end, _ in self.paths())
        if ends != list(range(len(ends))):
            raise SchemaError(f"cut points need each of the shards 0 to {len(ends) - 1} once, got {ends}")
        for cut in self.walk():
            if not isfinite(cut.at):
                raise SchemaError(f"column {cut.column!r}: a cut point must be finite, got {cut.at}")

    @cached_property
    def shards(self) -> int:
        """Number of shards."""
        return sum(1 for _ in self.paths())

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are cut, each once."""
        return tuple(dict.fromkeys(cut.column for cut in self.walk()))

    def walk(self) -> Iterator[Cut]:
        """Yield all cuts, parents before children."""
        return _walk(self.root)

    def paths(self) -> "Iterator[tuple[int, Path]]":
        """Yield every shard with the path that leads to it."""
        return _paths(self.root, ())

    def shard_of(self, values: Values, *, rows: int) -> Shards:
        """Return the shard of each row; `values`: the columns that are cut, without gaps."""
        found = np.zeros(rows, dtype=np.int32)
        if isinstance(self.root, Cut):
            _assign(self.root, values, slice(None), found)
        return found

    def describe(self) -> Any:
        """Return the tree as JSON values, in coded units."""
        return to_dicts(self.root, lambda cut: cut.at)


Path = tuple[tuple[Cut, bool], ...]
"""Cuts from the root on, each with the side taken; True: below."""


def to_dicts(branch: Branch, format_at: Callable[[Cut], object]) -> Any:
    """Return a tree as nested dicts, with its cut points formatted by `format_at`."""
    if not isinstance(branch, Cut):
        return {"shard": branch}
    sides = {"below": to_dicts(branch.below, format_at), "above": to_dicts(branch.above, format_at)}
    return {"column": branch.column, "at": format_at(branch), **sides}


def _walk(branch: Branch) -> Iterator[Cut]:
    if isinstance(branch, Cut):
        yield branch
        yield from _walk(branch.below)
        yield from _walk(branch.above)


def _paths(branch: Branch, taken: Path) -> Iterator[tuple[int, Path]]:
    if isinstance(branch, Cut):
        yield from _paths(branch.below, (*taken, (branch, True)))
        yield from _paths(branch.above, (*taken, (branch, False)))
    else:
        yield branch, taken


def _assign(cut: Cut, values: Values, rows: Rows, found: Shards) -> None:
    """Write the shards of `rows` into `found`. Each cut compares only the rows that reach it."""
    below = values[cut.column][rows] < cut.at
    if not isinstance(cut.below, Cut) and not isinstance(cut.above, Cut):
        found[rows] = np.where(below, np.int32(cut.below), np.int32(cut.above))
        return
    for branch, side in ((cut.below, below), (cut.above, ~below)):
        reached = np.flatnonzero(side) if isinstance(rows, slice) else rows[side]
        if isinstance(branch, Cut):
            _assign(branch, values, reached, found)
        else:
            found[reached] = branch
