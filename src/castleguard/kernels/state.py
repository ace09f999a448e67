"""The engine's state as named tuples of arrays: what a batch kernel reads and writes, and what a snapshot holds.

A pending row lives in a ring, at slot position % capacity; its cluster is a slot in the cluster table, and the members
of a cluster are a doubly linked list through the ring. Numbers that change are elements of `counters`, because a named
tuple's own fields cannot change inside a kernel.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.counts import Table
from castleguard.kernels.loss import Domain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]
Arrays = dict[str, NDArray]  # type: ignore[type-arg]  # a state by name, of any element types

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

# What is asked of the distribution of sensitive values.
DISTINCT = 0
ENTROPY = 1
RECURSIVE = 2

# How far apart two values are.
NO_DISTANCE = 0  # t-closeness off
EQUAL = 1
ORDERED = 2
HIERARCHICAL = 3

# What the distribution is compared with.
CUMULATIVE = 0
WINDOW = 1
DECAY = 2
PUBLIC = 3

# Elements of `counters`.
ARRIVALS = 0  # accepted rows so far = the position of the next one
PENDING = 1
OPEN = 2  # open clusters
CREATED = 3  # clusters ever created
OLDEST = 4  # no pending row stands before this position
ROOT_OPEN = 5  # the root group has its k persons
USES = 6  # admissions to and uses of the reusable table
REUSABLE = 7  # entries of the reusable table
LOSSES = 8  # losses ever appended to the window
LONGEST_WAIT = 9  # arrivals that a published row has waited at most
WAITING = 10  # pending rows that may only be published at the root
REFERRED = 11  # rows ever counted in the reference
PAIRS = 12  # entries of the table of remembered pairs
BOXES = 13  # boxes remembered since that table was last emptied
COUNTERS = 14

# Elements of a column's `Values.facts`.
NEWEST = 0  # the weight of the newest row in the reference
SUM = 1  # the weights of all its rows
SIZE = 2  # number of values, of which the last is the missing one
NODES = 3  # number of nodes of their tree
FACTS = 4


class Shape(NamedTuple):
    """What is asked of the distribution of sensitive values in a group, beyond l distinct ones."""

    on: bool  # anything at all
    diversity: int
    c: float
    distance: int
    t: float
    reference: int
    decay: float
    alpha: float
    burn_in: int
    room: int  # pairs that are remembered at most


class Settings(NamedTuple):
    """The policy as numbers."""

    k: int
    l: int  # the papers' own name
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
    shape: Shape


class Asking(Protocol):
    """Settings that ask something of the distribution of values."""

    @property
    def l(self) -> int: ...  # noqa: E743  # the papers' own name

    @property
    def shape(self) -> Shape: ...


class Counting(Protocol):
    """Scratch space in which values are counted."""

    @property
    def tally(self) -> Floats: ...

    @property
    def table(self) -> Table: ...


class Boxing(Protocol):
    """Scratch space that has a box in the making."""

    @property
    def box(self) -> Floats: ...


class State(NamedTuple):
    """Everything the engine knows, in few arrays: `views.py` gives them their names back."""

    counters: Ints  # (COUNTERS,)
    levels: Floats  # (1 + loss_window,) the threshold (CASTLE's tau), then a ring of the latest losses
    domain: Domain
    quasi: Floats  # (capacity, columns) the ring of pending rows: slot = position % capacity
    person: NDArray[np.uint64]  # (capacity,)
    sensitive: Ints  # (capacity, sensitive columns)
    arrived: Floats  # (capacity,) seconds
    link: Ints  # (4, capacity) position, cluster, next and previous member
    bounds: Floats  # (2, columns, slots) of the open clusters, CASTLE's Gamma
    book: Ints  # (5 + sensitive columns, slots + 1); the last column stands for all clusters together
    person_table: Table  # rows per (cluster, person)
    value_table: Table  # rows per (cluster, sensitive column, value)
    kept_bounds: Floats  # (4, columns, entries) the reusable generalisations, CASTLE's Omega
    kept_stamp: Ints  # (4, entries + 1)
    weights: Floats  # (entries + 6, sensitive columns, values or nodes) remembered pairs, reference, public trees
    pair_table: Table  # the remembered pairs: (box, sensitive column, value) and person
    recent: Slots  # (sensitive columns, window) a ring of the latest values, if only these count
    words: NDArray[np.uint32]  # (PURPOSES, 16) the draws' blocks; row 0 is the key
    drawn: Ints  # (3, PURPOSES)


class Batch(NamedTuple):
    """Arriving rows."""

    quasi: Floats  # (rows, columns)
    person: NDArray[np.uint64]  # (rows,)
    sensitive: Ints  # (rows, sensitive columns)
    to_root: NDArray[np.bool_]  # (rows,)
    present: NDArray[np.bool_]  # (rows,) False: the row only moves the clock, it was left out before


class Output(NamedTuple):
    """What a call decides: rows with their groups in order of release, and rows that are dropped."""

    used: Ints  # (3,) rows, groups, drops written so far
    rows: Ints  # (2, rows) position and group
    bounds: Floats  # (2, groups, columns) as published
    loss: Floats  # (groups,)
    marks: Ints  # (4, groups) kind; 1 = may be used again; the row whose turn released it; arrivals at that moment
    dropped: Ints  # (2, drops) position, and arrivals at that moment


class Work(NamedTuple):
    """Scratch space; holds nothing between calls. `views.py` gives the packed arrays their names."""

    gain: Floats  # (slots,)
    inside: NDArray[np.bool_]  # (entries,)
    box: Floats  # (4, columns) a box in the making, and the same as published
    point: Floats  # (capacity, columns) the members of a cluster
    lines: Floats  # (columns, capacity) the same attribute by attribute
    keys: NDArray[np.uint64]  # (2, capacity) their persons, and their values of one sensitive column
    ints: Ints  # (SCRATCH, capacity + 1)
    far: Floats  # (capacity,)
    parts: Floats  # (2, parts, columns) boxes of sub-clusters
    part_loss: Floats  # (parts,)
    tally: Floats  # (8, values, nodes or slots) counts of values, and what is worked out from them
    table: Table
