"""The gate of DOCA: checks the premises of the noise again, and that only declared values are published.

One release cannot show whether the noise is right, but it can show that its premises hold (docs/proofs/doca.md, "What
the gate checks again"):

* The rows of a group arrived within `delay` of one another; each is listed once; no person has more of them than the
  noise was calibrated for.
* Every number of a group is shared by at least k of its rows (strict), or by all of them (paper).
* In strict mode a group is a window, from one multiple of `delay` to the next, or a part of one. It has at least k
  rows, all later than those of earlier groups, and its numbers lie in their public domains. The bound on a person's
  rows holds over all parts of a window together.
* Labels are among those that the schema declares.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.release.grouped import all_of, run_lengths
from castleguard.schema.coded import NEW, CodedRows, Decisions
from castleguard.schema.levels import label_counts
from castleguard.schema.roles import Numeric, Schema

Flags = NDArray[np.bool_]  # (groups,)
Ints = NDArray[np.int64]
Values = NDArray[np.float64]


class PointGate:
    """Checks the releases of one stream, in order. Has the methods of `release.gate.Gate`.

    `k`: rows that share a number in strict mode, None in paper mode. `rows_per_person`: None for no bound.
    """

    def __init__(self, schema: Schema, *, delay: int, k: int | None, rows_per_person: int | None) -> None:
        self._delay = delay
        self._k = k
        self._max_rows = rows_per_person
        self._numbers = {at: role for at, role in enumerate(schema.quasi_identifiers) if isinstance(role, Numeric)}
        places = schema.described
        labels = {places.index(name): count for name, count in label_counts(schema).items()}
        # In paper mode points have no sensitive values: these are published with their rows, randomised at the intake.
        self._labels = {
            at: count for at, count in labels.items() if k is not None or at < len(schema.quasi_identifiers)
        }
        self._last = -1  # position of the latest row checked
        self._persons = np.empty(0, dtype=np.uint64)  # person of every row so far in that row's window

    @property
    def least(self) -> int | None:
        """Smallest number of rows in a published group; None in paper mode."""
        return self._k

    def check(self, decisions: Decisions, rows: CodedRows) -> Flags:
        """Flag the groups that may be published. `rows` are the decoded rows at `decisions.position`."""
        groups, group, points = decisions.loss.size, decisions.group, decisions.points
        columns = len(self._numbers) + len(self._labels)
        if points.shape != (group.size, columns) or not np.all(np.isfinite(points)):
            return np.zeros(groups, dtype=np.bool_)
        sound: Flags = (decisions.kind == NEW) & (np.bincount(group, minlength=groups) >= (self._k or 1))
        sound &= _are_listed_once(group, decisions.position, groups)
        if self._k is None:
            sound &= self._arrived_together(group, decisions.position, groups)
            sound &= self._is_bounded(group, rows.person, groups)
        else:
            order = np.argsort(group, kind="stable")
            ends = np.searchsorted(group[order], np.arange(groups + 1))
            for number in range(groups):
                members = order[ends[number] : ends[number + 1]]
                sound[number] &= self._follows(decisions.position[members], rows.person[members])
        for at, role in self._numbers.items():
            sound &= self._is_shared(group, points[:, at], groups)
            if self._k is not None and role.domain is not None:
                inside = (role.domain[0] <= points[:, at]) & (points[:, at] <= role.domain[1])
                sound &= all_of(group, inside, groups)
        for at, count in self._labels.items():
            label = points[:, at]
            sound &= all_of(group, (label == np.floor(label)) & (label >= 0) & (label < count), groups)
        return sound

    def observe(self, sensitive: Ints, present: NDArray[np.bool_] | None = None) -> None:
        """Ignore arrivals: verdicts depend on released rows only."""

    def snapshot(self) -> dict[str, Ints]:
        """The latest row, and the persons of its window."""
        return {"last": np.array([self._last], dtype=np.int64), "persons": self._persons.view(np.int64).copy()}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        """Restore from a snapshot."""
        self._last = int(arrays["last"][0])
        self._persons = arrays["persons"].view(np.uint64).copy()

    def _follows(self, position: Ints, person: NDArray[np.uint64]) -> bool:
        """Whether rows are of one window and later than all before, and no person has too many in the window."""
        first, last, before = int(position.min(initial=2**62)), int(position.max(initial=-1)), self._last
        self._last = max(before, last)
        if first <= before or first // self._delay != last // self._delay:
            return False
        if before // self._delay != first // self._delay:
            self._persons = self._persons[:0]
        if self._max_rows is None:
            return True
        self._persons = np.sort(np.concatenate([self._persons, person]))
        return bool(run_lengths(self._persons).max() <= self._max_rows)

    def _arrived_together(self, group: Ints, position: Ints, groups: int) -> Flags:
        """Whether the rows of each group arrived within `delay` of one another."""
        first, last = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1)
        np.minimum.at(first, group, position)
        np.maximum.at(last, group, position)
        together: Flags = last - first <= self._delay
        return together

    def _is_bounded(self, group: Ints, person: NDArray[np.uint64], groups: int) -> Flags:
        """Whether no person has more rows in a group than the noise was calibrated for."""
        if self._max_rows is None:
            return np.ones(groups, dtype=np.bool_)
        order = np.lexsort((person, group))
        runs = run_lengths(group[order], person[order])
        return all_of(group[order], runs <= self._max_rows, groups)

    def _is_shared(self, group: Ints, values: Values, groups: int) -> Flags:
        """Whether every number is shared by k rows of its group (strict) or by all of them (paper)."""
        order = np.lexsort((values, group))
        runs = run_lengths(group[order], values[order])
        if self._k is not None:
            return all_of(group[order], runs >= self._k, groups)
        sizes = np.bincount(group, minlength=groups)
        return all_of(group[order], runs == sizes[group[order]], groups)


def _are_listed_once(group: Ints, position: Ints, groups: int) -> Flags:
    """Whether each row of a group occurs once in this release: the same row k times would not hide anyone."""
    order = np.argsort(position, kind="stable")
    return all_of(group[order], run_lengths(position[order]) == 1, groups)
