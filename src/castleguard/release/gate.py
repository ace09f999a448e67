"""The gate: nothing is published that it has not counted itself.

It sees each decision of the engine beside the rows as they were decoded, and trusts neither the engine's counts nor
its claim that a box was published before. A group that is not proven is refused: its rows are suppressed and counted.

* A new group must have k persons and l values of every sensitive column by itself.
* A reused box must be one that passed here before: it is known by its bounds, in a table as bounded as the engine's.
* The root is a group like any other: its first release must pass, later rows join it.
* A box must lie in the public domain, its numbers on the public grid, its categories must be one node's leaves, and
  every row must lie in its own box.
"""

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.census import count_distinct, mark_outside
from castleguard.privacy.criteria import Criteria
from castleguard.privacy.matching import persons_apart
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema

Flags = NDArray[np.bool_]  # (groups,)


class Gate:
    """Checks the decisions of one stream, in order.

    `known` bounds the table of boxes that may be used again; `on_grid` says that published numbers must be grid edges.
    """

    def __init__(self, schema: Schema, criteria: Criteria, *, known: int, on_grid: bool) -> None:
        self._schema = schema
        self._criteria = criteria
        self._most = known
        self._on_grid = on_grid
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._root_is_open = False
        self._intervals = [_node_intervals(schema, column) for column in range(len(schema.quasi_identifiers))]
        self._root = np.array([_root_interval(role) for role in schema.quasi_identifiers]).T

    def check(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Which groups may be published. `rows` are the decoded rows at `decisions.position`."""
        sound = self._boxes_are_public(decisions)
        outside = np.zeros(sound.size, dtype=np.bool_)
        mark_outside(decisions.group, rows.quasi, rows.to_root, decisions.lower, decisions.upper, outside)
        rootless = np.zeros(sound.size, dtype=np.bool_)
        rootless[decisions.group[rows.to_root]] = True
        sound &= ~outside & (~rootless | (decisions.kind == ROOT))
        passed = sound & self._stands_alone(decisions, rows)
        # A new group that nobody may use again needs no memory; the others are looked at in their order.
        for group in np.flatnonzero(decisions.kept | (decisions.kind != NEW)):
            kind = decisions.kind[group]
            if kind == ROOT:
                passed[group] = sound[group] and (self._root_is_open or bool(passed[group]))
                self._root_is_open |= bool(passed[group])
                continue
            box = decisions.lower[group].tobytes() + decisions.upper[group].tobytes()
            if kind == REUSED:
                passed[group] = sound[group] and box in self._known
            if passed[group]:
                self._remember(box)
        return passed

    def snapshot(self) -> dict[str, NDArray[np.float64]]:
        """What has been published and may be used again, oldest use first; and whether the root is open."""
        boxes = np.frombuffer(b"".join(self._known), dtype=np.float64)
        width = 2 * len(self._schema.quasi_identifiers)
        return {"known": boxes.reshape(-1, width).copy(), "root": np.array([float(self._root_is_open)])}

    def restore(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Continue from a snapshot."""
        self._known = OrderedDict((box.tobytes(), None) for box in arrays["known"])
        self._root_is_open = bool(arrays["root"][0])

    def _remember(self, box: bytes) -> None:
        self._known[box] = None
        self._known.move_to_end(box)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def _stands_alone(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Whether each group has its k persons and l values by itself."""
        groups = decisions.loss.size
        order = np.argsort(decisions.group, kind="stable")
        passed = _distinct(decisions.group, rows.person, order, groups) >= self._criteria.k
        if self._criteria.l > 1:
            for column in range(rows.sensitive.shape[1]):
                values = np.ascontiguousarray(rows.sensitive[:, column]).view(np.uint64)
                passed &= _distinct(decisions.group, values, order, groups) >= self._criteria.l
            if self._criteria.l_per == "person":
                start = np.searchsorted(decisions.group[order], np.arange(groups + 1))
                for group in np.flatnonzero(passed & (decisions.kind != REUSED)):
                    passed[group] = self._persons_stand_apart(rows, order[start[group] : start[group + 1]])
        return passed

    def _persons_stand_apart(self, rows: CodedRows, members: Iterable[int]) -> bool:
        """Whether l different persons can stand for l different values, in every sensitive column."""
        return all(
            persons_apart(
                ((int(rows.person[row]), int(rows.sensitive[row, column])) for row in members), self._criteria.l
            )
            >= self._criteria.l
            for column in range(rows.sensitive.shape[1])
        )

    def _boxes_are_public(self, decisions: Decisions) -> Flags:
        """Whether each box says nothing beyond the schema: inside the domain, on the grid, or one node's leaves."""
        sound: Flags = np.all(decisions.lower <= decisions.upper, axis=1)
        whole = np.all((decisions.lower == self._root[0]) & (decisions.upper == self._root[1]), axis=1)
        sound &= whole | (decisions.kind != ROOT)
        for column, role in enumerate(self._schema.quasi_identifiers):
            lower, upper = decisions.lower[:, column], decisions.upper[:, column]
            if not isinstance(role, Numeric):
                sound &= _are_in(lower * len(role.hierarchy.leaves) + upper, self._intervals[column])
            elif role.domain is not None:
                sound &= (lower >= role.domain[0]) & (upper <= role.domain[1])
                if self._on_grid:
                    sound &= _are_in(lower, role.edges) & _are_in(upper, role.edges)
        return sound


def _distinct(
    group: NDArray[np.int64], keys: NDArray[np.uint64], order: NDArray[np.int64], groups: int
) -> NDArray[np.int64]:
    """How many different keys each group has."""
    capacity = 1 << max(4, (2 * group.size).bit_length())
    distinct = np.zeros(groups, dtype=np.int64)
    seen = np.empty(capacity, dtype=np.uint64)
    count_distinct(group, keys, order, seen, np.full(capacity, -1, dtype=np.int64), distinct)
    return distinct


def _are_in(values: NDArray[np.float64], allowed: NDArray[np.float64]) -> Flags:
    """Whether each value is one of the sorted allowed ones."""
    at = np.searchsorted(allowed, values)
    found: Flags = allowed[np.minimum(at, allowed.size - 1)] == values
    return found


def _root_interval(role: QuasiIdentifier) -> tuple[float, float]:
    """The interval that says nothing."""
    if isinstance(role, Numeric):
        return role.domain or (-np.inf, np.inf)
    return 0.0, float(len(role.hierarchy.leaves) - 1)


def _node_intervals(schema: Schema, column: int) -> NDArray[np.float64]:
    """The leaf intervals of a category's nodes, each as first * leaves + last; empty for a number."""
    role = schema.quasi_identifiers[column]
    if isinstance(role, Numeric):
        return np.empty(0)
    tree = role.hierarchy
    return np.unique(tree.first_leaf.astype(np.float64) * len(tree.leaves) + tree.last_leaf)
