"""Named views of the packed arrays.

State and scratch space are packed into few arrays, because every array is seven arguments to a compiled function. This
module names their parts, as named tuples of views; a view costs nothing once compiled.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.arrays import Floats, Ints, Table
from castleguard.kernels.chacha import Draws
from castleguard.kernels.compile import Int, kernel
from castleguard.kernels.state import SIZE, BoxScratch, CountScratch, State, Work

SCRATCH = 23  # rows of Work.ints

Singles = NDArray[np.float32]


class Rows(NamedTuple):
    """Ring of pending rows; the members of a cluster form a doubly linked list through it."""

    quasi: Floats  # (capacity, columns)
    person: NDArray[np.uint64]  # (capacity,)
    sensitive: Ints  # (capacity, sensitive columns)
    arrived: Floats  # (capacity,) seconds
    position: Ints  # (capacity,)
    cluster: Ints  # (capacity,) a cluster's slot, GONE or AT_ROOT
    next: Ints  # (capacity,) -1 = last
    previous: Ints  # (capacity,) -1 = first


class Clusters(NamedTuple):
    """Open clusters. Bounds are attribute-major, because selection runs along clusters. slots = born.size."""

    lower: Floats  # (columns, slots)
    upper: Floats  # (columns, slots)
    born: Ints  # (slots,) creation number, -1 = free
    rows: Ints  # (slots,)
    first: Ints  # (slots,) head of the member list
    last: Ints  # (slots,)
    persons: Ints  # (slots + 1,) CASTLE's C.size; the last element is for all clusters together
    values: Ints  # (sensitive columns, slots + 1) CASTLE's C.diversity


class Tallies(NamedTuple):
    """Persons and values per cluster; the owner after the last cluster slot is for all clusters together."""

    persons: Table
    values: Table


class Reusables(NamedTuple):
    """Published generalisations that may be reused."""

    lower: Floats  # (columns, entries) bounds of the rows it may take
    upper: Floats
    box_lower: Floats  # (columns, entries) bounds as published
    box_upper: Floats
    used: Ints  # (entries,) the use counter at its last use
    born: Ints  # (entries,) arrivals at its admission
    memory: Ints  # (entries,) index into `Memory` of the pairs published in its box


class Memory(NamedTuple):
    """(person, value) pairs published in a box, for the reusable boxes and the root."""

    counts: Floats  # (entries + 1 and more, sensitive columns, values)
    owner: Ints  # (entries + 1,) the box's number in the table; the root is last and has 0
    pairs: Table


class Values(NamedTuple):
    """Values of each sensitive column: their reference distribution and their tree."""

    reference: Floats  # (sensitive columns, values) weights of the rows so far
    facts: Floats  # (sensitive columns, FACTS and more)
    parents: Floats  # (sensitive columns, nodes)
    heights: Floats  # (sensitive columns, nodes) 1 at the root
    nodes: Floats  # (sensitive columns, values) their leaves


class Tally(NamedTuple):
    """Counts of values, and scratch space for figures computed from them."""

    alone: Floats  # per value: pairs of the current rows
    joint: Floats  # per value: the same, plus the pairs remembered for their box
    extra: Floats  # per node
    too_much: Floats  # per node
    lack: Floats  # per cluster
    no_person_alone: Floats  # per value: 1 if a pair of NO_PERSON is among `alone`
    no_person_joint: Floats  # per value: 1 if a pair of NO_PERSON is among `joint`
    nothing: Floats  # zeros


class Box(NamedTuple):
    """A box under construction: its range intervals, and the box as published."""

    low: Floats  # (columns,)
    high: Floats
    published_low: Floats
    published_high: Floats


class Cluster(NamedTuple):
    """A cluster laid out for splitting: its members by arrival, and the sub-clusters that split assigns."""

    slot: Ints  # ring slots
    point: Floats  # (capacity, columns)
    person: NDArray[np.uint64]
    value: NDArray[np.uint64]  # of the sensitive column that split^l uses
    part: Ints  # the sub-cluster of each member, -1 = none yet
    sorted: Ints  # members by sub-cluster
    start: Ints  # per sub-cluster: where it begins in `sorted`


class Parts(NamedTuple):
    """Boxes of sub-clusters."""

    lower: Floats  # (parts, columns)
    upper: Floats
    loss: Floats  # (parts,)


class Buckets(NamedTuple):
    """Rows in buckets, each a chain in order of arrival, and the list of non-empty buckets."""

    head: Ints  # per bucket: its first row, -1 = none
    size: Ints  # per bucket
    chain: Ints  # per row: the next row of its bucket, -1 = last
    live: Ints


class Nearest(NamedTuple):
    """The nearest of many candidates: a heap of candidate numbers with the farthest on top."""

    far: Floats  # per candidate: its distance
    row: Ints  # per candidate: its row
    heap: Ints


class Line(NamedTuple):
    """Members bucket by bucket, in the order of `Work.lines`."""

    row: Ints  # the member
    bucket: Ints
    start: Ints  # per bucket: a lower bound of the index of its first row
    stop: Ints  # per bucket: an upper bound of the index after its last row


class Scan(NamedTuple):
    """Rough distances from a box to the rows of a line."""

    gone: Singles  # per row of the line: 0, or FAR if it is taken
    far: Singles  # per scanned row
    least: Singles  # per lane
    growth: Singles  # per leaf: scratch space
    low: Singles  # per column: the box
    high: Singles


class Matching(NamedTuple):
    """Scratch space for matching persons to values; shared with that of splits."""

    known: Ints  # rows with a person
    key: NDArray[np.uint64]
    person: Ints  # per row
    value: Ints  # per row
    start: Ints  # per value: where its edges begin
    fill: Ints  # per value
    edge: Ints  # persons, value by value
    holder: Ints  # per person: the value matched to it
    seen: Ints  # per person: the search that reached it
    via: Ints  # per person: the value from which it was reached
    taken: Ints  # per value: the person matched to it
    queue: Ints


class Numbers(NamedTuple):
    """Persons and values of a cluster's members as small numbers, with scratch space for split^l."""

    person: Ints  # per member
    value: Ints  # per member
    chosen: Ints  # per person: the row that represents the person
    tally: Ints  # per value or part
    share: Ints  # per bucket: number of rows for the next sub-cluster


