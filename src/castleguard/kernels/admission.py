"""Recent rows per person: a queue of accepted rows, and a count per person.

A row that leaves the window is subtracted, so memory is proportional to the rows of one window, not to all persons
ever seen.
"""

from typing import NamedTuple

import numpy as np

from castleguard.kernels.arrays import Flags, Floats, Hashes, Ints, Table
from castleguard.kernels.compile import Int, entry_kernel
from castleguard.kernels.counts import count_in, count_of, count_out

# Elements of `ends`.
HEAD = 0  # the oldest accepted row that still counts
TAIL = 1  # one past the latest
HELD = 2  # persons in the table


class Books(NamedTuple):
    """Accepted rows in order of arrival, from HEAD to TAIL, and the number of them per person."""

    person: Hashes  # (capacity,)
    when: Floats  # (capacity,)
    ends: Ints  # (3,)
    table: Table


@entry_kernel
def admit_rows(books: Books, person: Hashes, when: Floats, most: Int, window: float, admitted: Flags) -> None:
    """Admit a row iff its person has fewer than `most` admitted rows in (when - window, when].

    An infinite window needs no queue. The caller ensures room for all rows.
    """
    ends = books.ends
    endless = window == np.inf
    for row in range(person.size):
        while not endless and ends[HEAD] < ends[TAIL] and books.when[ends[HEAD]] <= when[row] - window:
            ends[HELD] -= count_out(books.table, 0, books.person[ends[HEAD]]) == 0
            ends[HEAD] += 1
        admitted[row] = count_of(books.table, 0, person[row]) < most
        if not admitted[row]:
            continue
        ends[HELD] += count_in(books.table, 0, person[row]) == 1
        if not endless:
            books.person[ends[TAIL]] = person[row]
            books.when[ends[TAIL]] = when[row]
            ends[TAIL] += 1


@entry_kernel
def move_counts(source: Table, target: Table) -> None:
    """Copy all counts into an empty larger table."""
    for at in range(source.shape[0]):
        for _ in range(np.int64(source[at, 1] & np.uint64(0xFFFFFFFF))):
            count_in(target, 0, source[at, 0])
