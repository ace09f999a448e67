"""The gate: publishes a group only if its own count of the decoded rows meets the criteria.

The gate compares each decision of the engine with the rows as they were decoded. It uses neither the engine's counts
nor the engine's claim that a box was published before. If a group fails, its rows are suppressed and counted.

Every group, new or reused:

* The box lies in the public domain, where the schema declares one. Its categories are exactly the leaves of one node.
  With `on_grid`, its numeric bounds are edges of the public grid, at least one cell apart unless the domain has one
  point.
* Every row lies in its own box; grid cells are half-open (`schema/cells.py`). A row that may be published at the root
  only is in the root group.

k and l (docs/proofs/castle.md, "K and L by the gate"):

* A new group has at least k distinct persons and at least l distinct values of every sensitive column; with
  `l_per="person"`, l persons can be matched to l values, one each. Rows without a person (NO_PERSON) count for neither.
* A reused box has passed this gate before, or was published by or with other sites (`adopt`). The gate knows boxes by
  their bounds, in a table of the engine's size.
* The first release of the root must pass like a new group; later rows join it.
* With `reuse` off, no row joins an earlier group: every group of every release must pass by itself.
* With `bounded_share`, no person has more than 1/k of the rows of a new group (docs/proofs/citadel.md). This implies
  k persons, which are still counted. Here all rows of NO_PERSON count as one person's.

Distributions of sensitive values (entropy, (c, l)-diversity, t-closeness; docs/proofs/criteria.md):

* A new group meets the criterion by itself, and every group together with the remembered pairs of its box. The
  reference is the gate's own, counted up to the moment of the decision. Above the limit of pairs, all boxes and the
  root are forgotten.
* With `bounded_share`, the criterion is judged over all rows of a group in its release, against a reference of the rows
  of earlier releases. Nothing is remembered: a union of groups that meet the criterion meets it too.
"""

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.census import count_distinct, mark_outside
from castleguard.privacy.criteria import Criteria
from castleguard.privacy.matching import largest_matching
from castleguard.release.grouped import by_group
from castleguard.release.shape_judge import Arrays, Pairs, ReleaseJudge, ShapeJudge
from castleguard.schema.cells import largest_inside
from castleguard.schema.coded import NEW, NO_PERSON, REUSED, ROOT, CodedRows, Decisions, Persons, SensitiveCodes
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema

Flags = NDArray[np.bool_]  # (groups,)
Box = tuple[NDArray[np.float64], NDArray[np.float64]]  # lower and upper bounds, (columns,) each


