"""Public grid of SDGS: boxes that tile the domain, in a tree that adapts to released counts.

The grid of the next window is `adapt(grid, released)`: a function of the previous grid and of the counts published in
it. Its arguments contain no rows, so adapting to the data costs no privacy (docs/proofs/sdgs.md, "Adaptivity is free").

* **Split.** Take the largest released cells (box and sensitive values) of a box that together contain `survival` of its
  released rows; the smallest of them is the bar. An even cut into m parts leaves bar/m rows in it. The box is cut if
  that is at least k + 2 sqrt(k): two standard deviations of a count around k, so that a cell that just meets the bar
  falls below k in 3 to 5 windows of 100. Released counts are counts after sampling, so no scaling is needed.
* **Merge.** A split is *just worth it* at the released count at which the bar would be met exactly, with the same
  shares of values. Siblings that together released less than half of that in `PATIENCE` consecutive windows are merged.
  Between half and all of it the grid stays as it is, so that noise does not move it.
* **Rest.** A merged box rests before it is cut again, twice as long as last time if the split did not last. So an
  area that looks better as a whole than in parts costs two windows in `LONGEST_REST`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.schema.axes import Axes, mean_loss
from castleguard.schema.cells import Cells, Values

Ints = NDArray[np.int64]
_Path = tuple[int, ...]  # child numbers from the root of a tree

UNCUT = -1
PATIENCE = 2
LONGEST_REST = 64


class Released(NamedTuple):
    """Released counts: one entry per published cell (box and sensitive values)."""

    box: Ints
    rows: Ints


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Parameters that decide whether a split is worth it."""

    k: int
    l: int
    survival: float
    """Share of a box's released rows that must be expected to survive its split."""
    max_cells: int

    @property
    def reach(self) -> float:
        """Released rows that a cell needs to be published reliably."""
        return self.k + 2 * math.sqrt(self.k)


class Nodes(NamedTuple):
    """Tree in preorder: a node, then its children from the lowest cell to the highest."""

    parent: Ints
    axis: Ints
    """Axis along which the node is cut into its children; UNCUT: the node is a box of the grid."""
    first: Cells  # (nodes, columns)
    last: Cells  # (nodes, columns)
    enough: Values
    """Released count at which the node's split is just worth it; 0 for a box."""
    quiet: Ints
    """Consecutive windows in which the node's boxes together released too little."""
    age: Ints
    """For a node: windows since its split. For a box: windows left to rest."""
    rest: Ints
    """Windows that the box rests after its next merge, if that comes early."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A grid: the uncut nodes tile the domain. Boxes are numbered from 0 in tree order."""

    axes: Axes
    nodes: Nodes

    @classmethod
    def start(cls, axes: Axes, rule: Rule, *, cells: int = 1) -> "Partition":
        """Start with one box; cut the box with the largest loss, the first of equals, while `cells` allows."""
        whole = _Node(-1, (0,) * len(axes.axes), tuple(axis.cells - 1 for axis in axes.axes))
        grown: dict[_Path, _Node] = {(): whole}
        waiting: list[tuple[float, _Path]] = [(0.0, ())]
        boxes = 1
        while waiting:
            _, path = heappop(waiting)
            node = grown[path]
            parts = _cuts(axes, node.first, node.last)
            axis = _widest(_losses_of(axes, node), parts, cells - boxes + 1)
            if axis == UNCUT:
                continue  # permanently: the room only shrinks
            boxes += len(parts[axis]) - 1
            grown[path] = node._replace(axis=axis, enough=len(parts[axis]) * rule.reach)
            for number, child in enumerate(_children(node, -1, axis, parts[axis])):
                grown[*path, number] = child
                heappush(waiting, (-float(mean_loss(_losses_of(axes, child)[None])[0]), (*path, number)))
        # A path sorts directly before its extensions: sorted paths are in preorder.
        place = {path: number for number, path in enumerate(sorted(grown))}
        return cls(axes, _nodes([grown[path]._replace(parent=place[path[:-1]] if path else -1) for path in place]))

    @cached_property
    def boxes(self) -> Ints:
        """Node of every box."""
        return np.flatnonzero(self.nodes.axis == UNCUT)

    @cached_property
    def bounds(self) -> tuple[Values, Values]:
        """(boxes, columns): published bounds of every box."""
        return self.axes.bounds(self.nodes.first[self.boxes], self.nodes.last[self.boxes])

    @cached_property
    def losses(self) -> Values:
        """(boxes,): information loss of every box."""
        return mean_loss(self.axes.losses(self.nodes.first[self.boxes], self.nodes.last[self.boxes]))

    def locate(self, quasi: Values) -> Ints:
        """(rows,): box of every row."""
        cells = self.axes.locate(quasi)
        node = np.zeros(len(cells), dtype=np.int64)
        moving = np.arange(len(cells)) if self.nodes.axis[0] != UNCUT else np.empty(0, dtype=np.int64)
        span, starts, children = self._doors
        while moving.size:
            at = node[moving]
            wanted = at * span + cells[moving, self.nodes.axis[at]]
            node[moving] = at = children[np.searchsorted(starts, wanted, side="right") - 1]
            moving = moving[self.nodes.axis[at] != UNCUT]
        return np.searchsorted(self.boxes, node)

    def same_as(self, other: "Partition") -> bool:
        """Whether both are the same grid with the same history."""
        return all(np.array_equal(mine, theirs) for mine, theirs in zip(self.nodes, other.nodes, strict=True))

    @cached_property
    def _doors(self) -> tuple[int, Ints, Ints]:
        """Search index: (parent, first cell of the child on the parent's axis) as one sorted number, and the child."""
        nodes, span = self.nodes, max(axis.cells for axis in self.axes.axes)
        children = np.arange(1, nodes.parent.size)
        parent = nodes.parent[children]
        starts = parent * span + nodes.first[children, nodes.axis[parent]]
        order = np.argsort(starts)
        return span, starts[order], children[order]


