"""What Citadel's kernels read and write besides `state.State`: settings, axes, and scratch space for one release.

Citadel keeps its pending rows in the ring that CASTLE has, and no clusters: groups are made when rows are due. All that
is known of the neighbourhood of rows lives in `Work` while a release is made, and is made from the ring each time.
"""

from typing import NamedTuple

import numpy as np

from castleguard.kernels.arrays import Flags, Floats2, Hashes2, Ints, Ints2, Singles, Singles2, Singles3, Slots2, Table
from castleguard.kernels.state import Shape

PENDING_ROW = 0  # in place of a cluster's slot: the row waits

PART = 32  # rows of a part of the tree at most: what one scan looks through
BLOCK = 32  # parts that are skipped together, where a tree is small
MANY = 300_000  # rows of a large tree at least: every part is a block
STRETCH = 32  # blocks that are skipped together
FEWEST = 8  # groups of a block at least
FAR = np.float32(1e9)  # farther than any row

# Rows of `Work.groups`.
ROWS = 0  # of a group
MOST = 1  # rows that one person has in it at most
START = 2  # where its rows begin in `Work.members`
BECOMES = 3  # the group that it is published with, -1 = none
LISTED = 4  # groups in the order in which they are judged
GROUP_FACTS = 5


class Axes(NamedTuple):
    """How quasi-identifiers become coordinates: numbers from 0 to 1 come first, then categories by leaf number."""

    column: Ints  # (axes,) the quasi-identifier
    numbers: int  # how many of them are numbers
    origin: Floats2  # (2, axes) what is subtracted, and what the rest is multiplied by
    scale: Singles  # (axes,) the width of a step of 1
    growth: Singles  # (leaves,) scratch space: what each leaf adds to a box


class Settings(NamedTuple):
    """The policy as numbers."""

    k: int
    l: int  # the papers' own name
    delay: int
    every: int  # arrivals between two releases
    max_wait: float  # seconds, inf = no limit
    suppression: int  # DROP or ROOT_GROUP
    narrow: bool  # due rows may join boxes that are published already
    whole: int  # groups of k rows of a release are a multiple of this where criteria are asked, if rows suffice
    slack: float  # by how much such a box may be wider than the narrowest
    shape: Shape
    axes: Axes


class Work(NamedTuple):
    """Scratch space for one release; holds nothing between calls.

    Company rows have a rank, by arrival, and a place in the tree that `neighbours.py` searches. There are places for
    capacity + parts rows.
    """

    coordinate: Singles3  # (2, axes, places) of company rows by place; of candidates (before that, by rank)
    bounds: Singles3  # (2, axes, parts) of the rows of each part, when the tree was made
    outer: Singles3  # (2, axes, blocks) of the rows of each block
    outermost: Singles3  # (2, axes, stretches) of the rows of each stretch
    parts: Ints2  # (2, parts) where a part begins, and how many rows it has
    spread: Singles  # (parts,) the width of each part
    near: Singles2  # (NUMBERS, places)
    gone: Singles  # (places,) by place: 0, or FAR once the row has left the company
    live: Ints  # (blocks,) company rows that are still there
    rank: Slots2  # (RANKS, places)
    keys: Hashes2  # (2, places) numbers to be sorted; persons of candidates
    radius: Singles  # (1,) of a search, as a multiple of what the rows around suggest: what the last search needed
    sizes: Ints  # (SIZES,)
    slots: Ints2  # (LISTS, places)
    grown: Singles2  # (2, axes) the box of the group in hand
    groups: Ints2  # (GROUP_FACTS, groups)
    centre: Singles3  # (3, axes, groups) bounds of each group in coordinates, and its centre
    box: Floats2  # (4, columns) see `views.Box`
    inside: Flags  # (entries,) boxes that contain the row in hand
    values: Ints  # (l,) different values of the rows in hand
    tally: Floats2  # (8, values) see `views.Tally`
    table: Table


# Elements of `Work.sizes`.
LIVE = 0  # company rows that are still in the tree
DEPTH = 1  # how often the tree was halved
GROUPS = 2  # groups made so far
SEEDS = 3  # due rows that look for a group
LEFT = 4  # due rows that found none
AGAIN = 5  # rows that are published in boxes of earlier releases
EXHAUSTED = 6  # 1: the rows that are left have too few persons for a group
LANES = 7  # parts of a block
LINES = 8  # places of a part
HOME = 9  # the part that the seed in hand was in
SEARCH = 10  # searches so far: what has been measured for which
SIZES = 11

# Rows of `Work.slots`: lists of ring slots, or what is known by ring slot.
BY_PLACE = 0
BY_RANK = 1
PLACE = 2  # by ring slot: its place in the tree, -1 = in none
GROUP = 3  # by ring slot: its group, or STAYS, DROPPED, REUSES
SEED = 4
MEMBER = 5  # rows of the group in hand; in the end, rows group by group
LEFT_OVER = 6
JOINED = 7  # rows of several groups
REUSER = 8  # rows that are published in boxes of earlier releases
ENTRY = 9  # the entries of these boxes
CODE = 10  # different values of the rows in hand
SCANNED = 11  # by block: the last search that measured its rows
LISTS = 12

# Rows of `Work.rank`.
OF_PLACE = 0
ORDER = 1  # rows part by part, while the tree is made
OF_CANDIDATE = 2
RANKS = 3

# Rows of `Work.near`.
BOUND = 0  # least distance to each stretch, and to each block of one
DISTANCE = 1  # of rows by place
HANDICAP = 2  # of candidates
SCORE = 3  # of candidates
LEAST = 4  # distance of each part
NUMBERS = 5

STAYS = -1
DROPPED = -2
REUSES = -3
