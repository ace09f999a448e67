"""Engine state as named tuples of arrays, read and written by the batch kernels and stored in snapshots.

A pending row is stored in a ring, at slot position % capacity; its cluster is a slot in the cluster table, and the
members of a cluster form a doubly linked list through the ring. Scalars that change are elements of `counters`, because
a kernel cannot assign to the fields of a named tuple.
"""

from typing import NamedTuple, Protocol

from numpy.typing import NDArray

from castleguard.kernels.arrays import (
    Flags,
    Floats,
    Floats2,
    Floats3,
    Hashes,
    Hashes2,
    Ints,
    Ints2,
    Singles2,
    Slots2,
    Table,
    Words2,
)
from castleguard.kernels.loss import Domain

Arrays = dict[str, NDArray]  # type: ignore[type-arg]  # arrays of a state by name, of any dtype

EPS = 1e-12  # losses closer than this are equal

# In place of the cluster of a row.
GONE = -1
AT_ROOT = -2  # may only be published at the root: waits outside the clusters

# Kinds of published groups.
NEW = 0
REUSED = 1
ROOT = 2

# Suppression.
GENERALISE = 0  # publish at the root immediately, as in the CASTLE paper
DROP = 1  # do not publish, as in the CASTLEGUARD paper
ROOT_GROUP = 2  # publish at the root once the root has k persons

# Order of the rows of one release.
ARRIVAL = 0
SHUFFLED = 1

# Forms of l-diversity.
DISTINCT = 0
ENTROPY = 1
RECURSIVE = 2

# Ground distances of t-closeness.
NO_DISTANCE = 0  # t-closeness off
EQUAL = 1
ORDERED = 2
HIERARCHICAL = 3

# Reference distributions of t-closeness.
CUMULATIVE = 0
WINDOW = 1
DECAY = 2
PUBLIC = 3

# Elements of `counters`.
ARRIVALS = 0  # accepted rows so far = position of the next row
PENDING = 1
OPEN = 2  # open clusters
CREATED = 3  # clusters ever created
OLDEST = 4  # no pending row has a smaller position
ROOT_OPEN = 5  # the root group has its k persons
USES = 6  # admissions to and uses of the reusable table
REUSABLE = 7  # entries of the reusable table
LOSSES = 8  # losses ever appended to the window
LONGEST_WAIT = 9  # longest wait of a published row, in arrivals
WAITING = 10  # pending rows that may only be published at the root
REFERRED = 11  # rows ever counted in the reference distribution
PAIRS = 12  # entries of the table of remembered pairs
BOXES = 13  # boxes remembered since that table was last emptied
COUNTERS = 14

# Elements of a column's `Values.facts`.
NEWEST = 0  # weight of the newest row in the reference distribution
SUM = 1  # sum of the weights of all its rows
SIZE = 2  # number of values; the last one stands for missing
NODES = 3  # number of nodes in the tree of values
FACTS = 4


class Shape(NamedTuple):
    """Criteria on the distribution of sensitive values in a group, beyond l distinct values."""

    on: bool  # whether any is set
    diversity: int
    c: float
    distance: int
    t: float
    reference: int
    decay: float
    alpha: float
    burn_in: int
    room: int  # maximum number of remembered pairs


class Settings(NamedTuple):
    """The policy as numbers."""

    k: int
    l: int  # as named in the papers
    delay: int
    reuse: bool
    by_interval: bool  # a reusable cluster covers its range intervals, not its whole generalisation
    admit_equal: bool
    random_ties: bool
    random_buckets: bool
    diversity_aware: bool
    per_person: bool
    suppression: int
    order: int
    reusable_age: int  # arrivals after which a generalisation is no longer reused, -1 = never
    max_wait: float  # seconds, inf = no limit
    shape: Shape


class Criteria(Protocol):
    """Settings with criteria on the distribution of values."""

    @property
    def l(self) -> int: ...  # noqa: E743  # as named in the papers

    @property
    def shape(self) -> Shape: ...


class CountScratch(Protocol):
    """Scratch space for counting values."""

    @property
    def tally(self) -> Floats: ...

    @property
    def table(self) -> Table: ...


class BoxScratch(Protocol):
    """Scratch space with a box under construction."""

    @property
    def box(self) -> Floats: ...


class State(NamedTuple):
    """Complete state of the engine, packed into few arrays; `views.py` names their parts."""

    counters: Ints  # (COUNTERS,)
    levels: Floats  # (1 + loss_window,) the threshold (CASTLE's tau), then a ring of recent losses
    domain: Domain
    quasi: Floats2  # (capacity, columns) the ring of pending rows: slot = position % capacity
    person: Hashes  # (capacity,)
    sensitive: Ints2  # (capacity, sensitive columns)
    arrived: Floats  # (capacity,) seconds
    link: Ints2  # (4, capacity) position, cluster, next and previous member
    bounds: Floats3  # (2, columns, slots) of the open clusters, CASTLE's Gamma
    book: Ints2  # (5 + sensitive columns, slots + 1); the last column is for all clusters together
    person_table: Table  # rows per (cluster, person)
    value_table: Table  # rows per (cluster, sensitive column, value)
    kept_bounds: Floats3  # (4, columns, entries) of the reusable generalisations, CASTLE's Omega
    kept_stamp: Ints2  # (4, entries + 1)
    weights: Floats3  # (entries + 6, sensitive columns, values or nodes) remembered pairs, reference, public trees
    pair_table: Table  # the remembered pairs: (box, sensitive column, value) and person
    recent: Slots2  # (sensitive columns, window) a ring of recent values, if the reference is a window
    words: Words2  # (PURPOSES, 16) blocks of the draws; row 0 is the key
    drawn: Ints2  # (3, PURPOSES)


class Batch(NamedTuple):
    """Arriving rows."""

    quasi: Floats2  # (rows, columns)
    person: Hashes  # (rows,)
    sensitive: Ints2  # (rows, sensitive columns)
    to_root: Flags  # (rows,)
    present: Flags  # (rows,) False: an earlier stage left the row out; it only advances the clock


class Output(NamedTuple):
    """Decisions of one call: rows with their groups in order of release, and dropped rows."""

    used: Ints  # (3,) rows, groups, drops written so far
    rows: Ints2  # (2, rows) position and group
    bounds: Floats3  # (2, groups, columns) as published
    loss: Floats  # (groups,)
    marks: Ints2  # (4, groups) kind; 1 = may be reused; the row whose expiry released it; arrivals at that time
    dropped: Ints2  # (2, drops) position, and arrivals at that time


class Work(NamedTuple):
    """Scratch space; keeps nothing between calls. `views.py` names the parts of the packed arrays."""

    gain: Floats  # (slots,)
    inside: Flags  # (entries,)
    box: Floats2  # (4, columns) a box under construction, and the same box as published
    point: Floats2  # (capacity, columns) the members of a cluster
    lines: Singles2  # (columns, capacity) the same members, attribute-major
    near: Singles2  # (6, places) rough distances; places = 3/2 capacity or columns, if that is more
    keys: Hashes2  # (3, capacity + 1) their persons; their values in one sensitive column; candidates
    ints: Ints2  # (SCRATCH, capacity + 1)
    far: Floats  # (capacity,)
    parts: Floats3  # (2, parts, columns) boxes of sub-clusters
    part_loss: Floats  # (parts,)
    tally: Floats2  # (8, values, nodes or slots) counts of values, and figures computed from them
    table: Table
    root_marks: Ints2  # (2 * sensitive columns + 1, capacity) see `suppress.RootGroup`
    root_counts: Floats3  # (4, sensitive columns, values or nodes)
    root_pairs: Table
