"""Coded rows: the values that travel between the stages of the stream.

After decoding, no stage sees a raw quasi-identifier or a raw person again: a number is a float64 (where cells of a grid
are published, the lower edge of its cell), a category is its leaf number, a person is a 64-bit keyed hash. Plain tuples
of arrays, so that kernels take them without conversion.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.kernels import siphash

NOBODY = siphash.NOBODY
"""The person of a row whose person is missing or cannot be told apart: adds nothing to k and l, and is one person to
ledgers."""

Quasi = NDArray[np.float64]  # (rows, columns), C-contiguous; a category is its leaf number
Persons = NDArray[np.uint64]  # (rows,) keyed hash of the person, or NOBODY
SensitiveCodes = NDArray[np.int64]  # (rows, sensitive columns) bin number or keyed hash

REASONS: tuple[str, ...] = ("null", "invalid", "outside", "unknown", "unpublishable", "too long", "other type")
"""Why a value was refused: missing, not readable as a number, outside the domain, not a leaf of the hierarchy, nothing
that a sink can take (`schema/publishable.py`) or that this one takes (`schema/unfit.py`), part of a row that is longer
than the sink takes, of another type than its column is published with (`schema/casting.py`)."""


class CodedRows(NamedTuple):
    """Rows as the randomiser, the engine and the gate see them. All four arrays have the same length."""

    quasi: Quasi
    person: Persons
    sensitive: SensitiveCodes
    to_root: NDArray[np.bool_]
    """(rows,) the row may only be published at the root; its quasi values mean nothing (they are 0)."""

    def take(self, rows: slice | NDArray[np.int64]) -> "CodedRows":
        """Some of the rows."""
        return CodedRows(self.quasi[rows], self.person[rows], self.sensitive[rows], self.to_root[rows])

    def __repr__(self) -> str:
        """How many rows, never what is in them."""
        return f"CodedRows({self.person.size} rows)"


@dataclass(frozen=True, eq=False)
class Rejects:
    """The rows of a batch that were refused, each with the first column that refused it. Never a value."""

    index: NDArray[np.int64]
    """Row number in the batch, ascending."""
    reason: NDArray[np.int8]
    """Index into `REASONS`."""
    column: NDArray[np.int16]
    """Index into `reject_names`: the quasi-identifiers, then the sensitive and the public columns."""
    counts: dict[str, int]
    """Rejects per column and reason, keyed "age: outside"; only what occurred, in schema order."""


def join_rejects(parts: Sequence[Rejects], sizes: Sequence[int]) -> Rejects:
    """The rejects of the parts of a batch, which have so many rows; at least one."""
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
    """The accepted rows, in input order."""
    payload: pa.Table
    """The accepted rows' sensitive, then public columns: raw values, original types."""
    rejected: Rejects
    sample: Quasi
    """Some of the accepted rows before numbers became cells: to check how fine the grid is, and for nothing else."""
    clamped: dict[str, int]
    """Accepted values that were moved to the nearest bound of their domain, by column. Not counted where no row is
    refused for its values: the count would tell about values that are to be randomised."""

    def __repr__(self) -> str:
        """How many rows, never what is in them."""
        return f"Decoded({self.rows.person.size} rows, {self.rejected.index.size} rejected)"


class Decisions(NamedTuple):
    """What an engine has decided, in order of release. Nothing here is published before the gate has seen it."""

    position: NDArray[np.int64]
    """(rows,) the arrival number of each row that leaves."""
    group: NDArray[np.int64]
    """(rows,) its group, an index into the arrays below."""
    lower: NDArray[np.float64]
    """(groups, columns) the published box: numbers, or the first leaf of the published node."""
    upper: NDArray[np.float64]
    """(groups, columns) the same for the upper bound, or the last leaf."""
    loss: NDArray[np.float64]
    """(groups,) information loss of the box."""
    kind: NDArray[np.int64]
    """(groups,) NEW, REUSED or ROOT."""
    kept: NDArray[np.bool_]
    """(groups,) the engine may use the box again later."""
    event: NDArray[np.int64]
    """(groups,) the row whose turn it was: groups of one event leave together."""
    seen: NDArray[np.int64]
    """(groups,) how many rows had arrived when the group was decided: what it was compared with."""
    dropped: NDArray[np.int64]
    """(drops,) the arrival numbers of rows that leave without being published."""
    points: NDArray[np.float64] = np.empty((0, 0))
    """(rows, columns) what is published in place of a box, where every row has values of its own (DOCA): coded numbers,
    leaf numbers, and maybe the codes of sensitive values. The boxes then have no columns. Otherwise empty."""
    dropped_seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """(drops,) how many rows had arrived when each row was dropped; empty where no gate asks."""


NEW, REUSED, ROOT = 0, 1, 2
"""Kinds of groups: a cluster published for the first time, a published box used again, the box of everything."""


def join_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Several releases, one after the other; at least one."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(part.loss.size for part in parts)])
    shifted = [part._replace(group=part.group + at) for part, at in zip(parts, before, strict=False)]
    return Decisions._make(np.concatenate(arrays) for arrays in zip(*shifted, strict=True))
