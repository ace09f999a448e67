"""The gate of SDGS: counts the rows of released cells, and never looks at persons.

A check on persons would leak: whether a cell is published would depend on whose rows were sampled. So this gate reads
only the rows about to be published and public facts (docs/proofs/sdgs.md, "The gate must not look at persons").

* Every cell (the rows of a group with one combination of sensitive values) has at least k rows. Every group has at
  least l values of each sensitive column, in a distribution that meets the criteria.
* A box lies in the public domain: its numeric bounds are edges of the public grid, its categories the leaves of one
  node.
* The boxes of one release are disjoint or equal, and every row lies in its own, so the boxes determine where each row
  goes. A number on the edge of two boxes belongs to the upper one.
* A row that may be published at the root only is in a group of the whole domain, with such rows alone or with all.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.criteria import Criteria
from castleguard.release.grouped import all_of
from castleguard.release.shape_judge import ShapeJudge
from castleguard.schema.cells import contains
from castleguard.schema.coded import NEW, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Categorical, Numeric, Schema

Flags = NDArray[np.bool_]  # (groups,)
Ints = NDArray[np.int64]
Values = NDArray[np.float64]


class CellGate:
    """Checks the releases of one stream, in order. Has the methods of `release.gate.Gate`."""

    def __init__(self, schema: Schema, criteria: Criteria) -> None:
        self._criteria = criteria
        self._sides = [
            _NumberSide(role) if isinstance(role, Numeric) else _CategorySide(role) for role in schema.quasi_identifiers
        ]
        self._judge = _judge_of(schema, criteria)
        self._values = [len(role.labels or ()) + 1 for role in schema.sensitive]
        self._last = -1  # latest release checked

    @property
    def least(self) -> int | None:
        """Smallest number of rows in a published cell."""
        return self._criteria.k

    def check(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Flag the groups that may be published. `rows` are the decoded rows at `decisions.position`."""
        whole = np.ones(decisions.loss.size, dtype=np.bool_)
        sound = np.isin(decisions.kind, (NEW, ROOT)) & (decisions.event > self._last)
        inside = np.ones(rows.to_root.size, dtype=np.bool_)
        for at, side in enumerate(self._sides):
            lower, upper = decisions.lower[:, at], decisions.upper[:, at]
            sound &= side.is_public(lower, upper)
            whole &= (lower == side.low) & (upper == side.high)
            inside &= side.contains(rows.quasi[:, at], lower[decisions.group], upper[decisions.group])
        sound &= whole == (decisions.kind == ROOT)
        sound &= all_of(decisions.group, np.where(rows.to_root, whole[decisions.group], inside), whole.size)
        sound &= self._is_large_enough(decisions.group, rows.sensitive, whole.size)
        apart = whole & all_of(decisions.group, rows.to_root, whole.size)
        for event in np.unique(decisions.event):
            members = np.flatnonzero((decisions.event == event) & ~apart)
            sound[members] &= self._are_disjoint(decisions.lower[members], decisions.upper[members])
        self._last = max(self._last, int(decisions.event.max(initial=-1)))
        return sound

    def observe(self, sensitive: Ints, present: NDArray[np.bool_] | None = None) -> None:
        """Ignore arrivals: verdicts must not depend on rows that are not released."""

    def snapshot(self) -> dict[str, Ints]:
        """The latest release checked."""
        return {"last": np.array([self._last], dtype=np.int64)}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        """Restore from a snapshot."""
        self._last = int(arrays["last"][0])

    def _is_large_enough(self, group: Ints, codes: Ints, groups: int) -> Flags:
        """Whether every cell of a group has k rows, and every sensitive column l values that meet the criteria."""
        cells, rows = _tally(np.column_stack([group, codes]))
        enough = np.bincount(group, minlength=groups) > 0
        enough[cells[rows < self._criteria.k, 0]] = False
        for column in range(1, cells.shape[1]):
            values, _ = _tally(cells[:, [0, column]])
            enough &= np.bincount(values[:, 0], minlength=groups) >= self._criteria.l
        if self._judge is not None:
            for at in np.flatnonzero(enough):
                members = codes[group == at]
                enough[at] = self._judge.keeps(
                    [
                        np.bincount(members[:, column], minlength=size).astype(np.float64)
                        for column, size in enumerate(self._values)
                    ]
                )
        return enough

    def _are_disjoint(self, lower: Values, upper: Values) -> Flags:
        """Whether each box is disjoint from all others that differ from it."""
        alone = np.ones(len(lower), dtype=np.bool_)
        for at in range(len(lower)):
            common = np.ones(len(lower), dtype=np.bool_)
            for column, side in enumerate(self._sides):
                common &= side.meets(lower[at, column], upper[at, column], lower[:, column], upper[:, column])
            equal = np.all((lower == lower[at]) & (upper == upper[at]), axis=1)
            alone[at] = not np.any(common & ~equal)
        return alone


class _NumberSide:
    """One side of a box: a numeric quasi-identifier."""

    def __init__(self, role: Numeric) -> None:
        self._edges = role.edges
        self.low, self.high = float(role.edges[0]), float(role.edges[-1])

    def is_public(self, lower: Values, upper: Values) -> Flags:
        """Whether both bounds are grid edges, and differ unless the domain is a single point."""
        on_grid: Flags = np.isin(lower, self._edges) & np.isin(upper, self._edges)
        return on_grid & ((lower < upper) | (self.low == self.high))

    def contains(self, value: Values, lower: Values, upper: Values) -> Flags:
        """Whether each value lies in its side; the upper bound belongs to a side only at the end of the domain."""
        return contains(value, lower, upper, self.high)

    def meets(self, lower: float, upper: float, lowers: Values, uppers: Values) -> Flags:
        """Whether one side shares values with each of the others."""
        common: Flags = (lowers < upper) & (lower < uppers)
        return common | (self.low == self.high)


class _CategorySide:
    """One side of a box: a categorical quasi-identifier."""

    def __init__(self, role: Categorical) -> None:
        tree = role.hierarchy
        self._leaves = len(tree.leaves)
        self._nodes = tree.first_leaf * float(self._leaves) + tree.last_leaf
        self.low, self.high = 0.0, float(self._leaves - 1)

    def is_public(self, lower: Values, upper: Values) -> Flags:
        """Whether the bounds are the first and the last leaf of a node."""
        return (lower <= upper) & (upper <= self.high) & np.isin(lower * self._leaves + upper, self._nodes)

    def contains(self, value: Values, lower: Values, upper: Values) -> Flags:
        """Whether each leaf lies in its side."""
        inside: Flags = (lower <= value) & (value <= upper)
        return inside

    def meets(self, lower: float, upper: float, lowers: Values, uppers: Values) -> Flags:
        """Whether one side shares leaves with each of the others."""
        common: Flags = (lowers <= upper) & (lower <= uppers)
        return common


def _judge_of(schema: Schema, criteria: Criteria) -> ShapeJudge | None:
    """Judge of distributions; None if the criteria ask for none.

    A running reference contains cells that are never published, and only the engine knows it. So the gate judges
    closeness only against a public reference.
    """
    if criteria.closeness is not None and criteria.closeness.reference != "public":
        criteria = replace(criteria, closeness=None)
    return ShapeJudge(schema, criteria, remembered=0) if criteria.judges_shape else None


def _tally(keys: Ints) -> tuple[Ints, Ints]:
    """Distinct rows of an array, and the number of times each occurs."""
    keys = keys[np.lexsort(keys.T[::-1])]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    starts = np.flatnonzero(new)
    return keys[starts], np.diff(starts, append=len(keys))
