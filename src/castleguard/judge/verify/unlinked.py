"""Refute a promise from a published file without a link between published and original rows.

Without row numbers, the persons of a group cannot be counted. But each published row comes from an original row whose
values lie in its box and whose unchanged values equal its own, and no original row is published twice. This bounds the
persons of a group from above. A bound below k refutes the promise; a bound of k or more proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.equality import NO_PERSON
from castleguard.judge.reading.inside import RowsInside
from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.originals import Originals
from castleguard.judge.reading.values import Codes, column_of, common_codes, refine
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.roles import Schema

MOST_PAIRS = 200_000_000
"""Upper limit of (group, original row) comparisons; above it, a sample of groups is checked."""


@dataclass(frozen=True)
class Kept:
    """Numbers for the combinations of unchanged (sensitive and public) values in both tables, one per row."""

    published: Codes
    original: Codes
    columns: tuple[str, ...]

    @property
    def too_many(self) -> int:
        """Published rows in excess of the original rows with the same values."""
        many = int(max(self.published.max(initial=-1), self.original.max(initial=-1))) + 1
        left = np.bincount(self.published, minlength=many) - np.bincount(self.original, minlength=many)
        return int(np.maximum(left, 0).sum())


@dataclass(frozen=True)
class Bounded:
    """Upper bounds for the checked groups."""

    groups: Codes
    """Numbers of the checked groups: all, or a sample."""
    all_groups: int
    most_persons: Codes
    """Upper bound on the persons of each checked group."""
    impossible: Codes
    """Published rows of each checked group that match no original row."""

    @property
    def sampled(self) -> bool:
        """Whether only a sample of the groups was checked."""
        return self.groups.size < self.all_groups


def kept_values(
    published: pa.Table, original: pa.Table, schema: Schema, *, columns: Sequence[str], usable: NDArray[np.bool_]
) -> Kept:
    """Number the value combinations of `columns` in both tables; `usable`: original rows that may be published."""
    after: Codes = np.zeros(published.num_rows, dtype=np.int64)
    before: Codes = np.zeros(original.num_rows, dtype=np.int64)
    roles = {role.name: role for role in schema.sensitive if role.labels is not None}
    for name in columns:
        columns_of_both = column_of(published, name), original.column(name)
        if name in roles:
            left, right = (value_codes(column, roles[name]) for column in columns_of_both)
        else:
            left, right = common_codes(*columns_of_both)
        mixed = refine(np.concatenate([after, before]), np.concatenate([left, right]))
        after, before = mixed[: after.size], mixed[after.size :]
    return Kept(after, before[usable], tuple(columns))


def bound_groups(
    sides: tuple[Side, ...], groups: Codes, originals: Originals, kept: Kept, *, most_pairs: int = MOST_PAIRS
) -> Bounded:
    """Bound the persons of every group, and count published rows that match no original row."""
    search = RowsInside(sides, groups, originals)
    chosen = search.choose(most_pairs)
    most, impossible = np.zeros(chosen.size, dtype=np.int64), np.zeros(chosen.size, dtype=np.int64)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(search.count + 1))
    for at, group in enumerate(chosen):
        candidates = search.inside(group)
        present, rows = np.unique(kept.published[order[starts[group] : starts[group + 1]]], return_counts=True)
        number = np.searchsorted(present, kept.original[candidates])
        fits = present[np.minimum(number, present.size - 1)] == kept.original[candidates]
        candidates, number = candidates[fits], number[fits]
        impossible[at] = int(np.maximum(rows - np.bincount(number, minlength=present.size), 0).sum())
        named = search.persons[candidates] != NO_PERSON
        candidates, number = candidates[named], number[named]
        holders = distinct_per_group(number, search.persons[candidates], present.size)
        # A combination has at most as many persons as published rows, and as the matching original rows have.
        together = int(np.minimum(rows, holders).sum())
        most[at] = min(together, int(np.unique(search.persons[candidates]).size))
    return Bounded(chosen, search.count, most, impossible)