class Gate:
    """Checks the decisions of one stream, in order.

    `known`: size of the table of boxes that may be reused. `on_grid`: published numbers must be grid edges.
    `remembered`: limit of the (person, value) pairs remembered of these boxes, per sensitive column. `reuse`: rows may
    join an earlier group. `bounded_share`: a person may have at most 1/k of the rows of a new group; distributions then
    count the rows of one release instead of the pairs of all releases.
    """

    def __init__(
        self,
        schema: Schema,
        criteria: Criteria,
        *,
        known: int,
        on_grid: bool,
        remembered: int = 1 << 16,
        reuse: bool = True,
        bounded_share: bool = False,
    ) -> None:
        self._schema, self._criteria = schema, criteria
        self._max_boxes = known
        self._on_grid, self._reuse, self._bounded_share = on_grid, reuse, bounded_share
        self._known: OrderedDict[bytes, Pairs | None] = OrderedDict()
        self._root_is_open = False
        shaped = criteria.judges_shape
        self._judge = ShapeJudge(schema, criteria, remembered=remembered) if shaped and not bounded_share else None
        self._releases = ReleaseJudge(schema, criteria) if shaped and bounded_share else None
        self._root_memory = None if self._judge is None else self._judge.new_memory(numbered=False)
        self._intervals = [_node_intervals(schema, column) for column in range(len(schema.quasi_identifiers))]
        self._root = np.array([_root_interval(role) for role in schema.quasi_identifiers]).T + 0.0
        self._root_box = self._root[0].tobytes() + self._root[1].tobytes()

    @property
    def least(self) -> int | None:
        """Smallest number of persons in a published group."""
        return self._criteria.k

    def check(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Flag the groups that may be published. `rows` are the decoded rows at `decisions.position`."""
        sound = self._boxes_are_public(decisions)
        outside = np.zeros(sound.size, dtype=np.bool_)
        largest = self._largest_inside(decisions.upper)
        mark_outside(decisions.group, rows.quasi, rows.to_root, decisions.lower, largest, outside)
        needs_root = np.zeros(sound.size, dtype=np.bool_)
        needs_root[decisions.group[rows.to_root]] = True
        sound &= ~outside & (~needs_root | (decisions.kind == ROOT))
        if not self._reuse:
            sound &= decisions.kind != REUSED
        passed = sound & self._meets_k_and_l(decisions, rows)
        if self._releases is not None:
            passed = self._releases.judge(decisions, rows, passed)
        if self._judge is not None:
            return self._judge_in_order(self._judge, decisions, rows, sound, passed)
        # A new group whose box is not kept leaves no trace in the table. The others depend on one another's order.
        for group in np.flatnonzero(decisions.kept | (decisions.kind != NEW)):
            kind = decisions.kind[group]
            if kind == ROOT:
                passed[group] = sound[group] and (self._root_is_open or bool(passed[group]))
                self._root_is_open |= bool(passed[group]) and self._reuse
                continue
            box = decisions.lower[group].tobytes() + decisions.upper[group].tobytes()
            if kind == REUSED:
                passed[group] = sound[group] and box in self._known
            if passed[group]:
                self._remember(box)
        return passed

    def check_joint(self, box: Box, rows: CodedRows, tokens: Persons, values: SensitiveCodes) -> bool:
        """Whether rows of this stream and of other sites may form one group in a box (docs/proofs/dcastle.md).

        Only person tokens and sensitive values of other sites' rows are known; each site checks that its rows lie in
        the box.
        """
        one = np.zeros(rows.person.size, dtype=np.int64)
        decisions = _new_groups(box[0][None, :], box[1][None, :], one)
        outside = np.zeros(1, dtype=np.bool_)
        mark_outside(one, rows.quasi, rows.to_root, decisions.lower, self._largest_inside(decisions.upper), outside)
        if outside[0] or rows.to_root.any() or not self._boxes_are_public(decisions)[0]:
            return False
        persons, codes = np.concatenate([rows.person, tokens]), np.concatenate([rows.sensitive, values])
        persons, codes = persons[persons != NO_PERSON], codes[persons != NO_PERSON]
        if np.unique(persons).size < self._criteria.k:
            return False
        columns = range(codes.shape[1] if self._criteria.l > 1 else 0)
        return all(np.unique(codes[:, at]).size >= self._criteria.l for at in columns)

    def knows(self, box: Box) -> bool:
        """Whether a box has passed this gate and may be reused."""
        return box[0].tobytes() + box[1].tobytes() in self._known

    def adopt(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> Flags:
        """Flag the boxes (boxes, columns) of releases by or with other sites that may be reused here.

        The gate of the coordinating site has counted their k persons and l values.
        """
        public = self._boxes_are_public(_new_groups(lower, upper, np.zeros(0, dtype=np.int64)))
        for low, high in zip(lower[public], upper[public], strict=True):
            self._remember(low.tobytes() + high.tobytes())
        return public

    def observe(self, sensitive: SensitiveCodes, present: Flags | None = None) -> None:
        """Count rows for the reference as the engine gets them; only rows that are `present` can be published."""
        judge = self._judge or self._releases
        if judge is not None:
            judge.observe(sensitive, np.ones(len(sensitive), dtype=np.bool_) if present is None else present)

    def snapshot(self) -> Arrays:
        """Known boxes, least recently used first; whether the root is open; state of the distributions."""
        boxes = np.frombuffer(b"".join(self._known), dtype=np.float64)
        width = 2 * len(self._schema.quasi_identifiers)
        arrays: Arrays = {"known": boxes.reshape(-1, width).copy(), "root": np.array([float(self._root_is_open)])}
        if self._judge is not None:
            arrays |= self._judge.snapshot(self._memories())
        if self._releases is not None:
            arrays |= self._releases.snapshot()
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Restore from a snapshot."""
        judge = self._judge
        self._known = OrderedDict(
            (box.tobytes(), None if judge is None else judge.new_memory(numbered=True)) for box in arrays["known"]
        )
        self._root_is_open = bool(arrays["root"][0]) and self._reuse
        if judge is not None:
            self._root_memory = judge.new_memory(numbered=False)
            judge.restore(arrays, self._memories())
        if self._releases is not None:
            self._releases.restore(arrays)

    def _memories(self) -> list[Pairs]:
        """Remembered pairs of the root, then of the known boxes in their order."""
        return [memory for memory in (self._root_memory, *self._known.values()) if memory is not None]

    def _remember(self, box: bytes) -> None:
        if box not in self._known:
            self._known[box] = None if self._judge is None else self._judge.new_memory(numbered=box != self._root_box)
        self._known.move_to_end(box)
        if len(self._known) > self._max_boxes:
            self._known.popitem(last=False)

    def _memory_of(self, box: bytes) -> Pairs | None:
        """Remembered pairs of a box, None if it has none. The root and other groups in the root's box share them."""
        return self._root_memory if box == self._root_box else self._known.get(box)

    def _judge_in_order(
        self, judge: ShapeJudge, decisions: Decisions, rows: CodedRows, sound: Flags, alone: Flags
    ) -> Flags:
        """Flag the groups that may be published where distributions are judged by pairs.

        In order, because each group changes the reference and the pairs that the next one is compared with.
        """
        passed = np.zeros(alone.size, dtype=np.bool_)
        lower, upper = decisions.lower + 0.0, decisions.upper + 0.0  # 0 and -0 are the same bound
        order = by_group(decisions.group, alone.size)
        start = np.searchsorted(decisions.group[order], np.arange(alone.size + 1))
        for group in range(alone.size):
            members = order[start[group] : start[group + 1]]
            kind, box = decisions.kind[group], lower[group].tobytes() + upper[group].tobytes()
            joins = bool(self._root_is_open if kind == ROOT else kind == REUSED and box in self._known)
            latest = int(decisions.position[members].max(initial=-1))
            if not judge.move_to(int(decisions.seen[group]), latest) or not sound[group]:
                continue
            if not joins and (kind == REUSED or not alone[group]):
                continue
            pairs, memory = judge.pairs_of(rows, members), self._memory_of(box)
            passed[group] = (joins or judge.keeps(pairs.counts, pairs.no_person())) and (
                memory is None or judge.keeps(memory.counts_with(pairs), memory.no_person(pairs))
            )
            if passed[group]:
                self._record(judge, pairs, box, kind=kind, kept=bool(decisions.kept[group]), rows=members.size)
        judge.move_on()
        return passed

    def _record(self, judge: ShapeJudge, pairs: Pairs, box: bytes, *, kind: int, kept: bool, rows: int) -> None:
        """Remember the published pairs of a box if the box may be reused or has remembered pairs already."""
        opens = kind == ROOT and not self._root_is_open
        stays = kind == REUSED or (kept and kind != ROOT)
        if (stays or self._memory_of(box) is not None) and judge.is_crowded(rows):
            # Forget everything: known boxes and the root must pass as new groups again.
            self._known.clear()
            self._root_memory = judge.new_memory(numbered=False)
            self._root_is_open = False
            stays = stays and kind != REUSED
        if stays:
            self._remember(box)
        self._root_is_open |= opens and self._reuse
        memory = self._memory_of(box)
        if memory is not None:
            judge.remember(memory, pairs)

    def _meets_k_and_l(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Whether each group has k persons and l values by itself; rows of NO_PERSON count for neither."""
        groups = decisions.loss.size
        order = by_group(decisions.group, groups)
        order = order[rows.person[order] != NO_PERSON]
        passed = _count_keys(decisions.group, rows.person, order, groups) >= self._criteria.k
        if self._bounded_share:
            passed &= np.bincount(decisions.group, minlength=groups) >= self._criteria.k * _most_rows(decisions, rows)
        if self._criteria.l > 1:
            for column in range(rows.sensitive.shape[1]):
                values = np.ascontiguousarray(rows.sensitive[:, column]).view(np.uint64)
                passed &= _count_keys(decisions.group, values, order, groups) >= self._criteria.l
            if self._criteria.l_per == "person":
                start = np.searchsorted(decisions.group[order], np.arange(groups + 1))
                for group in np.flatnonzero(passed & (decisions.kind != REUSED)):
                    passed[group] = self._meets_l_per_person(rows, order[start[group] : start[group + 1]])
        return passed

    def _meets_l_per_person(self, rows: CodedRows, members: Iterable[int]) -> bool:
        """Whether l different persons can be matched to l different values, in every sensitive column."""
        return all(
            largest_matching(
                ((int(rows.person[row]), int(rows.sensitive[row, column])) for row in members), self._criteria.l
            )
            >= self._criteria.l
            for column in range(rows.sensitive.shape[1])
        )

    def _boxes_are_public(self, decisions: Decisions) -> Flags:
        """Whether each box follows from the schema alone: inside the domain, on the grid, or the leaves of one node."""
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
                    # Two equal bounds would publish a value, unless the domain is that one value.
                    sound &= (lower < upper) | (role.edges.size == 1)
        return sound

    def _largest_inside(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest value inside each side of a box (groups, columns): grid cells are half-open."""
        largest = upper.copy()
        for column, role in enumerate(self._schema.quasi_identifiers):
            if self._on_grid and isinstance(role, Numeric) and role.edges.size:
                largest[:, column] = largest_inside(upper[:, column], float(role.edges[-1]))
        return largest


def _new_groups(lower: NDArray[np.float64], upper: NDArray[np.float64], group: NDArray[np.int64]) -> Decisions:
    """Decisions that propose a new group for each box."""
    zeros = np.zeros(len(lower), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    return Decisions(
        position=nothing,
        group=group,
        lower=lower,
        upper=upper,
        loss=np.zeros(len(lower)),
        kind=zeros + NEW,
        kept=zeros == 1,
        event=zeros,
        seen=zeros,
        dropped=nothing,
    )


def _count_keys(
    group: NDArray[np.int64], keys: NDArray[np.uint64], order: NDArray[np.int64], groups: int
) -> NDArray[np.int64]:
    """(groups,) number of distinct keys in each group."""
    largest = int(np.bincount(group, minlength=1).max())  # a group at a time is in the table
    capacity = 1 << max(4, (2 * largest).bit_length())
    distinct = np.zeros(groups, dtype=np.int64)
    seen = np.empty(capacity, dtype=np.uint64)
    count_distinct(group, keys, order, seen, np.full(capacity, -1, dtype=np.int64), distinct)
    return distinct


def _are_in(values: NDArray[np.float64], allowed: NDArray[np.float64]) -> Flags:
    """Whether each value is among the allowed ones, which are sorted."""
    at = np.searchsorted(allowed, values)
    found: Flags = allowed[np.minimum(at, allowed.size - 1)] == values
    return found


def _root_interval(role: QuasiIdentifier) -> tuple[float, float]:
    """The whole domain of a column; infinite if the schema declares none."""
    if isinstance(role, Numeric):
        return role.domain or (-np.inf, np.inf)
    return 0.0, float(len(role.hierarchy.leaves) - 1)


def _node_intervals(schema: Schema, column: int) -> NDArray[np.float64]:
    """Leaf intervals of a category's nodes, each as first * leaves + last; empty for a number."""
    role = schema.quasi_identifiers[column]
    if isinstance(role, Numeric):
        return np.empty(0)
    tree = role.hierarchy
    return np.unique(tree.first_leaf.astype(np.float64) * len(tree.leaves) + tree.last_leaf)


def _most_rows(decisions: Decisions, rows: CodedRows) -> NDArray[np.int64]:
    """(groups,) rows of the person with the most rows in each group; rows of NO_PERSON count as one person's."""
    most = np.zeros(decisions.loss.size, dtype=np.int64)
    order = np.lexsort((rows.person, decisions.group))
    group, person = decisions.group[order], rows.person[order]
    first = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (person[1:] != person[:-1])][: group.size])
    np.maximum.at(most, group[first], np.diff(np.r_[first, group.size]))
    return most
