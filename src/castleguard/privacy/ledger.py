"""The ledger: bounds the rows of one person, and so the person's privacy loss. See docs/proofs/local.md.

A promise per row says little about a person with many rows. The ledger admits a limited number of rows of a person in
any window and leaves out the others. Its choice depends on persons and times only, never on values.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.admission import HEAD, HELD, TAIL, Books, admit_rows, move_counts
from castleguard.kernels.counts import new_table
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import Arrays


class Ledger:
    """Admits at most `rows_per_person` rows of a person.

    Sliding: in every window of this length. Aligned: in each of the windows [0, w), [w, 2w), ... With an infinite
    window, every person stays in memory. All rows of NO_PERSON count as one person's. Without `admits_unnamed` they are
    left out, for policies that count admitted rows as persons.
    """

    def __init__(
        self, *, rows_per_person: int, window: float = math.inf, aligned: bool = False, admits_unnamed: bool = True
    ) -> None:
        self._max_rows = rows_per_person
        self._window = window
        self._aligned = aligned
        self._admits_unnamed = admits_unnamed
        self._current = -math.inf  # current aligned window
        self._books = _new_books(0, 0)

    @property
    def windows(self) -> dict[str, object]:
        """Length and alignment of the windows, as JSON values.

        A ledger can take over the counts of another only if these agree; the row limits may differ.
        """
        return {"window": None if self._window == math.inf else self._window, "aligned": self._aligned}

    def admit(self, person: NDArray[np.uint64], when: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Flag the admitted rows. `when` (seconds or arrival numbers) must not decrease, within or between calls."""
        admitted = np.zeros(person.size, dtype=np.bool_)
        named: NDArray[np.bool_] = (person != NO_PERSON) | self._admits_unnamed
        if not self._aligned:
            self._admit(person, when, self._window, admitted)
            return admitted & named
        number = np.floor(when / self._window)
        for start, stop in _runs(number):
            if number[start] != self._current:
                self._current = float(number[start])
                self._books = _new_books(0, 0)
            self._admit(person[start:stop], when[start:stop], math.inf, admitted[start:stop])
        return admitted & named

    def snapshot(self) -> Arrays:
        """Person hashes and times of the admitted rows, and counts by person."""
        books = self._books
        head, tail, held = (int(end) for end in books.ends)
        table = books.table[books.table[:, 1] != 0]
        return {
            "person": books.person[head:tail].copy(),
            "when": books.when[head:tail].copy(),
            "table": table.copy(),
            "marks": np.array([self._current, held], dtype=np.float64),
        }

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        held = int(arrays["marks"][1])
        count = arrays["person"].size
        books = _new_books(count, held)
        books.person[:count], books.when[:count] = arrays["person"], arrays["when"]
        books.ends[:] = (0, count, held)
        move_counts(np.require(arrays["table"], requirements=["C", "W"]), books.table)
        self._books, self._current = books, float(arrays["marks"][0])

    def _admit(
        self, person: NDArray[np.uint64], when: NDArray[np.float64], window: float, admitted: NDArray[np.bool_]
    ) -> None:
        self._make_room(person.size, 0 if window == math.inf else person.size)
        admit_rows(
            self._books, np.ascontiguousarray(person), np.ascontiguousarray(when), self._max_rows, window, admitted
        )

    def _make_room(self, persons: int, queued: int) -> None:
        """Make room for more persons and queued rows: larger arrays, without rows that have left the window."""
        books = self._books
        head, tail, held = (int(books.ends[end]) for end in (HEAD, TAIL, HELD))
        if tail + queued <= books.person.size and 2 * (held + persons) <= len(books.table):
            return
        fresh = _new_books(2 * (tail - head + queued), 2 * (held + persons))
        fresh.person[: tail - head] = books.person[head:tail]
        fresh.when[: tail - head] = books.when[head:tail]
        fresh.ends[:] = (0, tail - head, held)
        move_counts(books.table, fresh.table)
        self._books = fresh


def _new_books(queued: int, persons: int) -> Books:
    return Books(
        person=np.zeros(queued, dtype=np.uint64),
        when=np.zeros(queued),
        ends=np.zeros(3, dtype=np.int64),
        table=new_table(max(persons, 1)),
    )


def _runs(numbers: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Start and stop of each run of equal numbers."""
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    edges = [0, *(int(cut) for cut in cuts), numbers.size]
    return [(start, stop) for start, stop in pairwise(edges) if stop > start]