@kernel
def rows_of(state: State) -> Rows:
    """Ring of pending rows."""
    link = state.link
    return Rows(state.quasi, state.person, state.sensitive, state.arrived, link[0], link[1], link[2], link[3])


@kernel
def clusters_of(state: State) -> Clusters:
    """Open clusters."""
    book = state.book
    slots = book.shape[1] - 1
    return Clusters(
        state.bounds[0],
        state.bounds[1],
        book[0, :slots],
        book[1, :slots],
        book[2, :slots],
        book[3, :slots],
        book[4],
        book[5:],
    )


@kernel
def tallies_of(state: State) -> Tallies:
    """CountScratch tables."""
    return Tallies(state.person_table, state.value_table)


@kernel
def reusables_of(state: State) -> Reusables:
    """Reusable generalisations."""
    bounds = state.kept_bounds
    stamp = state.kept_stamp
    entries = bounds.shape[2]
    used, born, memory = stamp[0, :entries], stamp[1, :entries], stamp[2, :entries]
    return Reusables(bounds[0], bounds[1], bounds[2], bounds[3], used, born, memory)


@kernel
def memory_of(state: State) -> Memory:
    """Remembered (person, value) pairs."""
    return Memory(state.weights, state.kept_stamp[3], state.pair_table)


@kernel
def values_of(state: State) -> Values:
    """Values of the sensitive columns."""
    weights = state.weights
    root = state.kept_bounds.shape[2]
    return Values(weights[root + 1], weights[root + 2], weights[root + 3], weights[root + 4], weights[root + 5])


@kernel
def size_of(state: State, column: Int) -> Int:
    """Number of values of a sensitive column, including the one for missing."""
    return np.int64(state.weights[state.kept_bounds.shape[2] + 2, column, SIZE])


@kernel
def tally_of(work: CountScratch) -> Tally:
    """Counts of the current rows."""
    tally = work.tally
    return Tally(tally[0], tally[1], tally[2], tally[3], tally[4], tally[5], tally[6], tally[7])


@kernel
def draws_of(state: State) -> Draws:
    """Random generator."""
    return Draws(state.words, state.drawn[0], state.drawn[1], state.drawn[2])


@kernel
def box_of(work: BoxScratch) -> Box:
    """Current box."""
    return Box(work.box[0], work.box[1], work.box[2], work.box[3])


@kernel
def cluster_of(work: Work) -> Cluster:
    """Current cluster."""
    ints = work.ints
    return Cluster(ints[0], work.point, work.keys[0], work.keys[1], ints[1], ints[2], ints[3])


@kernel
def parts_of(work: Work) -> Parts:
    """Sub-clusters under construction."""
    return Parts(work.parts[0], work.parts[1], work.part_loss)


@kernel
def person_buckets(work: Work) -> Buckets:
    """Buckets by person."""
    ints = work.ints
    return Buckets(ints[4], ints[5], ints[6], ints[7])


@kernel
def value_buckets(work: Work) -> Buckets:
    """Buckets by sensitive value."""
    ints = work.ints
    return Buckets(ints[8], ints[9], ints[10], ints[11])


@kernel
def nearest_of(work: Work) -> Nearest:
    """Current candidates."""
    return Nearest(work.far, work.ints[12], work.ints[13])


@kernel
def numbers_of(work: Work) -> Numbers:
    """Numbers of the current cluster's members."""
    ints = work.ints
    return Numbers(ints[14], ints[15], ints[16], ints[17], ints[18])


@kernel
def matching_of(work: Work) -> Matching:
    """Scratch space for a matching."""
    ints = work.ints
    return Matching(
        ints[4],
        work.keys[1],
        ints[5],
        ints[6],
        ints[7],
        ints[8],
        ints[9],
        ints[10],
        ints[11],
        ints[12],
        ints[13],
        ints[19],
    )


@kernel
def line_of(work: Work) -> Line:
    """Current line-up."""
    ints = work.ints
    return Line(ints[19], ints[20], ints[21], ints[22])


@kernel
def scan_of(work: Work) -> Scan:
    """Current scan."""
    near = work.near
    return Scan(near[0], near[1], near[2], near[3], near[4], near[5])
