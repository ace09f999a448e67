"""The gate of SDGS: it counts rows of released cells, and knows nothing of persons.

A check on persons would itself tell something: whether a cell comes out would depend on whose rows were sampled. So
this gate reads the rows that are about to be published and what is public, and nothing else (docs/proofs/sdgs.md).

* Every cell (a group's box with one combination of sensitive values) must have k rows, every group l values, and the
  values of a group the distribution that was asked for.
* A box must lie in the public domain, its numbers on the public grid, its categories must be one node's leaves.
* The boxes of one release must be disjoint or equal, and every row must lie in its own: whoever assigns rows to boxes
  has no choice then. A number on the edge of two boxes belongs to the upper one.
* A row that may only go to the root stands in a group of the whole domain; of such rows alone, or of all.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.criteria import Criteria
from castleguard.release.grouped import all_of
from castleguard.release.shape import ShapeJudge
from castleguard.schema.cells import contains
from castleguard.schema.coded import NEW, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Categorical, Numeric, Schema

Flags = NDArray[np.bool_]  # (groups,)
Ints = NDArray[np.int64]
Values = NDArray[np.float64]


class CellGate:
    """Checks the releases of one stream, in order. The same methods as `release.gate.Gate`."""

    def __init__(self, schema: Schema, criteria: Criteria) -> None:
        self._criteria = criteria
        self._sides = [
            _NumberSide(role) if isinstance(role, Numeric) else _CategorySide(role) for role in schema.quasi_identifiers
        ]
        self._judge = _judge_of(schema, criteria)
        self._values = [len(role.labels or ()) + 1 for role in schema.sensitive]
        self._last = -1  # the last release that was seen

    @property
    def least(self) -> int | None:
        """Persons, or rows, that it asks for in a group."""
        return self._criteria.k

    def check(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Which groups may be published. `rows` are the decoded rows at `decisions.position`."""
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
        """Rows arrive: nothing is learnt from those that are not released."""

    def snapshot(self) -> dict[str, Ints]:
        """The last release that was seen."""
        return {"last": np.array([self._last], dtype=np.int64)}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        """Continue from a snapshot."""
        self._last = int(arrays["last"][0])

    def _is_large_enough(self, group: Ints, codes: Ints, groups: int) -> Flags:
        """Whether every cell of a group has k rows, and every sensitive column l values in it."""
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
        """Whether each box has nothing in common with the others, but for those equal to it."""
        alone = np.ones(len(lower), dtype=np.bool_)
        for at in range(len(lower)):
            common = np.ones(len(lower), dtype=np.bool_)
            for column, side in enumerate(self._sides):
                common &= side.meets(lower[at, column], upper[at, column], lower[:, column], upper[:, column])
            equal = np.all((lower == lower[at]) & (upper == upper[at]), axis=1)
            alone[at] = not np.any(common & ~equal)
        return alone


class _NumberSide:
    """A numeric quasi-identifier, as the gate reads the schema."""

    def __init__(self, role: Numeric) -> None:
        self._edges = role.edges
        self.low, self.high = float(role.edges[0]), float(role.edges[-1])

    def is_public(self, lower: Values, upper: Values) -> Flags:
        """Whether both bounds are edges, with room between them unless the whole domain has none."""
        on_grid: Flags = np.isin(lower, self._edges) & np.isin(upper, self._edges)
        return on_grid & ((lower < upper) | (self.low == self.high))

    def contains(self, value: Values, lower: Values, upper: Values) -> Flags:
        """Whether each value lies in its side: at the upper end only where that ends the domain."""
        return contains(value, lower, upper, self.high)

    def meets(self, lower: float, upper: float, lowers: Values, uppers: Values) -> Flags:
        """Whether one side has values in common with each of the others."""
        common: Flags = (lowers < upper) & (lower < uppers)
        return common | (self.low == self.high)


class _CategorySide:
    """A categorical quasi-identifier, as the gate reads the schema."""

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
        """Whether one side has leaves in common with each of the others."""
        common: Flags = (lowers <= upper) & (lower <= uppers)
        return common


def _judge_of(schema: Schema, criteria: Criteria) -> ShapeJudge | None:
    """What judges the distribution of values. A running reference follows from cells that need not be published, so
    that only the engine knows it: closeness is judged again where its reference is public.
    """
    if criteria.closeness is not None and criteria.closeness.reference != "public":
        criteria = replace(criteria, closeness=None)
    return ShapeJudge(schema, criteria, remembered=0) if criteria.judges_shape else None


def _tally(keys: Ints) -> tuple[Ints, Ints]:
    """The different rows of an array, and how often each occurs."""
    keys = keys[np.lexsort(keys.T[::-1])]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    starts = np.flatnonzero(new)
    return keys[starts], np.diff(starts, append=len(keys))
