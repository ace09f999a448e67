"""What a published file cannot be, judged without knowing which row became which.

Published files have no row numbers. So nobody can count the persons of a group; but a row must have been made from
some original row whose values lie in its box and whose kept values are its own, and no original row makes two. That
bounds from above what a group can hold. A bound below the promise refutes it. A bound above it proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError
from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.identities import NOBODY
from castleguard.judge.reading.inside import RowsInside
from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes, comparable, refine, texts_of
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.roles import Schema

MOST_PAIRS = 200_000_000
"""Pairs of a group and an original row that are compared at most; if there are more, a sample of groups is."""


@dataclass(frozen=True)
class Kept:
    """What is published as it is: for every row of both tables the number of its combination of sensitive and public
    values. Equal values, and only those, share a number.
    """

    published: Codes
    original: Codes
    columns: tuple[str, ...]

    @property
    def too_many(self) -> int:
        """Published rows that no original row with these values is left for."""
        many = int(max(self.published.max(initial=-1), self.original.max(initial=-1))) + 1
        left = np.bincount(self.published, minlength=many) - np.bincount(self.original, minlength=many)
        return int(np.maximum(left, 0).sum())


@dataclass(frozen=True)
class Bounded:
    """What the groups that were looked at can hold at most."""

    groups: Codes
    """Their numbers: all, or a sample."""
    all_groups: int
    most_persons: Codes
    """Per group that was looked at: no more persons than this."""
    impossible: Codes
    """Per group: published rows that no original row can have become."""

    @property
    def sampled(self) -> bool:
        """Whether not all groups were looked at."""
        return self.groups.size < self.all_groups


def kept_values(
    published: pa.Table, original: pa.Table, schema: Schema, *, columns: Sequence[str], usable: NDArray[np.bool_]
) -> Kept:
    """Number the combinations of `columns` in both tables; `usable` are the original rows that may be published."""
    after: Codes = np.zeros(published.num_rows, dtype=np.int64)
    before: Codes = np.zeros(original.num_rows, dtype=np.int64)
    roles = {role.name: role for role in schema.sensitive if role.labels is not None}
    for name in columns:
        if name not in published.column_names:
            raise InputError(f"the published table has no column {name!r}")
        if name in roles:
            left, right = (value_codes(table.column(name), roles[name]) for table in (published, original))
        else:
            left, right = _common(published.column(name), original.column(name))
        mixed = refine(np.concatenate([after, before]), np.concatenate([left, right]))
        after, before = mixed[: after.size], mixed[after.size :]
    return Kept(after, before[usable], tuple(columns))


def bound_groups(
    sides: tuple[Side, ...], groups: Codes, originals: Originals, kept: Kept, *, most_pairs: int = MOST_PAIRS
) -> Bounded:
    """Bound the persons of every group, and count rows that no original can have become."""
    search = RowsInside(sides, groups, originals)
    chosen = search.choose(most_pairs)
    most, impossible = np.zeros(chosen.size, dtype=np.int64), np.zeros(chosen.size, dtype=np.int64)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(search.count + 1))
    for at, group in enumerate(chosen):
        candidates = search.inside(group)
        asked, rows = np.unique(kept.published[order[starts[group] : starts[group + 1]]], return_counts=True)
        number = np.searchsorted(asked, kept.original[candidates])
        fits = asked[np.minimum(number, asked.size - 1)] == kept.original[candidates]
        candidates, number = candidates[fits], number[fits]
        impossible[at] = int(np.maximum(rows - np.bincount(number, minlength=asked.size), 0).sum())
        named = search.persons[candidates] != NOBODY
        candidates, number = candidates[named], number[named]
        holders = distinct_per_group(number, search.persons[candidates], asked.size)
        # A combination has no more persons than rows, and no more than original rows with it have.
        together = int(np.minimum(rows, holders).sum())
        most[at] = min(together, int(np.unique(search.persons[candidates]).size))
    return Bounded(chosen, search.count, most, impossible)


def _common(after: pa.ChunkedArray, before: pa.ChunkedArray) -> tuple[Codes, Codes]:
    """Numbers for the values of two columns; a file of text may have changed the type of one."""
    numbers: dict[object, int] = {}
    found = []
    for column in (after, before):
        texts, codes = texts_of(column)
        known = np.array([numbers.setdefault(comparable(text), len(numbers)) for text in texts], dtype=np.int64)
        found.append(known[codes] if texts else np.zeros(0, np.int64))
    return found[0], found[1]
