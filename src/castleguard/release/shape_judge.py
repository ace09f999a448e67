"""The gate's own check of distributions of sensitive values: entropy, (c, l)-diversity, t-closeness.

Counts distinct (person, value) pairs of the decoded rows, for a group by itself and together with the remembered pairs
of its box; or, for releases that are judged separately, the rows of a group. The gate has its own reference. The engine
implements the same rules (which counts pass, and when all remembered pairs are dropped because they are too many)
independently.
Papers: `privacy/closeness.py`, `privacy/diversity.py`; proofs: docs/proofs/criteria.md.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.closeness import distance_between, tree_with_missing
from castleguard.privacy.criteria import MOST_VALUES, ColumnFacts, Criteria
from castleguard.privacy.diversity import is_entropy_diverse, is_recursive_diverse
from castleguard.release.gate_reference import Codes, Reference
from castleguard.schema.coded import NO_PERSON, CodedRows, Decisions
from castleguard.schema.roles import Schema

_SLACK = 1e-9  # rounding error of a distance
_OWNERS = 1 << 32  # boxes x columns x values that fit into the engine's table

Arrays = dict[str, NDArray]  # type: ignore[type-arg]  # of any element type
Flags = NDArray[np.bool_]


class Pairs:
    """Distinct (person, value) pairs of each sensitive column, and the number of pairs of each value."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.known: list[set[tuple[int, int]]] = [set() for _ in sizes]
        self.counts = [np.zeros(size) for size in sizes]

    def new(self, other: "Pairs") -> list[set[tuple[int, int]]]:
        """Pairs of the other that are not among these."""
        return [theirs - mine for mine, theirs in zip(self.known, other.known, strict=True)]

    def counts_with(self, other: "Pairs") -> list[NDArray[np.float64]]:
        """Counts of the union of both."""
        return [counts + _tally(fresh, counts.size) for counts, fresh in zip(self.counts, self.new(other), strict=True)]

    def no_person(self, other: "Pairs | None" = None) -> list[NDArray[np.float64]]:
        """1 for each value that has a pair of NO_PERSON, here or in the other; else 0."""
        found = []
        for column, counts in enumerate(self.counts):
            known = self.known[column] | (set() if other is None else other.known[column])
            found.append(np.array([float((int(NO_PERSON), value) in known) for value in range(counts.size)]))
        return found

    def add(self, other: "Pairs") -> int:
        """Add the pairs of the other, and return the number of new ones."""
        fresh = self.new(other)
        for column, pairs in enumerate(fresh):
            self.counts[column] += _tally(pairs, self.counts[column].size)
            self.known[column] |= pairs
        return sum(map(len, fresh))


