"""l-diversity per person: each of the l values is matched to a different person.

A person with several rows could supply all l values alone, and an attacker who knows that the person is in the group
would learn them. A maximum matching of persons to distinct values rules that out.
"""

import numpy as np

from castleguard.kernels.arrays import Ints
from castleguard.kernels.compile import Bool, Int, kernel
from castleguard.kernels.grouping import number_keys
from castleguard.kernels.siphash import NO_PERSON
from castleguard.kernels.state import Work
from castleguard.kernels.views import Matching, Rows, matching_of


@kernel
def enough_matched(scratch: Matching, persons: Ints, values: Ints, value_count: Int, wanted: Int) -> Bool:
    """Whether `wanted` persons can each be matched to a value of their own rows, all values different.

    Augmenting paths, breadth-first from one value at a time.
    """
    person_count = 0
    for row in range(persons.size):
        person_count = max(person_count, persons[row] + 1)
    start, fill, edge = scratch.start, scratch.fill, scratch.edge
    for value in range(value_count + 1):
        start[value] = 0
    for row in range(values.size):
        start[values[row] + 1] += 1
    for value in range(value_count):
        start[value + 1] += start[value]
    for value in range(value_count):
        fill[value] = start[value]
    for row in range(values.size):
        edge[fill[values[row]]] = persons[row]
        fill[values[row]] += 1
    holder, seen, via, taken, queue = scratch.holder, scratch.seen, scratch.via, scratch.taken, scratch.queue
    for person in range(person_count):
        holder[person] = -1
        seen[person] = -1
    for value in range(value_count):
        taken[value] = -1
    matched = 0
    for first in range(value_count):
        if matched >= wanted:
            break
        queue[0] = first
        head = 0
        tail = 1
        free = -1
        while head < tail and free < 0:
            value = queue[head]
            head += 1
            for at in range(start[value], start[value + 1]):
                person = edge[at]
                if seen[person] == first:
                    continue
                seen[person] = first
                via[person] = value
                if holder[person] < 0:
                    free = person
                    break
                queue[tail] = holder[person]
                tail += 1
        while free >= 0:
            value = via[free]
            previous = taken[value]
            taken[value] = free
            holder[free] = value
            free = previous
            if value == first:
                matched += 1
                break
    return matched >= wanted


@kernel
def persons_match_values(work: Work, rows: Rows, slots: Ints, wanted: Int) -> Bool:
    """Whether in every sensitive column `wanted` different persons can be matched to `wanted` different values."""
    scratch = matching_of(work)
    known, keys, persons, values = scratch.known, scratch.key, scratch.person, scratch.value
    count = 0
    for at in slots:
        if rows.person[at] != NO_PERSON:
            known[count] = at
            count += 1
    for at in range(count):
        keys[at] = rows.person[known[at]]
    number_keys(work.table, keys, count, persons)
    for column in range(rows.sensitive.shape[1]):
        for at in range(count):
            keys[at] = np.uint64(rows.sensitive[known[at], column])
        found = number_keys(work.table, keys, count, values)
        if not enough_matched(scratch, persons[:count], values[:count], found, wanted):
            return False
    return True