def adapt(partition: Partition, released: Released, rule: Rule) -> Partition:
    """Compute the grid of the next window from the grid of this window and the counts published in it."""
    nodes = _remember(partition.nodes, _totals(partition, released))
    merged = _quiet_families(nodes)
    room = rule.max_cells - _boxes_after(nodes, merged)
    plans = {}
    for node, plan in _worth_a_split(partition, nodes, released, rule):
        more = len(plan.starts) - 1
        if more <= room and int(nodes.parent[node]) not in merged:
            plans[node] = plan
            room -= more
    if plans or merged:
        nodes = _rebuild(nodes, plans, merged)
    return Partition(partition.axes, nodes)


class _Plan(NamedTuple):
    """A planned cut of a box."""

    axis: int
    starts: tuple[int, ...]
    """First cells of its parts."""
    enough: float
    gain: float
    """Released rows times the loss on the axis: the priority if there is not room for all cuts."""


class _Node(NamedTuple):
    """One node of a tree under construction. The fields are those of `Nodes`."""

    parent: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    axis: int = UNCUT
    enough: float = 0.0
    quiet: int = 0
    age: int = 0
    rest: int = PATIENCE


def _nodes(built: list[_Node]) -> Nodes:
    return Nodes(
        parent=np.array([node.parent for node in built], dtype=np.int64),
        axis=np.array([node.axis for node in built], dtype=np.int64),
        first=np.array([node.first for node in built], dtype=np.int64),
        last=np.array([node.last for node in built], dtype=np.int64),
        enough=np.array([node.enough for node in built], dtype=np.float64),
        quiet=np.array([node.quiet for node in built], dtype=np.int64),
        age=np.array([node.age for node in built], dtype=np.int64),
        rest=np.array([node.rest for node in built], dtype=np.int64),
    )


def _totals(partition: Partition, released: Released) -> Values:
    """Rows released by all boxes below each node together."""
    totals = np.zeros(partition.nodes.parent.size)
    np.add.at(totals, partition.boxes[released.box], released.rows)
    parents = partition.nodes.parent.tolist()
    # Children come after their parent in preorder, so the reverse order visits every child before its parent.
    for node in range(totals.size - 1, 0, -1):
        totals[parents[node]] += totals[node]
    return totals


def _remember(nodes: Nodes, totals: Values) -> Nodes:
    """Update age, quiet windows and rest after one more window."""
    cut = nodes.axis != UNCUT
    quiet = np.where(cut & (2 * totals < nodes.enough), nodes.quiet + 1, 0)
    age = np.where(cut, np.minimum(nodes.age + 1, LONGEST_REST + 1), np.maximum(nodes.age - 1, 0))
    return nodes._replace(quiet=quiet, age=age)


