"""The gate's check of distributions in releases that stand by themselves: counts rows, not pairs.

The reference of t-closeness holds the rows of earlier releases, published or not. All rows of a release enter it
together, so the order of values within a published group never changes a later verdict (docs/proofs/citadel.md).
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
    """Judges each release by itself, against the distribution of the rows of earlier releases."""

    def __init__(self, schema: Schema, criteria: Criteria) -> None:
        super().__init__(schema, criteria, remembered=0)
        self._moment = 0  # of the latest release, in arrivals

    def observe(self, codes: Codes, present: Flags) -> None:
        """Take rows as they arrive. With a reference, their values are kept until they leave."""
        if self._reference is None:
            self._arrivals += len(codes)
        else:
            super().observe(codes, present)

    def judge(self, decisions: Decisions, rows: CodedRows, alone: Flags) -> Flags:
        """Flag the groups of `alone` whose rows meet the criteria, release by release."""
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
        """The whole state."""
        return super().snapshot(memories) | {"moment": np.array([self._moment], dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray], memories: Sequence[Pairs] = ()) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        super().restore(arrays, memories)
        self._moment = int(arrays["moment"][0])

    def _is_due(self, seen: int, latest: int) -> bool:
        """Whether a release whose last row is `latest` can have been made when `seen` rows had arrived."""
        return max(self._moment, latest + 1) <= seen <= self._arrivals + len(self._codes)

    def _leave(self, positions: NDArray[np.int64]) -> None:
        """Move rows of one release into the reference; unknown positions are ignored, repeated ones count once."""
        if self._reference is None:
            return
        at = np.unique(positions) - self._arrivals
        at = at[(at >= 0) & (at < len(self._codes))]
        at = at[self._present[at]]
        self._reference.count(self._codes[at])
        self._present[at] = False

    def _forget(self) -> None:
        """Drop the values before the first row that has not left."""
        gone = int(np.argmax(np.append(self._present, True)))
        self._codes, self._present = self._codes[gone:], self._present[gone:]
        self._arrivals += gone


def _between(ordered: NDArray[np.int64], value: np.int64) -> slice:
    """Slice of an ordered array that equals a value."""
    return slice(int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right")))