class ShapeJudge:
    """Judges groups by the distribution of their values, against the values of the rows that have arrived.

    `remembered`: limit of the remembered pairs per sensitive column.
    """

    def __init__(self, schema: Schema, criteria: Criteria, *, remembered: int) -> None:
        labels = {role.name: role.labels for role in schema.sensitive}
        criteria.check_columns(
            {
                role.name: ColumnFacts(
                    None if (known := labels[role.name]) is None else len(known), bool(role.hierarchy)
                )
                for role in schema.sensitive
            }
        )
        self._criteria = criteria
        self._sizes = [len(known or ()) + 1 for known in labels.values()]
        self._trees = [
            None if role.hierarchy is None else tree_with_missing(role.hierarchy.parents, role.hierarchy.leaf_nodes)
            for role in schema.sensitive
        ]
        self._reference: Reference | None = None
        closeness = criteria.closeness
        if closeness is not None:
            is_public = closeness.reference == "public"
            public = [closeness.public_shares(name, known or ()) for name, known in labels.items() if is_public]
            self._reference = Reference(closeness, self._sizes, public)
        self._room = remembered * len(self._sizes)
        self._arrivals = 0  # rows that the reference contains
        self._codes = np.empty((0, len(self._sizes)), dtype=np.int64)  # codes of later rows
        self._present = np.empty(0, dtype=np.bool_)
        self._pairs = 0  # pairs remembered since the last reset
        self._boxes = 0

    def observe(self, codes: Codes, present: NDArray[np.bool_]) -> None:
        """Record rows as they arrive. Only rows that are present count."""
        self._codes = np.concatenate([self._codes, self._within(codes)])
        self._present = np.concatenate([self._present, present])

    def move_to(self, seen: int, latest: int) -> bool:
        """Bring the reference up to the moment when `seen` rows had arrived.

        False, without effect, if the reference is past that moment, if fewer rows have arrived, or if the row at
        position `latest` arrived later.
        """
        if not max(self._arrivals, latest + 1) <= seen <= self._arrivals + len(self._codes):
            return False
        passed = seen - self._arrivals
        if self._reference is not None and passed:
            self._reference.count(self._codes[:passed][self._present[:passed]])
        self._codes, self._present = self._codes[passed:], self._present[passed:]
        self._arrivals = seen
        return True

    def move_on(self) -> None:
        """Bring the reference up to the last arrival: all later decisions are made after it."""
        self.move_to(self._arrivals + len(self._codes), -1)

    def pairs_of(self, rows: CodedRows, members: NDArray[np.int64]) -> Pairs:
        """Pairs of the rows listed in `members`."""
        pairs = Pairs(self._sizes)
        found = Pairs(self._sizes)
        persons = rows.person[members].tolist()
        codes = self._within(rows.sensitive[members])
        for column in range(len(self._sizes)):
            found.known[column] = set(zip(persons, codes[:, column].tolist(), strict=True))
        pairs.add(found)
        return pairs

    def rows_of(self, rows: CodedRows, members: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        """Occurrences of each value of each column in the rows listed in `members`."""
        codes = self._within(rows.sensitive[members])
        return [
            np.bincount(codes[:, column], minlength=size).astype(np.float64) for column, size in enumerate(self._sizes)
        ]

    def keeps(
        self, counts: Sequence[NDArray[np.float64]], no_person: Sequence[NDArray[np.float64]] | None = None
    ) -> bool:
        """Whether the counts of all columns meet the criteria now; `no_person`: those of pairs of NO_PERSON (None: 0).

        Pairs of NO_PERSON must not make a group diverse, so it must be diverse with and without them. For closeness,
        they count as one person's.
        """
        if self._reference is not None and not self._reference.is_burnt_in:
            return False
        return all(
            self._is_diverse(found) and self._is_diverse(found - unnamed) and self._is_close(column, found)
            for column, (found, unnamed) in enumerate(
                zip(counts, no_person or [np.zeros(1)] * len(counts), strict=True)
            )
        )

    def is_crowded(self, rows: int) -> bool:
        """Whether the pairs of this many rows, or one more box, might exceed the limit; if so, all counts start over.

        The caller must then drop all memories. The engine follows the same rule, so both remember the same boxes.
        """
        columns = len(self._sizes)
        if self._pairs + rows * columns <= self._room and (self._boxes + 2) * columns * (MOST_VALUES + 1) <= _OWNERS:
            return False
        self._pairs = self._boxes = 0
        return True

    def new_memory(self, *, numbered: bool) -> Pairs:
        """Empty pairs for a box; the root's are not `numbered`."""
        self._boxes += numbered
        return Pairs(self._sizes)

    def remember(self, memory: Pairs, pairs: Pairs) -> None:
        """Add published pairs to the memory of their box."""
        self._pairs += memory.add(pairs)

    def snapshot(self, memories: Sequence[Pairs]) -> Arrays:
        """The whole state, and the memories, each under its index."""
        listed = [
            (place, column, value, person)
            for place, memory in enumerate(memories)
            for column, known in enumerate(memory.known)
            for person, value in sorted(known)
        ]
        arrays: Arrays = {
            "pairs": np.array([entry[:3] for entry in listed], dtype=np.int64).reshape(-1, 3),
            "pair_persons": np.array([entry[3] for entry in listed], dtype=np.uint64),
            "moments": np.array([self._arrivals, self._pairs, self._boxes], dtype=np.int64),
            "codes": self._codes.copy(),
            "present": self._present.copy(),
        }
        return arrays | ({} if self._reference is None else self._reference.snapshot())

    def restore(self, arrays: Mapping[str, NDArray], memories: Sequence[Pairs]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot; `memories`: empty ones, as many as the snapshot holds."""
        self._arrivals, self._pairs, self._boxes = map(int, arrays["moments"])
        self._codes, self._present = arrays["codes"].copy(), arrays["present"].copy()
        for (place, column, value), person in zip(
            arrays["pairs"].tolist(), arrays["pair_persons"].tolist(), strict=True
        ):
            memories[place].known[column].add((person, value))
            memories[place].counts[column][value] += 1
        if self._reference is not None:
            self._reference.restore(dict(arrays))

    def _within(self, codes: Codes) -> Codes:
        """Codes, with those outside their column's values replaced by the missing value."""
        last = np.array(self._sizes) - 1
        return np.where((codes >= 0) & (codes < last), codes, last)

    def _is_diverse(self, counts: NDArray[np.float64]) -> bool:
        criteria = self._criteria
        if criteria.diversity == "entropy" and not is_entropy_diverse(counts, criteria.l):
            return False
        return criteria.c is None or is_recursive_diverse(counts, criteria.c, criteria.l)

    def _is_close(self, column: int, counts: NDArray[np.float64]) -> bool:
        criteria = self._criteria
        if criteria.closeness is None or self._reference is None:
            return True
        total = counts.sum()
        if total == 0:
            return False
        far = distance_between(
            criteria.closeness.distance, counts / total, self._reference.shares(column), self._trees[column]
        )
        return far <= criteria.closeness.t + _SLACK


class ReleaseJudge(ShapeJudge):
    """Judges each release by itself, by its rows, against the distribution of the rows of earlier releases.

    The reference holds those rows whether they were published or not. All rows of a release enter it together, so the
    order of values within a published group never changes a later verdict (docs/proofs/citadel.md).
    """

    def __init__(self, schema: Schema, criteria: Criteria) -> None:
        super().__init__(schema, criteria, remembered=0)
        self._moment = 0  # number of arrivals at the latest release

    def observe(self, codes: Codes, present: Flags) -> None:
        """Record rows as they arrive. With a reference, their values are kept until they leave."""
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


def _tally(pairs: set[tuple[int, int]], size: int) -> NDArray[np.float64]:
    counts = np.zeros(size)
    for _, value in pairs:
        counts[value] += 1
    return counts


def _between(ordered: NDArray[np.int64], value: np.int64) -> slice:
    """Slice of a sorted array whose entries equal a value."""
    return slice(int(np.searchsorted(ordered, value)), int(np.searchsorted(ordered, value, side="right")))
