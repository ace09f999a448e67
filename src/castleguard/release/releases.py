"""The gate's judgement of distributions in releases that stand by themselves: rows are counted, whoever has them.

The reference of closeness is counted here as well. It holds the rows that have left in earlier releases, published or
not, and all rows of a release enter it together: so the order in which values stand in a published group never changes
a later verdict (docs/proofs/citadel.md).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.criteria import Criteria
from castleguard.release.reference import Codes
from castleguard.release.shape import Arrays, Pairs, ShapeJudge
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Schema

Flags = NDArray[np.bool_]


class ReleaseJudge(ShapeJudge):
    """Knows the values of the rows that have arrived and not left, and the distribution of those that have left."""

    def __init__(self, schema: Schema, criteria: Criteria) -> None:
        super().__init__(schema, criteria, remembered=0)
        self._moment = 0  # of the latest release, in arrivals

    def observe(self, codes: Codes, present: Flags) -> None:
        """Rows arrive. Their values are kept until they leave, if these are compared with."""
        if self._reference is None:
            self._arrivals += len(codes)
        else:
            super().observe(codes, present)

    def judge(self, decisions: Decisions, rows: CodedRows, alone: Flags) -> Flags:
        """Which of the groups that stand `alone` keep the criteria by their rows, release by release."""
        passed = np.zeros(alone.size, dtype=np.bool_)
        members = np.argsort(decisions.group, kind="stable")
        start = np.searchsorted(decisions.group[members], np.arange(alone.size + 1))
        leaving = np.concatenate([decisions.position, decisions.dropped])
        moment = np.concatenate([decisions.seen[decisions.group], decisions.dropped_seen])
        by_moment, by_seen = np.argsort(moment, kind="stable"), np.argsort(decisions.seen, kind="stable")
        for seen in np.unique(moment):
            for group in by_seen[_between(decisions.seen[by_seen], seen)]:
                own = members[start[group] : start[group + 1]]
                known = self._is_due(int(seen), int(decisions.position[own].max(initial=-1)))
                passed[group] = known and alone[group] and self.keeps(self.rows_of(rows, own))
            self._leave(leaving[by_moment[_between(moment[by_moment], seen)]])
            self._moment = max(self._moment, int(seen))
        self._forget()
        return passed

    def snapshot(self, memories: Sequence[Pairs] = ()) -> Arrays:
        """All that changes."""
        return super().snapshot(memories) | {"moment": np.array([self._moment], dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray], memories: Sequence[Pairs] = ()) -> None:  # type: ignore[type-arg]
        """Continue from a snapshot."""
        super().restore(arrays, memories)
        self._moment = int(arrays["moment"][0])

    def _is_due(self, seen: int, latest: int) -> bool:
        """Whether a release can have been made when `seen` rows had arrived, if `latest` is its last row."""
        return max(self._moment, latest + 1) <= seen <= self._arrivals + len(self._codes)

    def _leave(self, positions: NDArray[np.int64]) -> None:
        """Rows leave together; those that are known enter the reference, each of them once."""
        if self._reference is None:
            return
        at = np.unique(positions) - self._arrivals
        at = at[(at >= 0) & (at < len(self._codes))]
        at = at[self._present[at]]
        self._reference.count(self._codes[at])
        self._present[at] = False

    def _forget(self) -> None:
        """Drop the values before the first row that is still there."""
        gone = int(np.argmax(np.append(self._present, True)))
        self._codes, self._present = self._codes[gone:], self._present[gone:]
        self._arrivals += gone


def _between(ordered: NDArray[np.int64], value: np.int64) -> slice:
    """Where a value stands in an ordered array."""
    return slice(int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right")))