def _quiet_families(nodes: Nodes) -> set[int]:
    """Nodes to merge: their children are boxes that released too little for too long."""
    parents_of_nodes = nodes.parent[nodes.axis != UNCUT]
    family = nodes.axis != UNCUT
    family[parents_of_nodes[parents_of_nodes >= 0]] = False
    return set(np.flatnonzero(family & (nodes.quiet >= PATIENCE)).tolist())


def _boxes_after(nodes: Nodes, merged: set[int]) -> int:
    """Number of boxes after these nodes are merged."""
    gone = np.isin(nodes.parent, np.array(sorted(merged), dtype=np.int64))
    return int(np.count_nonzero(nodes.axis == UNCUT) - np.count_nonzero(gone) + len(merged))


def _worth_a_split(partition: Partition, nodes: Nodes, released: Released, rule: Rule) -> list[tuple[int, _Plan]]:
    """Boxes whose split is worth it, largest gain first."""
    found = []
    order = np.lexsort((-released.rows, released.box))
    box, count = released.box[order], released.rows[order]
    axes, boxes = partition.axes, partition.boxes
    losses = axes.losses(nodes.first[boxes], nodes.last[boxes])
    starts = np.flatnonzero(np.diff(box, prepend=-1))
    for number, start, stop in zip(box[starts].tolist(), starts, [*starts[1:], box.size], strict=False):
        counts = count[start:stop]
        node = int(boxes[number])
        total = int(counts.sum())
        cells = max(int(np.searchsorted(np.cumsum(counts), rule.survival * total)) + 1, rule.l)
        if cells > counts.size or nodes.age[node] > 0:
            continue
        bar = int(counts[cells - 1])
        parts = _cuts(axes, nodes.first[node].tolist(), nodes.last[node].tolist())
        axis = _widest(losses[number], parts, bar / rule.reach)
        if axis != UNCUT:
            enough = total * len(parts[axis]) * rule.reach / bar
            found.append((node, _Plan(axis, parts[axis], enough, total * float(losses[number, axis]))))
    return sorted(found, key=lambda plan: (-plan[1].gain, plan[0]))


def _cuts(axes: Axes, first: Sequence[int], last: Sequence[int]) -> list[tuple[int, ...]]:
    """First cells of the parts of a box, per axis."""
    return [axis.parts(low, high) for axis, low, high in zip(axes.axes, first, last, strict=True)]


def _losses_of(axes: Axes, node: _Node) -> Values:
    """Information loss of a box on every axis."""
    losses: Values = axes.losses(np.array([node.first]), np.array([node.last]))[0]
    return losses


def _widest(losses: Values, parts: list[tuple[int, ...]], most: float) -> int:
    """Axis to cut: the largest loss among the axes with at most `most` parts; ties go to fewer parts."""
    possible = [axis for axis, starts in enumerate(parts) if 1 < len(starts) <= most]
    return min(possible, key=lambda axis: (-losses[axis], len(parts[axis]), axis), default=UNCUT)


def _rebuild(nodes: Nodes, plans: dict[int, _Plan], merged: set[int]) -> Nodes:
    """Apply splits and merges; return the tree in preorder."""
    built: list[_Node] = []
    place: dict[int, int] = {-1: -1}
    for number, values in enumerate(zip(*(array.tolist() for array in nodes), strict=True)):
        was = _Node(**dict(zip(Nodes._fields, values, strict=True)))
        if was.parent in merged:
            continue
        place[number] = len(built)
        node = was._replace(parent=place[was.parent])
        if number in merged:
            # A split that lasted no longer than the preceding rest was a mistake: rest twice as long.
            rest = min(2 * was.rest, LONGEST_REST) if was.age <= was.rest else PATIENCE
            node = node._replace(axis=UNCUT, enough=0.0, quiet=0, age=rest, rest=rest)
        if number not in plans:
            built.append(node)
            continue
        plan = plans[number]
        built.append(node._replace(axis=plan.axis, enough=plan.enough, quiet=0, age=0))
        built += _children(node, place[number], plan.axis, plan.starts)
    return _nodes(built)


def _children(node: _Node, place: int, axis: int, starts: tuple[int, ...]) -> list[_Node]:
    ends = (*(start - 1 for start in starts[1:]), node.last[axis])
    return [
        _Node(
            place,
            (*node.first[:axis], start, *node.first[axis + 1 :]),
            (*node.last[:axis], end, *node.last[axis + 1 :]),
        )
        for start, end in zip(starts, ends, strict=True)
    ]
