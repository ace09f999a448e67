"""Coded rows: the values passed between the stages of the stream.

After decoding, no stage sees a raw quasi-identifier or a raw person: a number is a float64 (the lower edge of its cell
where grid cells are published), a category is its leaf number, a person is a 64-bit keyed hash. These are tuples of
arrays, which kernels take without conversion.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.kernels import siphash

NO_PERSON = siphash.NO_PERSON
"""The person of a row whose person is missing or indistinguishable: counts for neither k nor l, and is one person for
ledgers."""

Quasi = NDArray[np.float64]  # (rows, columns), C-contiguous; a category is its leaf number
Persons = NDArray[np.uint64]  # (rows,) keyed hash of the person, or NO_PERSON
SensitiveCodes = NDArray[np.int64]  # (rows, sensitive columns) bin number or keyed hash

REASONS: tuple[str, ...] = ("null", "invalid", "outside", "unknown", "unpublishable", "too long", "other type")
"""Reasons to reject a row, by one of its values: missing; not a number; outside the domain; not a leaf of the
hierarchy; not accepted by any sink or by this sink (`schema/publishable.py`); in a row too long for the sink; not of
the type that its column is published with (`schema/casting.py`)."""


class CodedRows(NamedTuple):
    """Rows as the randomiser, the engine and the gate see them. All four arrays have the same length."""

    quasi: Quasi
    person: Persons
    sensitive: SensitiveCodes
    to_root: NDArray[np.bool_]
    """(rows,) the row may be published at the root only; its quasi values are 0 and have no meaning."""

    def take(self, rows: slice | NDArray[np.int64]) -> "CodedRows":
        """Select rows."""
        if isinstance(rows, slice):
            return CodedRows(self.quasi[rows], self.person[rows], self.sensitive[rows], self.to_root[rows])
        # Several times as fast as an index where a row has several columns.
        quasi, sensitive = self.quasi.take(rows, axis=0), self.sensitive.take(rows, axis=0)
        return CodedRows(quasi, self.person[rows], sensitive, self.to_root[rows])

    def __repr__(self) -> str:
        """Number of rows, never their values."""
        return f"CodedRows({self.person.size} rows)"


@dataclass(frozen=True, eq=False)
class Rejects:
    """Rejected rows of a batch, each with the first column that caused it. Never a value."""

    index: NDArray[np.int64]
    """Row number in the batch, ascending."""
    reason: NDArray[np.int8]
    """Index into `REASONS`."""
    column: NDArray[np.int16]
    """Index into `reject_names`: quasi-identifiers, then sensitive and public columns."""
    counts: dict[str, int]
    """Rejects by column and reason ("age: outside"), without zeros, in schema order."""


def join_rejects(parts: Sequence[Rejects], sizes: Sequence[int]) -> Rejects:
    """Join the rejects of the parts of a batch; `sizes`: rows of each part. Needs at least one part."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *sizes[:-1]])
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return Rejects(
        index=np.concatenate([first + part.index for first, part in zip(firsts, parts, strict=True)]),
        reason=np.concatenate([part.reason for part in parts]),
        column=np.concatenate([part.column for part in parts]),
        counts=dict(counts),
    )


class Decoded(NamedTuple):
    """One batch after decoding: every input row is in `rows` or in `rejected`, never in both."""

    rows: CodedRows
    """Accepted rows, in input order."""
    payload: pa.Table
    """Sensitive, then public columns of the accepted rows: raw values, original types."""
    rejected: Rejects
    sample: Quasi
    """Some accepted rows before numbers became cells, only to check that the grid is coarse enough."""
    clamped: dict[str, int]
    """Accepted values that were moved to the nearest bound of their domain, by column. Not counted where rows are never
    rejected for their values: the count would depend on values that are to be randomised."""

    def __repr__(self) -> str:
        """Number of rows, never their values."""
        return f"Decoded({self.rows.person.size} rows, {self.rejected.index.size} rejected)"


class Decisions(NamedTuple):
    """Decisions of an engine, in order of release. Nothing is published before the gate has checked it."""

    position: NDArray[np.int64]
    """(rows,) arrival number of each row that leaves."""
    group: NDArray[np.int64]
    """(rows,) its group, an index into the arrays below."""
    lower: NDArray[np.float64]
    """(groups, columns) lower bounds of the published box: numbers, or the first leaf of the published node."""
    upper: NDArray[np.float64]
    """(groups, columns) upper bounds: numbers, or the last leaf."""
    loss: NDArray[np.float64]
    """(groups,) information loss of the box."""
    kind: NDArray[np.int64]
    """(groups,) NEW, REUSED or ROOT."""
    kept: NDArray[np.bool_]
    """(groups,) whether the engine may reuse the box later."""
    event: NDArray[np.int64]
    """(groups,) row that triggered the release: groups of one event are released together."""
    seen: NDArray[np.int64]
    """(groups,) number of rows that had arrived when the group was decided, which fixes its reference."""
    dropped: NDArray[np.int64]
    """(drops,) arrival numbers of rows that leave without being published."""
    points: NDArray[np.float64] = np.empty((0, 0))
    """(rows, columns) published values of each row where they replace boxes (DOCA): coded numbers, leaf numbers, and
    possibly codes of sensitive values. The boxes then have no columns. Otherwise empty."""
    dropped_seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """(drops,) number of rows that had arrived when each row was dropped; empty if no gate needs it."""


NEW, REUSED, ROOT = 0, 1, 2
"""Kinds of groups: a cluster published for the first time, a reused box, the root (the box of everything)."""


def join_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Concatenate releases; at least one."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(part.loss.size for part in parts)])
    shifted = [part._replace(group=part.group + at) for part, at in zip(parts, before, strict=False)]
    return Decisions._make(np.concatenate(arrays) for arrays in zip(*shifted, strict=True))
