"""The engine's state as named tuples of arrays: what a batch kernel reads and writes, and what a snapshot holds.

A pending row lives in a ring, at slot position % capacity; its cluster is a slot in the cluster table, and the members
of a cluster are a doubly linked list through the ring. Numbers that change are elements of `counters`, because a named
tuple's own fields cannot change inside a kernel.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import Draws
from castleguard.kernels.counts import Table
from castleguard.kernels.loss import Domain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

EPS = 1e-12  # two losses closer than this are equal

# Where a pending row stands, if not in a cluster.
GONE = -1
AT_ROOT = -2  # may only be published at the root: it waits outside the clusters

# Kinds of published groups.
NEW = 0
REUSED = 1
ROOT = 2

# Suppression.
GENERALISE = 0  # output at the root at once, as CASTLE prints it
DROP = 1  # no output, as CASTLEGUARD prints it
ROOT_GROUP = 2  # output at the root, once the root has k persons

# Order of the rows of one release.
ARRIVAL = 0
SHUFFLED = 1

# Elements of `counters`.
ARRIVALS = 0  # accepted rows so far = the position of the next one
PENDING = 1
OPEN = 2  # open clusters
CREATED = 3  # clusters ever created
PERSONS = 4  # distinct persons over all clusters
OLDEST = 5  # no pending row stands before this position
ROOT_OPEN = 6  # the root group has its k persons
USES = 7  # admissions to and uses of the reusable table
REUSABLE = 8  # entries of the reusable table
LOSSES = 9  # losses ever appended to the window
LONGEST_WAIT = 10  # arrivals that a published row has waited at most
WAITING = 11  # pending rows that may only be published at the root
COUNTERS = 12


class Settings(NamedTuple):
    """The policy as numbers."""

    k: int
    l: int  # noqa: E741  # the papers' own name
    delay: int
    reuse: bool
    by_interval: bool  # a reusable cluster contains what its range intervals contain, not its generalisation
    admit_equal: bool
    random_ties: bool
    random_buckets: bool
    diversity_aware: bool
    per_person: bool
    suppression: int
    order: int
    reusable_age: int  # arrivals after which a generalisation is not reused any more, -1 = never
    max_wait: float  # seconds, inf = no limit


class Rows(NamedTuple):
    """The ring of pending rows."""

    quasi: Floats  # (capacity, columns)
    person: NDArray[np.uint64]  # (capacity,)
    sensitive: Ints  # (capacity, sensitive columns)
    position: Ints  # (capacity,)
    arrived: Floats  # (capacity,) seconds
    cluster: Slots  # (capacity,) a cluster's slot, GONE or AT_ROOT
    next: Slots  # (capacity,) -1 = last
    previous: Slots  # (capacity,) -1 = first


class Clusters(NamedTuple):
    """The open (non-k_s-anonymised) clusters, CASTLE's Gamma. Bounds are attribute-major: selection runs along clusters."""

    lower: Floats  # (columns, slots)
    upper: Floats  # (columns, slots)
    born: Ints  # (slots,) number of creation, -1 = free
    rows: Ints  # (slots,)
    persons: Ints  # (slots,) CASTLE's C.size
    values: Ints  # (sensitive columns, slots) CASTLE's C.diversity
    first: Slots  # (slots,) head of the member list
    last: Slots  # (slots,)


class Tallies(NamedTuple):
    """Who and what is in which cluster; the owner after the last cluster slot stands for all clusters together."""

    persons: Table
    values: Table
    distinct: Ints  # (sensitive columns,) distinct values over all clusters


class Reusables(NamedTuple):
    """Published generalisations that may be used again, CASTLE's Omega."""

    lower: Floats  # (columns, entries) what it contains
    upper: Floats
    box_lower: Floats  # (columns, entries) what is published
    box_upper: Floats
    loss: Floats  # (entries,)
    used: Ints  # (entries,) the use counter at its last use
    born: Ints  # (entries,) arrivals at its admission


class State(NamedTuple):
    """Everything the engine knows."""

    counters: Ints  # (COUNTERS,)
    threshold: Floats  # (1,) CASTLE's tau
    losses: Floats  # (loss_window,) ring of the latest losses
    domain: Domain
    rows: Rows
    clusters: Clusters
    tallies: Tallies
    reusables: Reusables
    draws: Draws


class Batch(NamedTuple):
    """Arriving rows."""

    quasi: Floats  # (rows, columns)
    person: NDArray[np.uint64]  # (rows,)
    sensitive: Ints  # (rows, sensitive columns)
    to_root: NDArray[np.bool_]  # (rows,)


class Output(NamedTuple):
    """What a call decides: rows with their groups in order of release, and rows that are dropped."""

    used: Ints  # (3,) rows, groups, drops written so far
    position: Ints  # (rows,)
    group: Slots  # (rows,)
    lower: Floats  # (groups, columns) as published
    upper: Floats
    loss: Floats  # (groups,)
    kind: NDArray[np.int8]  # (groups,) NEW, REUSED or ROOT
    kept: NDArray[np.bool_]  # (groups,) may be used again
    event: Ints  # (groups,) the position of the row whose turn released it
    dropped: Ints  # (drops,)


class Buckets(NamedTuple):
    """Rows in buckets, each a chain in order of arrival, and the buckets that are not empty, in order."""

    head: Ints  # per bucket: its first row, -1 = none
    size: Ints  # per bucket
    chain: Ints  # per row: the next row of its bucket, -1 = last
    live: Ints


class Nearest(NamedTuple):
    """The best few of many candidates: a heap of candidate numbers, the worst on top."""

    far: Floats  # per candidate: how bad it is
    row: Ints  # per candidate: the row it stands for
    heap: Ints


class Cluster(NamedTuple):
    """A cluster laid out for splitting: its members by arrival, and what split finds for them."""

    slot: Ints  # ring slots
    point: Floats  # (capacity, columns)
    person: NDArray[np.uint64]
    value: NDArray[np.uint64]  # of the sensitive column that is split by
    part: Ints  # the sub-cluster of each member, -1 = none yet
    sorted: Ints  # members by sub-cluster
    start: Ints  # per sub-cluster: where it begins in `sorted`


class Parts(NamedTuple):
    """The boxes of sub-clusters."""

    lower: Floats  # (parts, columns)
    upper: Floats
    loss: Floats  # (parts,)


class Sieve(NamedTuple):
    """A hash table that gives numbers to keys."""

    known: NDArray[np.uint64]
    number: Ints


class Work(NamedTuple):
    """Scratch space; holds nothing between calls."""

    gain: Floats  # (slots,)
    inside: NDArray[np.bool_]  # (entries,)
    low: Floats  # (columns,) a box in the making
    high: Floats
    box_low: Floats  # (columns,) the same box as published
    box_high: Floats
    cluster: Cluster
    parts: Parts
    persons: Buckets
    values: Buckets
    nearest: Nearest
    sieve: Sieve
    table: Table
    person_number: Ints  # (capacity,)
    value_number: Ints
    chosen: Ints  # the row that stands for each person
    count: Ints  # (capacity,) a tally per value or part
    share: Ints  # what each bucket gives to the next sub-cluster
